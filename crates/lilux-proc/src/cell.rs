//! A cell as its keeper sees it while the tool runs: process 1 of it, and the pipe that this one waits at.

use std::os::fd::OwnedFd;

use rustix::process::{Pid, Signal};

use crate::sys::children::Children;
use crate::sys::launch::Init;

/// Whoever is in it is dead when init is.
pub struct Cell {
    pub init: Pid,
    process: Init,
    lifeline: OwnedFd,
    inside: Children,
    told: bool,
}

impl Cell {
    /// `init` is a child of this process.
    pub fn new(process: Init, lifeline: OwnedFd) -> Self {
        let init = process.pid;
        Self { init, process, lifeline, inside: Children::of(init), told: false }
    }

    /// Init has been reaped.
    pub fn reaped(self) {
        self.process.reaped();
    }

    /// From now on init ends, and so wakes its keeper, when nobody is left.
    pub fn leader_has_ended(&mut self) {
        if !self.told {
            self.told = true;
            // If init is gone, nobody is left, and that is what is waited for.
            let _ = rustix::io::write(&self.lifeline, b"e");
        }
    }

    /// Orphans come to init, so without a child of init only the tool itself may be left.
    pub fn is_empty(&self) -> bool {
        self.inside.list().is_ok_and(|inside| inside.is_empty())
    }

    /// Those who have come to init.
    pub fn left(&self) -> Vec<i32> {
        let inside = self.inside.list().unwrap_or_default();
        inside.into_iter().map(|pid| pid.as_raw_nonzero().get()).collect()
    }

    /// How many have come to init.
    pub fn count(&self) -> usize {
        self.inside.list().map_or(0, |inside| inside.len())
    }

    /// The kernel ends everybody with it.
    pub fn kill(&self) {
        // Our own unreaped child: the number cannot mean anybody else.
        let _ = rustix::process::kill_process(self.init, Signal::KILL);
    }
}
