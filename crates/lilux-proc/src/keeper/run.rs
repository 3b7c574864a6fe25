//! One run, from its start until nothing of it is left.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::net::RecvFlags;
use rustix::process::{Pid, Signal};

use super::zygote::Zygote;
use super::{Gone, Keeper, TIMEOUT_GRACE, raw};
use crate::broker::Broker;
use crate::cell::Cell;
use crate::door::entrance::Entrance;
use crate::door::report::Network;
use crate::observe::Observer;
use crate::policy::Enforced;
use crate::protocol::Usage;
use crate::switches::Guard;
use crate::sys::pidfd::poll_until;
use crate::sys::wait::{self, Ending, Reap};
use crate::wire::{self, Cause, EndReport, Order, Received, ReceivedOrder, Report, Role, StartOrder};

/// How long SIGKILL is given before survivors are reported.
const KILL_DEADLINE: Duration = Duration::from_secs(5);
/// Survivors that are named in a report; with more it would not fit a message.
const MAX_NAMED: usize = 1024;
/// SIGCHLD says when to look again; this is for the case that a process hangs between two parents.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Orders, the ends of children, and what a broker, an observer or a zygote waits for.
const ALWAYS_WATCHED: usize = 3;

/// Whether a child has ended already, and is only not reaped yet.
fn is_over(child: Pid) -> bool {
    matches!(wait::peek(child), Ok(Some(_)))
}

/// Of two points in time that may not be.
fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    [one, other].into_iter().flatten().min()
}

#[derive(Clone, Copy)]
pub(super) enum Phase {
    Running {
        deadline: Option<Instant>,
    },
    /// TERM has been sent; KILL follows at that time.
    Terminating {
        until: Instant,
    },
    /// The tool is gone, its children are not; the supervisor still reads what they write.
    Lingering,
}

impl Phase {
    pub(super) fn running_since(begun: Instant, timeout_ms: Option<u64>) -> Self {
        Self::Running { deadline: timeout_ms.map(|limit| begun + Duration::from_millis(limit)) }
    }
}

/// What the supervisor wants next.
enum Wish {
    Nothing,
    /// Count its time from now on.
    Call(Option<u64>),
    Cancel(Duration),
    Finish,
    /// Fork something from the zygote that this is.
    Fork(Box<ReceivedOrder>),
    Gone,
}

pub(super) struct Run<'a> {
    pub(super) keeper: &'a mut Keeper,
    pub(super) leader: Pid,
    pub(super) cell: Option<Cell>,
    pub(super) phase: Phase,
    pub(super) cause: Option<Cause>,
    pub(super) forced: bool,
    pub(super) left_running: usize,
    /// The tool's ends of its streams. Held until the supervisor has to know who else holds them: an end of file while the
    /// tool exits would only wake the supervisor, which hears of the exit a moment later, and reads what is left then.
    pub(super) outputs: Vec<OwnedFd>,
    pub(super) enforced: Option<Enforced>,
    pub(super) door: Option<Entrance>,
    pub(super) observer: Option<Observer>,
    pub(super) broker: Option<Broker>,
    /// From the keeper's zygote, which goes on when this has ended.
    pub(super) is_forked: bool,
}

