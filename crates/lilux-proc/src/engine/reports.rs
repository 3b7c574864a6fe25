//! What keepers answer, and how a run ends.

use super::{DRAIN, Engine, Notice};
use crate::channel::ReadOutcome;
use crate::error::{RequestError, SpawnError};
use crate::poller::{Alarm, Key};
use crate::pool::Job;
use crate::protocol::{Event, KillMethod, Stream};
use crate::run::{self, Outcome, Phase, Run};
use crate::sys::wait::Ending;
use crate::wire::{self, EndReport, Received, Report};

/// Reads after the tree is dead: far more than a pipe holds, and still an end should a stranger keep writing.
const LAST_READS: usize = 256;

impl Engine {
    pub(super) fn hear_keeper(&mut self, key: Key) {
        let Some(keeper) = self.keepers.get(key) else { return };
        let job = keeper.job;
        match wire::receive_report(&keeper.socket, &mut self.letters) {
            Received::Message(report) => self.hear(key, job, report),
            Received::Nothing => {}
            Received::EndOfFile => self.lose_keeper(key),
        }
    }

    fn hear(&mut self, keeper: Key, job: Option<Job>, report: Report) {
        match (job, report) {
            (Some(Job::Run(_)), Report::OfForked(report)) => self.hear_of_forked(keeper, *report),
            (Some(Job::Run(run)), report) => self.hear_of_run(keeper, run, report),
            (Some(Job::KillPid { request, pid }), Report::PidKilled { method }) => {
                self.keepers.release(keeper);
                self.notices.push(Notice::Event(Event::Killed { id: request, pid: Some(pid), method }));
            }
            (Some(Job::KillPid { request, .. }), Report::PidRefused { code, errno, message }) => {
                self.keepers.release(keeper);
                let stage = "kill".to_owned();
                self.notices.push(Notice::Event(Event::Error {
                    id: Some(request),
                    code,
                    stage,
                    errno,
                    message,
                }));
            }
            // A keeper that says what it cannot mean is not to be trusted with another run.
            _ => self.lose_keeper(keeper),
        }
    }

    fn hear_of_run(&mut self, keeper: Key, key: Key, report: Report) {
        match report {
            Report::Started { pid, enforced, memory_kb } => {
                if let Some(run) = self.runs.get_mut(&key).filter(|run| run.phase == Phase::Parked) {
                    run.tool = Some((pid, enforced.clone()));
                    self.notices.push(Notice::Event(Event::Parked { id: run.id, pid, enforced, memory_kb }));
                    return;
                }
                if let Some(run) = self.runs.get_mut(&key) {
                    run.tool = Some((pid, enforced));
                }
                self.announce(key);
                self.send_output(key);
            }
            Report::Failed { error } => {
                self.keepers.release(keeper);
                self.answer_killers(key, KillMethod::AlreadyDead);
                self.close_run(key, Outcome::Failed(error));
                self.plan_trim();
            }
            Report::Lingering { ending, .. } => self.begin_draining(key, ending),
            Report::Ended(end) => self.end_run(keeper, key, end),
            Report::PidKilled { .. } | Report::PidRefused { .. } | Report::OfForked(_) => {
                self.lose_keeper(keeper);
            }
        }
    }

    /// The keeper goes on to look after its zygote, unless it can promise nothing any more.
    fn hear_of_forked(&mut self, keeper: Key, report: Report) {
        let Some(key) = self.keepers.get(keeper).and_then(|keeper| keeper.forked) else {
            return self.lose_keeper(keeper);
        };
        match report {
            Report::Failed { error } => {
                self.keepers.set_forked(keeper, None);
                self.answer_killers(key, KillMethod::AlreadyDead);
                self.close_run(key, Outcome::Failed(error));
            }
            Report::Ended(end) => {
                self.keepers.set_forked(keeper, None);
                let clean = end.survivors.is_empty() && !end.unfit;
                self.close_ended(key, end);
                if !clean {
                    self.lose_keeper(keeper);
                }
            }
            report => self.hear_of_run(keeper, key, report),
        }
    }

