//! One run's confinement, with everything opened and compiled before its process exists.

use rustix::process::{Resource, geteuid};

use super::Confinement;
use super::capabilities::{Capabilities, FOR_OTHERS_FILES};
use super::facts::Facts;
use super::filter::{Instruction, compile};
use super::landlock::{Access, Ruleset, Tcp};
use super::places::{self, DEVICES, ETC, Place, SYSTEM, those_there};
use super::seal::{Seal, Walls};
use super::syscalls::{Shape, Sockets, table};
use crate::error::SpawnError;
use crate::policy::{Enforced, Net, Policy, Proc, Tier};
use crate::switches::Guard;
use crate::sys::launch::Limits;

/// What a keeper applies, and what can be said of it once it has been applied.
#[derive(Debug)]
pub struct Plan {
    pub seal: Seal,
    /// Holds when the launch has succeeded: every step of the plan is one that fails it.
    pub enforced: Option<Enforced>,
}

impl Plan {
    /// For a run without a policy.
    pub fn unconfined(limits: Limits) -> Self {
        Self { seal: Seal { limits, resources: Vec::new(), confinement: None }, enforced: None }
    }

    /// Opens every place that the policy names.
    pub fn make(confinement: &Confinement, limits: Limits) -> Result<Self, SpawnError> {
        let policy = &confinement.policy;
        let mut enforced = Enforced {
            level: confinement.level,
            net: Net::Any,
            proc: Proc::Shared,
            limits: Vec::new(),
            capabilities: Vec::new(),
            unenforced: Vec::new(),
            reason: confinement.reason.clone(),
        };
        let walls = match confinement.level {
            Tier::None => {
                if policy.tier > Tier::None {
                    enforced.unenforced.push("everything".to_owned());
                }
                None
            }
            Tier::Walls | Tier::Cell => Some(walls(policy, &confinement.facts, &mut enforced)?),
        };
        let resources = resources(policy, &mut enforced);
        Ok(Self { seal: Seal { limits, resources, confinement: walls }, enforced: Some(enforced) })
    }
}

fn walls(policy: &Policy, facts: &Facts, enforced: &mut Enforced) -> Result<Walls, SpawnError> {
    let sockets = sockets(&policy.net, facts, enforced);
    let ruleset = match sockets {
        Sockets::Any => Ruleset::new(facts.landlock, Tcp::Unhandled),
        Sockets::None => Ruleset::new(facts.landlock, Tcp::Only(&[])),
        Sockets::Tcp => Ruleset::new(facts.landlock, Tcp::Only(ports(&policy.net))),
    };
    let ruleset = ruleset.map_err(|errno| SpawnError::resources("landlock", errno))?;
    let root = geteuid().is_root();
    let written = written(policy)?;
    allow_system(&ruleset, root, sockets != Sockets::None)?;
    allow_granted(&ruleset, policy, &written)?;
    let keep =
        if root && places::owned_by_others(&written) { FOR_OTHERS_FILES } else { Capabilities::default() };
    enforced.capabilities = keep.names();
    enforced.unenforced.extend(gaps(policy, facts).map(str::to_owned));
    let shape = Shape { cell: false, sockets, root };
    Ok(Walls {
        keep: Guard::Capabilities.is_on().then_some(keep),
        ruleset: Guard::Landlock.is_on().then_some(ruleset),
        filter: filter(shape),
    })
}

fn filter(shape: Shape) -> Option<Vec<Instruction>> {
    Guard::Seccomp.is_on().then(|| compile(&table(shape)))
}

/// What of the network can be enforced.
fn sockets(net: &Net, facts: &Facts, enforced: &mut Enforced) -> Sockets {
    let (sockets, missing) = match net {
        Net::None => (Sockets::None, None),
        Net::Any => (Sockets::Any, None),
        Net::Ports(_) if facts.landlock.knows_ports() => (Sockets::Tcp, None),
        Net::Ports(_) => (Sockets::Any, Some("ports")),
        Net::Hosts(_) => (Sockets::Any, Some("hosts")),
    };
    enforced.net = if missing.is_some() { Net::Any } else { net.clone() };
    enforced.unenforced.extend(missing.map(str::to_owned));
    sockets
}

fn ports(net: &Net) -> &[u16] {
    if let Net::Ports(ports) = net { ports } else { &[] }
}

fn written(policy: &Policy) -> Result<Vec<Place>, SpawnError> {
    policy.write.iter().map(Place::granted).collect()
}

/// What every program needs.
fn allow_system(ruleset: &Ruleset, root: bool, network: bool) -> Result<(), SpawnError> {
    let etc: &[&str] = if root { ETC } else { &[] };
    let shared = SYSTEM.iter().copied().filter(|path| !(root && *path == "/etc"));
    let shared: Vec<&str> = shared.chain(etc.iter().copied()).chain(["/proc"]).collect();
    for place in those_there(&shared) {
        place.allow(ruleset, Access::Read)?;
    }
    if network && let Some(real) = places::resolver() {
        let place = Place::open(real.as_os_str().as_encoded_bytes());
        place.map_or(Ok(()), |place| place.allow(ruleset, Access::Read))?;
    }
    those_there(DEVICES).try_for_each(|device| device.allow(ruleset, Access::Device))
}

fn allow_granted(ruleset: &Ruleset, policy: &Policy, written: &[Place]) -> Result<(), SpawnError> {
    for path in &policy.read {
        Place::granted(path)?.allow(ruleset, Access::Read)?;
    }
    for path in &policy.devices {
        Place::granted(path)?.allow(ruleset, Access::Device)?;
    }
    written.iter().try_for_each(|place| place.allow(ruleset, Access::Write))
}

/// What walls leave open, of what a cell would close and of what the policy asks for.
fn gaps(policy: &Policy, facts: &Facts) -> impl Iterator<Item = &'static str> {
    let asked = [
        (policy.protect.is_empty(), "protected_paths"),
        (policy.mask.is_empty(), "masked_paths"),
        (policy.binds.is_empty(), "binds"),
    ];
    let asked = asked.into_iter().filter(|(empty, _)| !empty).map(|(_, name)| name);
    asked.chain(["metadata_outside", "cmdlines"]).chain(facts.landlock.gaps())
}

/// Limits that a process carries with itself.
fn resources(policy: &Policy, enforced: &mut Enforced) -> Vec<(Resource, u64)> {
    let mut resources = Vec::new();
    let limits = &policy.limits;
    if let Some(data) = limits.data {
        resources.push((Resource::Data, data));
        enforced.limits.push("data".to_owned());
    }
    for (limit, name) in [(limits.processes, "processes"), (limits.memory, "memory"), (limits.temp, "temp")] {
        if limit.is_some() {
            enforced.unenforced.push(name.to_owned());
        }
    }
    resources
}
