//! What this machine can enforce.

use serde::{Deserialize, Serialize};

use super::group::Groups;
use super::landlock::Abi;
use crate::policy::{Proc, Tier};

/// How a cell can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CellKind {
    /// By root with CAP_SYS_ADMIN, who needs no user namespace.
    Administrator,
    UserNamespace,
}

/// As it was found out once, by making a whole cell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The version of Landlock's interface; 0 without Landlock.
    pub landlock: Abi,
    pub seccomp: bool,
    pub cell: Option<CellKind>,
    /// Why there are no cells.
    pub no_cell: Option<String>,
    /// Whose processes are seen in a cell.
    pub proc: Proc,
    /// In walls, hosts are told apart by name, too.
    #[serde(default)]
    pub broker: bool,
    /// Why they are not.
    #[serde(default)]
    pub no_broker: Option<String>,
    /// Where the processes of a run are limited together.
    #[serde(default)]
    pub groups: Option<Groups>,
    /// Why they are not.
    #[serde(default)]
    pub no_groups: Option<String>,
}

impl Facts {
    /// For a run that has a listener of another kind.
    pub fn without_broker(self, reason: &str) -> Self {
        Self { broker: false, no_broker: Some(reason.to_owned()), ..self }
    }

    /// The strongest level up to the one that is wanted, and why it is less.
    pub fn best(&self, wanted: Tier) -> (Tier, Option<String>) {
        if wanted == Tier::None {
            return (wanted, None);
        }
        if !self.seccomp {
            return (Tier::None, Some("there are no seccomp filters here".to_owned()));
        }
        if wanted == Tier::Cell && self.cell.is_some() {
            return (wanted, None);
        }
        let cell = self.no_cell.clone().filter(|_| wanted == Tier::Cell);
        if self.landlock.0 > 0 {
            return (Tier::Walls, cell);
        }
        let landlock = "there is no Landlock here".to_owned();
        (Tier::None, Some(cell.map_or(landlock.clone(), |cell| format!("{cell}; {landlock}"))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(landlock: u32, seccomp: bool, cell: bool) -> Facts {
        Facts {
            landlock: Abi(landlock),
            seccomp,
            cell: cell.then_some(CellKind::UserNamespace),
            no_cell: (!cell).then(|| "no user namespaces".to_owned()),
            proc: Proc::Private,
            broker: false,
            no_broker: None,
            groups: None,
            no_groups: None,
        }
    }

    #[test]
    fn the_strongest_level_is_the_one_that_was_asked_for_or_the_next() {
        let table = [
            (facts(7, true, true), Tier::Cell, Tier::Cell),
            (facts(7, true, true), Tier::Walls, Tier::Walls),
            (facts(7, true, false), Tier::Cell, Tier::Walls),
            (facts(0, true, true), Tier::Cell, Tier::Cell),
            (facts(0, true, true), Tier::Walls, Tier::None),
            (facts(0, true, false), Tier::Cell, Tier::None),
            (facts(7, false, true), Tier::Cell, Tier::None),
            (facts(7, true, true), Tier::None, Tier::None),
        ];
        for (facts, wanted, expected) in table {
            let (level, reason) = facts.best(wanted);
            assert_eq!(level, expected, "{facts:?} {wanted:?}");
            assert_eq!(reason.is_some(), level < wanted, "{facts:?} {wanted:?}");
        }
    }
}
