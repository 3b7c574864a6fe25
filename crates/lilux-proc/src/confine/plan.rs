//! One run's confinement, with everything opened and compiled before its process exists.

use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Resource, getrlimit, getuid};

use super::Confinement;
use super::capabilities::Capabilities;
use super::cell::Cell;
use super::draft::Draft;
use super::group::{Group, Groups};
use super::holder::{Namespaces, Users};
use super::landlock::Ruleset;
use super::seal::{Filter, Seal};
use super::ways_in::{self, Entries, WaysIn};
use crate::door::entrance::Entrance;
use crate::error::SpawnError;
use crate::notify::{Mailbox, Post};
use crate::policy::{Enforced, Policy, Tier};
use crate::switches::StopAt;
use crate::sys::launch::{self, Chamber, Guardian, Init, LaunchError, Limits, Refused, Restriction};
use crate::wire::Role;

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
        let seal = Seal { limits, resources: Vec::new(), group: None, confinement: None, post: None };
        Self { seal, cell: None, lifeline: None, enforced: None }
    }

    /// Opens every place that the policy names. Cells need the keeper's namespaces, which are made for the first of them.
    pub fn make(
        confinement: &Confinement,
        limits: Limits,
        namespaces: &'a mut Option<Namespaces>,
        door: Option<&'a Entrance>,
        role: Role,
    ) -> Result<Self, SpawnError> {
        let draft = Draft::of(confinement);
        let (walls, cell, mut enforced) = match confinement.level {
            Tier::None => (None, None, draft.open()),
            Tier::Walls => {
                let (walls, enforced) = draft.walls()?;
                (Some(walls), None, enforced)
            }
            Tier::Cell => {
                let (walls, parts, enforced) = draft.cell(role)?;
                let namespaces = namespaces_of(namespaces, Users::of(&confinement.facts, role))?;
                (Some(walls), Some((parts, namespaces)), enforced)
            }
        };
        let counted = cell.as_ref().map(|(_, namespaces)| namespaces.user.is_some() && !getuid().is_root());
        let groups = confinement.facts.groups.as_ref();
        let mut resources = resources(&confinement.policy, counted, groups, &mut enforced);
        resources.extend(walls.is_some().then(descriptors));
        let together = together(&confinement.policy, groups);
        // What is forked from a zygote is in the group of that one.
        let group = groups.filter(|_| role != Role::Forked && !together.is_empty());
        let group = group.map(|groups| Group::make(&groups.directory, &together)).transpose();
        let group = group.map_err(|errno| SpawnError::resources("group", errno))?;
        let seal = Seal { limits, resources, group, confinement: walls, post: None };
        let mut plan = Self { seal, cell: None, lifeline: None, enforced: Some(enforced) };
        if let Some((parts, namespaces)) = cell {
            let piped =
                pipe_with(PipeFlags::CLOEXEC).map_err(|errno| SpawnError::resources("cell", errno))?;
            plan.lifeline = Some(piped.1);
            let mut cell = parts.with(namespaces, piped.0, door);
            if role == Role::Forked {
                cell.ways_in = Some(WaysIn::new().map_err(|errno| SpawnError::resources("cell", errno))?);
            }
            plan.cell = Some(cell);
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

    /// What has to be kept until nobody of the run is left.
    pub fn take_group(&mut self) -> Option<Group> {
        self.seal.group.take()
    }

    /// Makes a cell for a process that enters it by itself: process 1, and the ways in.
    pub fn found(&self) -> Result<(Init, Entries), LaunchError> {
        let init = launch::found(self)?;
        let entries = self.cell.as_ref().and_then(|cell| cell.ways_in.as_ref()).and_then(WaysIn::take);
        entries.map(|entries| (init, entries)).ok_or_else(LaunchError::lost)
    }

    /// The walls that a process is to enter by itself.
    pub fn ruleset(&self) -> Option<BorrowedFd<'_>> {
        self.seal.confinement.as_ref()?.ruleset.as_ref().map(Ruleset::as_fd)
    }

    /// The capabilities that a process may keep after it has entered.
    pub fn keep(&self) -> Capabilities {
        self.seal.confinement.as_ref().and_then(|walls| walls.keep).unwrap_or_default()
    }

    /// The kernel's word that somebody has come in, and is confined.
    pub fn check(&self, pid: Pid, entries: &Entries) -> Result<(), &'static str> {
        let cell = self.cell.as_ref().ok_or("cell")?;
        ways_in::check(pid, entries, cell.namespaces, cell.own_network, self.keep())
    }

    /// A test wants to kill somebody while the cell is being made.
    pub fn stop(&mut self, at: StopAt) {
        if let Some(cell) = &mut self.cell {
            cell.stop_at = at;
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

    fn descriptors(&self) -> [Option<RawFd>; 3] {
        self.seal.descriptors()
    }

    fn seal(&self) -> Result<(), Refused> {
        self.seal.apply()
    }
}

impl Chamber for Plan<'_> {
    fn build(&self) -> Result<(), Refused> {
        let walls = self.seal.confinement.as_ref().filter(|walls| walls.hold.is_none());
        let ruleset = walls.and_then(|walls| walls.ruleset.as_ref());
        self.cell.as_ref().map_or(Ok(()), |cell| cell.build(ruleset))
    }

    /// A zygote is in no namespace of processes that somebody would have to hold together.
    fn has_guard(&self) -> bool {
        self.cell.as_ref().is_some_and(|cell| !cell.is_of_zygote())
    }

    fn complete(&self) -> Result<(), Refused> {
        self.cell.as_ref().map_or(Ok(()), Cell::complete)
    }

    fn prepare_guard(&self) -> Result<(), Refused> {
        self.cell.as_ref().map_or(Ok(()), Cell::prepare_guard).map_err(Refused::at("process 1"))
    }

    fn guardian(&self) -> Guardian {
        let descriptor = self.cell.as_ref().map_or(-1, Cell::waits_at);
        Guardian { main: super::init::main, descriptor }
    }
}

