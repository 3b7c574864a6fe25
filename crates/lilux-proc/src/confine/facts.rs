//! What this machine can enforce.

use serde::{Deserialize, Serialize};

use super::landlock::Abi;
use crate::policy::Tier;

/// As it was found out once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The version of Landlock's interface; 0 without Landlock.
    pub landlock: Abi,
    pub seccomp: bool,
}

impl Facts {
    /// Asks the kernel.
    pub fn gather() -> Self {
        let action = libc::SECCOMP_RET_ERRNO;
        // SAFETY: the kernel reads one number.
        let answer =
            unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0, &raw const action) };
        Self { landlock: Abi::of_kernel(), seccomp: answer == 0 }
    }

    /// The strongest level up to the one that is wanted, and why it is less.
    pub fn best(&self, wanted: Tier) -> (Tier, Option<String>) {
        let mut reason = None;
        if wanted == Tier::Cell {
            reason = Some("cells cannot be made yet".to_owned());
        }
        if wanted > Tier::None
            && let Some(without) = self.without_walls()
        {
            return (Tier::None, Some(without.to_owned()));
        }
        (wanted.min(Tier::Walls), reason)
    }

    fn without_walls(&self) -> Option<&'static str> {
        match (self.landlock.0, self.seccomp) {
            (0, _) => Some("this kernel has no Landlock, or does not let us use it"),
            (_, false) => Some("this kernel has no seccomp filters, or does not let us use them"),
            _ => None,
        }
    }
}