    /// The tool is gone, its children are not. What they still write is read, for a while.
    fn begin_draining(&mut self, key: Key, ending: Ending) {
        self.notify_exited(key, ending);
        if let Some(run) = self.runs.get_mut(&key) {
            run.phase = Phase::Draining;
            self.timers.set(DRAIN, Alarm::Drained(key));
        }
        self.finish_if_drained(key);
    }

    fn notify_exited(&mut self, key: Key, ending: Ending) {
        if let Some(run) = self.runs.get_mut(&key).filter(|run| run.notify && run.quiet_until.is_none()) {
            run.notify = false;
            self.notices.push(Notice::Event(run::exited(run.id, ending)));
        }
    }

    fn end_run(&mut self, keeper: Key, key: Key, end: Box<EndReport>) {
        if let Some(forked) = self.keepers.get(keeper).and_then(|keeper| keeper.forked) {
            // It was asked for when its zygote had ended already.
            self.keepers.set_forked(keeper, None);
            let error = SpawnError::new("zygote_lost", "fork", None, "the zygote has ended");
            self.close_run(forked, Outcome::Failed(error));
        }
        if end.survivors.is_empty() && !end.unfit {
            self.keepers.release(keeper);
        } else {
            if let Some(stuck) = self.runs.get(&key).and_then(|run| run.door).filter(|_| end.unfit) {
                self.door.give_up(stuck);
            }
            // The keeper is on its way out, and what it could not kill comes to us.
            self.keepers.dismiss(keeper, &self.poller);
            self.begin_sweep(None);
        }
        self.close_ended(key, end);
    }

    fn close_ended(&mut self, key: Key, end: Box<EndReport>) {
        self.notify_exited(key, end.ending);
        self.read_what_is_left(key);
        self.answer_killers(key, if end.forced { KillMethod::Killed } else { KillMethod::Terminated });
        self.close_run(key, Outcome::Ended(end));
        self.plan_trim();
    }

    fn read_what_is_left(&mut self, key: Key) {
        let watch = self.runs.get_mut(&key).and_then(|run| run.watch.as_mut());
        if let Some(watch) = watch.filter(|watch| watch.whole) {
            watch.credit = u64::MAX; // what little a pipe still holds waits for nobody any more
        }
        for stream in Stream::ALL {
            let mut reads = 0;
            while reads < LAST_READS && self.read_last(key, stream) {
                reads += 1;
            }
        }
        self.flush_output(key);
    }

    /// Reads once more from a run that is over; true when something was there.
    fn read_last(&mut self, key: Key, stream: Stream) -> bool {
        let Some(run) = self.runs.get_mut(&key) else { return false };
        let Some(output) = run.outputs[stream as usize].as_mut() else { return false };
        let found = output.read(&self.regions, &mut self.scratch) == ReadOutcome::Some;
        if output.whole {
            self.flush_output(key);
        }
        found
    }

    fn answer_killers(&mut self, key: Key, method: KillMethod) {
        let killers = self.runs.get_mut(&key).map(|run| std::mem::take(&mut run.killers));
        for id in killers.into_iter().flatten() {
            self.notices.push(Notice::Event(Event::Killed { id, pid: None, method }));
        }
    }

    fn close_run(&mut self, key: Key, outcome: Outcome) {
        let Some(mut run) = self.take_run(key) else { return };
        if let Some(error) = run.refusal.take() {
            return self.refuse(run.id, &error);
        }
        let id = run.id;
        let (result, kept) = run.close(outcome);
        self.notices.push(Notice::Closed { id, result: Box::new(result), kept: Box::new(kept) });
    }

    /// Ends a run whose keeper was killed, once its tree is gone as well.
    pub(super) fn close_lost(&mut self, run: &Run) {
        let message = "the process that looked after this run is gone, killed from outside or given up; the run was ended with it";
        self.refuse(run.id, &RequestError::new("keeper_lost", "keeper", message));
        for killer in &run.killers {
            let event = Event::Killed { id: *killer, pid: None, method: KillMethod::Killed };
            self.notices.push(Notice::Event(event));
        }
    }
}
