//! One run's confinement, with everything opened and compiled before its process exists.

use std::os::fd::{OwnedFd, RawFd};

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Resource, getuid};

use super::Confinement;
use super::cell::Cell;
use super::draft::Draft;
use super::facts::{CellKind, Facts};
use super::holder::Namespaces;
use super::seal::{Filter, Seal};
use crate::door::entrance::Entrance;
use crate::error::SpawnError;
use crate::notify::{Mailbox, Post};
use crate::policy::{Enforced, Policy, Tier};
use crate::sys::launch::{Chamber, Guardian, Limits, Refused, Restriction};

/// What a keeper applies, and what can be said of it once it has been applied.
#[derive(Debug)]
pub struct Plan<'a> {
    seal: Seal,
    cell: Option<Cell<'a>>,
    /// What init waits at the end of.
    pub lifeline: Option<OwnedFd>,
    /// Holds when the launch has succeeded: every step of the plan is one that fails it.
    pub enforced: Option<Enforced>,
}

impl<'a> Plan<'a> {
    /// For a run without a policy.
    pub fn unconfined(limits: Limits) -> Self {
        let seal = Seal { limits, resources: Vec::new(), confinement: None, post: None };
        Self { seal, cell: None, lifeline: None, enforced: None }
    }

    /// Opens every place that the policy names. Cells need the keeper's namespaces, which are made for the first of them.
    pub fn make(
        confinement: &Confinement,
        limits: Limits,
        namespaces: &'a mut Option<Namespaces>,
        door: Option<&'a Entrance>,
    ) -> Result<Self, SpawnError> {
        let draft = Draft::of(confinement);
        let (walls, cell, mut enforced) = match confinement.level {
            Tier::None => (None, None, draft.open()),
            Tier::Walls => {
                let (walls, enforced) = draft.walls()?;
                (Some(walls), None, enforced)
            }
            Tier::Cell => {
                let (walls, parts, enforced) = draft.cell()?;
                let namespaces = namespaces_of(namespaces, &confinement.facts)?;
                (Some(walls), Some((parts, namespaces)), enforced)
            }
        };
        let counted = cell.as_ref().map(|(_, namespaces)| namespaces.user.is_some() && !getuid().is_root());
        let resources = resources(&confinement.policy, counted, &mut enforced);
        let seal = Seal { limits, resources, confinement: walls, post: None };
        let mut plan = Self { seal, cell: None, lifeline: None, enforced: Some(enforced) };
        if let Some((parts, namespaces)) = cell {
            let piped =
                pipe_with(PipeFlags::CLOEXEC).map_err(|errno| SpawnError::resources("cell", errno))?;
            plan.lifeline = Some(piped.1);
            plan.cell = Some(parts.with(namespaces, piped.0, door));
        }
        Ok(plan)
    }

    /// Where the calls are told of that somebody has to answer.
    pub fn take_mailbox(&mut self) -> Option<Mailbox> {
        match &mut self.seal.confinement.as_mut()?.filter {
            Some(Filter::Telling(_, mailbox)) => mailbox.take(),
            _ => None,
        }
    }

    /// Its calls are told of, too.
    pub fn observe(&mut self, post: Option<Post>) {
        self.seal.post = post;
    }
}

impl Restriction for Plan<'_> {
    fn chamber(&self) -> Option<&dyn Chamber> {
        self.cell.as_ref().map(|_| self as &dyn Chamber)
    }

    fn is_confining(&self) -> bool {
        self.seal.confinement.is_some()
    }

    fn name_of(&self, step: usize) -> String {
        self.cell.as_ref().map(|cell| cell.layout.name_of(step)).unwrap_or_default()
    }

    fn enter(&self) -> Result<(), Refused> {
        self.cell.as_ref().map_or(Ok(()), Cell::enter)
    }

    fn descriptors(&self) -> [Option<RawFd>; 2] {
        self.seal.descriptors()
    }

    fn seal(&self) -> Result<(), Refused> {
        self.seal.apply()
    }
}

impl Chamber for Plan<'_> {
    fn build(&self) -> Result<(), Refused> {
        let ruleset = self.seal.confinement.as_ref().and_then(|walls| walls.ruleset.as_ref());
        self.cell.as_ref().map_or(Ok(()), |cell| cell.build(ruleset))
    }

    fn guardian(&self) -> Guardian {
        let descriptor = self.cell.as_ref().map_or(-1, Cell::waits_at);
        Guardian { main: super::init::main, descriptor }
    }
}

fn namespaces_of<'a>(kept: &'a mut Option<Namespaces>, facts: &Facts) -> Result<&'a Namespaces, SpawnError> {
    if kept.is_none() {
        let made = Namespaces::make(facts.cell == Some(CellKind::UserNamespace));
        *kept = Some(made.map_err(|errno| {
            let message = format!("the namespaces of a cell could not be made: {errno}");
            SpawnError::new("isolation_unavailable", "isolate", Some(errno), message)
        })?);
    }
    kept.as_ref().ok_or_else(|| SpawnError::resources("cell", Errno::CHILD))
}

/// Limits that a process carries with itself. `counted` is for cells: whether their processes are counted by themselves.
fn resources(policy: &Policy, counted: Option<bool>, enforced: &mut Enforced) -> Vec<(Resource, u64)> {
    let limits = &policy.limits;
    let mut resources = Vec::new();
    for (limit, name, resource, possible) in [
        (limits.data, "data", Some(Resource::Data), true),
        // Elsewhere it would count all processes of the user.
        (limits.processes, "processes", Some(Resource::Nproc), counted == Some(true)),
        (limits.temp, "temp", None, counted.is_some()),
        (limits.memory, "memory", None, false),
    ] {
        let Some(limit) = limit else { continue };
        let said = if possible { &mut enforced.limits } else { &mut enforced.unenforced };
        said.push(name.to_owned());
        resources.extend(resource.filter(|_| possible).map(|resource| (resource, limit)));
    }
    resources
}