impl Run<'_> {
    /// Until nothing of the run is left.
    pub(super) fn watch(&mut self) -> Result<EndReport, Gone> {
        loop {
            match self.wait() {
                Wish::Nothing => {}
                Wish::Call(timeout_ms) => self.begin_call(timeout_ms),
                Wish::Cancel(grace) => self.terminate(Cause::Cancelled, grace),
                Wish::Finish => return self.kill_and_close(),
                Wish::Fork(received) => self.fork(*received)?,
                Wish::Gone => {
                    if Guard::KeeperEndOfFile.is_on() {
                        self.kill_everything();
                    }
                    return Err(Gone);
                }
            }
            // In this order: a tool that is already dead starts nobody between the two looks.
            let ending = self.leader_ending();
            let alone = self.reap_others();
            if let (Some(_), false, Some(cell)) = (ending, alone, &mut self.cell) {
                cell.leader_has_ended();
            }
            match (self.phase, ending) {
                (_, Some(ending)) if alone => return self.close(ending),
                (Phase::Running { .. }, Some(ending)) => {
                    self.phase = Phase::Lingering;
                    self.outputs.clear();
                    self.report(Report::Lingering { pid: raw(self.leader), ending })?;
                }
                (Phase::Running { deadline: Some(deadline) }, None) if Instant::now() >= deadline => {
                    self.terminate(Cause::Timeout, TIMEOUT_GRACE);
                }
                (Phase::Terminating { until }, _) if Instant::now() >= until => return self.kill_and_close(),
                _ => {}
            }
        }
    }

    pub(super) fn report(&self, report: Report) -> Result<(), Gone> {
        if self.is_forked { self.keeper.report_forked(report) } else { self.keeper.report(&report) }
    }

    /// One that has ended forks nobody, and the supervisor hears of that end.
    fn fork(&mut self, received: ReceivedOrder) -> Result<(), Gone> {
        if !matches!(self.phase, Phase::Running { .. }) || self.leader_ending().is_some() {
            return Ok(());
        }
        let forked = self.keeper.fork(received);
        if forked.is_err() {
            self.kill_everything();
        }
        forked
    }

    /// Until a child changes, an order comes, or the next deadline.
    fn wait(&mut self) -> Wish {
        let until = match self.phase {
            Phase::Running { deadline } => deadline,
            Phase::Terminating { until } => Some(until),
            Phase::Lingering => None,
        };
        let until = earlier(until, self.broker.as_ref().and_then(Broker::deadline));
        let keeper = &mut *self.keeper;
        let observed = self.observer.as_ref().and_then(Observer::listener).map(AsFd::as_fd);
        let calls = observed.or_else(|| self.broker.as_ref().map(AsFd::as_fd));
        let word = keeper.zygote.as_ref().and_then(Zygote::first_word).map(AsFd::as_fd);
        let further = calls.or(word);
        let of_door = self.door.as_ref().map_or(&[][..], Entrance::watched);
        let mut watched = Vec::with_capacity(ALWAYS_WATCHED + of_door.len());
        watched.push(PollFd::new(&keeper.socket, PollFlags::IN));
        watched.push(PollFd::new(&keeper.signals, PollFlags::IN));
        // Without anything further, it is the socket once more, for nothing.
        let flags = if further.is_some() { PollFlags::IN } else { PollFlags::empty() };
        watched.push(PollFd::from_borrowed_fd(further.unwrap_or(keeper.socket.as_fd()), flags));
        watched.extend(of_door.iter().map(|listener| PollFd::new(listener, PollFlags::IN)));
        if poll_until(&mut watched, until).is_err() {
            return Wish::Gone;
        }
        let order_waits = !watched[0].revents().is_empty();
        let call_waits = further.is_some() && !watched[2].revents().is_empty();
        let door_is_needed = watched[ALWAYS_WATCHED..].iter().any(|listener| !listener.revents().is_empty());
        let word_waits = word.is_some() && call_waits;
        if !watched[1].revents().is_empty() {
            keeper.signals.drain(Signal::CHILD);
        }
        if let Some(observer) = self.observer.as_mut().filter(|_| call_waits) {
            observer.answer();
        }
        if let (Some(broker), Some(door)) = (&mut self.broker, &mut self.door) {
            broker.answer(door);
        }
        if let Some(door) = self.door.as_mut().filter(|_| door_is_needed) {
            // If that fails, the run has no network, and its report is missing.
            let _ = door.open();
        }
        if word_waits && keeper.hear_zygote().is_err() {
            return Wish::Finish;
        }
        if !order_waits {
            return Wish::Nothing;
        }
        match wire::receive_order(&keeper.socket, &mut keeper.buffer, RecvFlags::DONTWAIT) {
            Received::Message(received) => match received.order {
                Order::Cancel { grace_ms } => Wish::Cancel(Duration::from_millis(grace_ms)),
                Order::Call { timeout_ms } => Wish::Call(timeout_ms),
                Order::Finish => Wish::Finish,
                Order::Start(StartOrder { role: Role::Forked, .. }) => Wish::Fork(Box::new(received)),
                Order::Start(_) | Order::KillPid { .. } => Wish::Gone,
            },
            Received::Nothing => Wish::Nothing,
            Received::EndOfFile => Wish::Gone,
        }
    }

    /// One that is being ended, or has ended, gets no time any more.
    fn begin_call(&mut self, timeout_ms: Option<u64>) {
        if matches!(self.phase, Phase::Running { .. }) {
            self.phase = Phase::running_since(Instant::now(), timeout_ms);
        }
    }

    /// Asks politely. A second wish may only shorten the time.
    fn terminate(&mut self, cause: Cause, grace: Duration) {
        let until = Instant::now() + grace;
        if let Phase::Terminating { until: earlier } = self.phase {
            self.phase = Phase::Terminating { until: until.min(earlier) };
            return;
        }
        // A tool that had already ended by itself was not ended by us.
        if !matches!(self.phase, Phase::Lingering) {
            self.cause = Some(cause);
        }
        self.phase = Phase::Terminating { until };
        self.signal_group(Signal::TERM);
        self.signal_group(Signal::CONT);
    }

    /// The leader is unreaped, so the group's number is still the group's.
    fn signal_group(&self, signal: Signal) {
        // ESRCH means that nobody is left to be signalled, which is what signals are for.
        let _ = rustix::process::kill_process_group(self.leader, signal);
    }

    fn leader_ending(&self) -> Option<Ending> {
        wait::peek(self.leader).unwrap_or(None)
    }

    fn others(&self) -> Vec<Pid> {
        let listed = self.keeper.children.list().unwrap_or_default();
        listed.into_iter().filter(|pid| *pid != self.leader && !self.is_kept(*pid)).collect()
    }

    /// It is not the tool's: process 1 of its cell, or the zygote that it comes from.
    fn is_kept(&self, pid: Pid) -> bool {
        let is_zygote = || self.keeper.zygote.as_ref().is_some_and(|zygote| zygote.pid == pid);
        self.cell.as_ref().is_some_and(|cell| cell.init == pid) || (self.is_forked && is_zygote())
    }

    /// Nobody is left in the cell, but for init and the tool itself.
    fn cell_is_empty(&self) -> bool {
        self.cell.as_ref().is_none_or(Cell::is_empty)
    }

    /// Takes away orphans that have ended; true when nobody but the tool itself is left, alive or dead.
    fn reap_others(&self) -> bool {
        let others = self.others();
        for pid in &others {
            // Whether it had ended is no matter: it is looked at again when it does.
            let _ = wait::reap(Some(*pid));
        }
        (others.is_empty() || self.others().is_empty()) && self.cell_is_empty()
    }

    fn kill_and_close(&mut self) -> Result<EndReport, Gone> {
        self.forced = true;
        if matches!(self.phase, Phase::Lingering) {
            let inside = self.cell.as_ref().map_or(0, Cell::count);
            self.left_running = inside + self.others().into_iter().filter(|pid| !is_over(*pid)).count();
        }
        self.kill_everything();
        // Killed within the deadline or not: without an exit status, only the signal that was sent can be reported.
        let ending = self.leader_ending().unwrap_or(Ending::Signal(libc::SIGKILL));
        self.close(ending)
    }

    /// SIGKILL until only the dead leader is left, or the time is up.
    fn kill_everything(&self) {
        if !Guard::Force.is_on() {
            return;
        }
        if !Guard::KillTree.is_on() {
            return self.signal_group(Signal::KILL);
        }
        if let Some(cell) = &self.cell {
            cell.kill();
        }
        let deadline = Instant::now() + KILL_DEADLINE;
        loop {
            self.signal_group(Signal::KILL);
            // In this order: a tool that is already dead starts nobody between the two looks.
            let mut alive = self.leader_ending().is_none() || !self.cell_is_empty();
            let others = self.others();
            if (others.is_empty() && !alive) || Instant::now() >= deadline {
                return;
            }
            for pid in others {
                if !matches!(wait::reap(Some(pid)), Ok(Reap::One(_))) {
                    alive = true;
                    // A child that has ended in the meantime is a zombie, which a signal does not bother.
                    let _ = rustix::process::kill_process(pid, Signal::KILL);
                }
            }
            if alive {
                self.wait_for_child(Instant::now() + LOOK_AGAIN);
            }
        }
    }

    fn wait_for_child(&self, until: Instant) {
        let signals = &self.keeper.signals;
        let mut watched = [PollFd::new(signals, PollFlags::IN)];
        // A failing poll only means looking again sooner; the deadline above bounds it.
        let _ = poll_until(&mut watched, Some(until));
        signals.drain(Signal::CHILD);
    }

    /// As the kernel says it. Of a cell, init is left; it is ended when the result is under way.
    fn survivors(&self) -> Result<Vec<i32>, Gone> {
        // Reaping any child could take the end of a zygote away from the code that waits for it.
        if !self.is_forked && matches!(wait::reap(None), Ok(Reap::NoChildren)) {
            return Ok(Vec::new());
        }
        let left = self.keeper.children.list().map_err(|_| Gone)?;
        let others = left.into_iter().filter(|pid| !self.is_kept(*pid)).map(raw);
        let inside = self.cell.as_ref().map_or_else(Vec::new, Cell::left);
        Ok(others.chain(inside).take(MAX_NAMED).collect())
    }

    /// Init ends last: it waits until the leader has been reaped, which is in its cell.
    ///
    /// Nobody is in it any more; what it takes is the mounts, which the client need not wait for.
    pub(super) fn close_cell(&mut self) -> Result<(), Gone> {
        let Some(cell) = self.cell.take() else { return Ok(()) };
        cell.kill();
        let deadline = Instant::now() + KILL_DEADLINE;
        while matches!(wait::reap(Some(cell.init)), Ok(Reap::NotYet)) {
            if Instant::now() >= deadline {
                return Err(Gone);
            }
            self.wait_for_child(Instant::now() + LOOK_AGAIN);
        }
        cell.reaped();
        let alone = if self.is_forked {
            self.others().is_empty()
        } else {
            matches!(wait::reap(None), Ok(Reap::NoChildren))
        };
        if alone { Ok(()) } else { Err(Gone) }
    }

    /// Reaps the leader and asks the kernel whether anybody is left.
    fn close(&mut self, ending: Ending) -> Result<EndReport, Gone> {
        let mut usage = Usage::default();
        if let Ok(Reap::One(reaped)) = wait::reap(Some(self.leader)) {
            usage = reaped.usage;
        }
        let survivors = self.survivors()?;
        let (cause, forced, left_running) = (self.cause, self.forced, self.left_running);
        let (network, unfit) = self.close_door();
        let (pid, enforced) = (raw(self.leader), self.enforced.take());
        let observed = self.observer.take().map(Observer::finish);
        Ok(EndReport {
            pid,
            ending,
            cause,
            forced,
            left_running,
            usage,
            survivors,
            enforced,
            network,
            observed,
            unfit,
        })
    }

    /// Before the namespace may be used again. If the door does not say that it has left it, it may not be.
    fn close_door(&mut self) -> (Option<Network>, bool) {
        let Some(door) = self.door.take() else { return (None, false) };
        let (report, net) = door.close();
        if let Some(enforced) = &mut self.enforced {
            enforced.net = net;
        }
        let unfit = report.is_none();
        (report, unfit)
    }
}
