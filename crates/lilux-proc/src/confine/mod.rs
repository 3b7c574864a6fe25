//! From a policy to what this machine can make of it.

use serde::{Deserialize, Serialize};

use crate::door::channel::Opening;
use crate::error::SpawnError;
use crate::policy::{Enforced, Net, Policy, Proc, Tier};

/// A policy, and how much of it this machine can enforce.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Confinement {
    pub policy: Policy,
    pub level: Tier,
    pub reason: Option<String>,
}

impl Confinement {
    /// Refuses a policy that requires more than can be enforced here.
    pub fn decide(policy: &Policy) -> Result<Self, SpawnError> {
        let (level, reason) = (Tier::None, Some("this version enforces nothing yet".to_owned()));
        if policy.require > level {
            let message = format!("isolation is not available: {}", reason.as_deref().unwrap_or_default());
            return Err(SpawnError::new("isolation_unavailable", "isolate", None, message));
        }
        let reason = reason.filter(|_| policy.tier > level);
        Ok(Self { policy: policy.clone(), level, reason })
    }

    /// The hosts to which the door leads. Only a cell has a way to it.
    pub fn opening(&self) -> Option<&Opening> {
        match &self.policy.net {
            Net::Hosts(opening) if self.level == Tier::Cell => Some(opening),
            _ => None,
        }
    }

    /// What a run of this level can be said to be confined to.
    pub fn enforced(&self) -> Enforced {
        let unenforced =
            if self.policy.tier == Tier::None { Vec::new() } else { vec!["everything".to_owned()] };
        let (level, reason) = (self.level, self.reason.clone());
        let (limits, capabilities) = (Vec::new(), Vec::new());
        Enforced { level, net: Net::Any, proc: Proc::Shared, limits, capabilities, unenforced, reason }
    }
}
