//! When a keeper was killed: its tree has become ours, and is killed here.
//!
//! A direct child of the supervisor that is no keeper, nor the door, has escaped from a keeper. Killing it makes its own
//! children ours, so this goes on until only keepers and the door are left. Only then do the runs of the dead keeper end.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use super::{Engine, Notice};
use crate::poller::{Alarm, Key};
use crate::pool::Job;
use crate::protocol::Event;
use crate::run::Run;
use crate::switches::Guard;

pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// The same for those who have withstood SIGKILL so long that nobody waits for them any more.
const LATER: Duration = Duration::from_millis(50);
const DEADLINE: Duration = Duration::from_secs(5);

/// A search for escapees in progress.
pub(super) struct Sweep {
    deadline: Instant,
    runs: Vec<Run>,
}

impl Engine {
    /// The keeper has ended, or can no longer be trusted. A keeper that was sent home is not a loss.
    pub(super) fn lose_keeper(&mut self, key: Key) {
        let Some(keeper) = self.keepers.dismiss(key, &self.poller) else { return };
        let forked = keeper.forked.and_then(|forked| self.take_run(forked));
        let lost = match keeper.job {
            Some(Job::Run(run)) => self.take_run(run),
            Some(Job::KillPid { request, pid: _ }) => {
                let (code, stage) = ("keeper_lost".to_owned(), "kill".to_owned());
                let message = "the process that should have done it was killed".to_owned();
                let event = Event::Error { id: Some(request), code, stage, errno: None, message };
                self.notices.push(Notice::Event(event));
                None
            }
            None => None,
        };
        self.begin_sweep(lost.into_iter().chain(forked));
    }

    /// A keeper is gone or going, and what it leaves behind comes to us. `lost` ends when nothing of it is left.
    pub(super) fn begin_sweep(&mut self, lost: impl IntoIterator<Item = Run>) {
        let sweep = self.sweep.get_or_insert_with(|| Sweep { deadline: Instant::now(), runs: Vec::new() });
        sweep.deadline = Instant::now() + DEADLINE;
        sweep.runs.extend(lost);
        self.sweep_once();
    }

    /// It does not answer: stopped, or caught in the kernel. Dead, it at least gives up what it holds.
    pub(super) fn give_up_on_keeper(&mut self, key: Key) {
        let Some(run) = self.runs.get_mut(&key) else { return };
        run.overdue_at = None;
        let keeper = run.keeper;
        self.keepers.kill(keeper);
    }

    pub(super) fn sweep_once(&mut self) {
        let escaped = self.kill_escapees();
        let Some(sweep) = &self.sweep else { return };
        let over = Instant::now() >= sweep.deadline;
        if !over && (escaped || self.keepers.has_dismissed()) {
            self.timers.set(LOOK_AGAIN, Alarm::Sweep);
            return;
        }
        self.remove_groups();
        for run in self.sweep.take().into_iter().flat_map(|sweep| sweep.runs) {
            self.close_lost(&run);
        }
        if escaped {
            // Whoever waited has an answer; the search goes on for as long as it finds somebody.
            self.sweep = Some(Sweep { deadline: Instant::now(), runs: Vec::new() });
            self.timers.set(LATER, Alarm::Sweep);
        }
    }

    /// Of keepers that have been reaped. While a sweep goes on, somebody of theirs may be alive.
    pub(super) fn remove_groups(&mut self) {
        let gone = std::mem::take(&mut self.gone);
        let groups = self.facts.as_ref().and_then(|facts| facts.groups.as_ref());
        if let Some(groups) = groups.filter(|_| !gone.is_empty()) {
            groups.remove_of(&gone);
        }
    }

    /// A child that has not escaped from anybody.
    pub(super) fn is_ours(&self, pid: Pid) -> bool {
        self.keepers.is_keeper(pid) || self.door.is(pid)
    }

    /// SIGKILL for every child that is not ours; true when there was one.
    pub(super) fn kill_escapees(&mut self) -> bool {
        let children = self.children.list().unwrap_or_default();
        let mut escaped = false;
        if !Guard::Sweep.is_on() {
            return escaped;
        }
        for pid in children.into_iter().filter(|pid| !self.is_ours(*pid)) {
            escaped = true;
            // Our own unreaped child: the number cannot mean anybody else.
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        escaped
    }
}