fn namespaces_of(kept: &mut Option<Namespaces>, users: Users) -> Result<&Namespaces, SpawnError> {
    if kept.is_none() {
        let made = Namespaces::make(users);
        *kept = Some(made.map_err(|errno| {
            let message = format!("the namespaces of a cell could not be made: {errno}");
            SpawnError::new("isolation_unavailable", "isolate", Some(errno), message)
        })?);
    }
    kept.as_ref().ok_or_else(|| SpawnError::resources("cell", Errno::CHILD))
}

/// Limits that a process carries with itself. `counted` is for cells: whether their processes are counted by themselves.
fn resources(
    policy: &Policy,
    counted: Option<bool>,
    groups: Option<&Groups>,
    enforced: &mut Enforced,
) -> Vec<(Resource, u64)> {
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
        let in_group = groups.is_some_and(|groups| groups.can_limit(name));
        let (possible, resource) = (possible || in_group, resource.filter(|_| !in_group));
        let said = if possible { &mut enforced.limits } else { &mut enforced.unenforced };
        said.push(name.to_owned());
        resources.extend(resource.filter(|_| possible).map(|resource| (resource, limit)));
    }
    resources
}

/// The kernel counts the descriptors that all processes of a user are sending. A process whose own limit is lower than this count cannot
/// send one more. A tool with the limit of its supervisor could keep it from starting anything, so the tool gets a lower one.
fn descriptors() -> (Resource, u64) {
    let own = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    (Resource::Nofile, own / 4 * 3)
}

/// Limits of all processes of a run together.
fn together(policy: &Policy, groups: Option<&Groups>) -> Vec<(&'static str, u64)> {
    let limits = [("processes", policy.limits.processes), ("memory", policy.limits.memory)];
    let can = |name| groups.is_some_and(|groups| groups.can_limit(name));
    limits
        .into_iter()
        .filter(|(name, _)| can(name))
        .filter_map(|(name, limit)| limit.map(|limit| (name, limit)))
        .collect()
}
