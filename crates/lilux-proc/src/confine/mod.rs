//! From a policy to what this machine can make of it.
//!
//! ```text
//! policy + facts ── decide ──> confinement (supervisor: which level, or a refusal)
//! confinement ── plan ──> everything opened and compiled (keeper, before clone)
//! plan ── seal ──> the tool, just before execve (only system calls)
//! ```

mod capabilities;
mod cell;
mod draft;
pub mod facts;
mod filter;
mod group;
mod hidden;
mod holder;
mod init;
mod landlock;
mod layout;
mod mounts;
mod places;
mod plan;
mod probe;
mod seal;
mod syscalls;
mod ways_in;

use serde::{Deserialize, Serialize};

pub use facts::Facts;
pub use filter::{Instruction, Is, Rule, Table, Test, Verdict, compile};
#[cfg(test)]
pub use filter::{OWN_ARCH, interpret};
pub use group::Group;
pub use holder::Namespaces;
pub use places::{DEVICES as COMMON_DEVICES, SYSTEM};
pub use plan::Plan;

use crate::door::channel::Opening;
use crate::error::SpawnError;
use crate::policy::{Net, Policy, Tier};

/// A policy, and how much of it this machine can enforce.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Confinement {
    pub policy: Policy,
    pub level: Tier,
    pub facts: Facts,
    pub reason: Option<String>,
}

impl Confinement {
    /// Refuses a policy that requires more than can be enforced here.
    pub fn decide(policy: &Policy, facts: &Facts) -> Result<Self, SpawnError> {
        let (level, reason) = facts.best(policy.tier);
        if let Some(reason) = reason.as_deref().filter(|_| policy.require > level) {
            return Err(unavailable(reason));
        }
        if policy.require > Tier::None
            && let Some(reason) = unmet_net(&policy.net, level, facts)
        {
            return Err(unavailable(&reason));
        }
        Ok(Self { policy: policy.clone(), level, facts: facts.clone(), reason })
    }

    /// The hosts to which the door leads: a cell has a way to it, and walls have one where there can be a broker.
    pub fn opening(&self) -> Option<&Opening> {
        match &self.policy.net {
            Net::Hosts(opening) if tells_hosts_apart(self.level, &self.facts) => Some(opening),
            _ => None,
        }
    }
}

/// What of a network cannot be promised here.
fn unmet_net(net: &Net, level: Tier, facts: &Facts) -> Option<String> {
    match net {
        Net::Hosts(_) if !tells_hosts_apart(level, facts) => {
            let why = facts.no_broker.as_deref().unwrap_or("nothing else is enforced");
            Some(format!("hosts are told apart only in a cell here: {why}"))
        }
        Net::Ports(_) if !facts.landlock.knows_ports() => {
            Some("this kernel's Landlock knows no ports (Linux 6.7)".to_owned())
        }
        _ => None,
    }
}

fn tells_hosts_apart(level: Tier, facts: &Facts) -> bool {
    level == Tier::Cell || (level == Tier::Walls && facts.broker)
}

fn unavailable(reason: &str) -> SpawnError {
    let message = format!("this run requires more isolation than this machine can enforce: {reason}");
    SpawnError::new("isolation_unavailable", "isolate", None, message)
}
