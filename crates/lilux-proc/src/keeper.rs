//! A keeper looks after one run at a time: it starts the tool, and sees to it that nothing of it remains.
//!
//! It is a subreaper, so whatever the tool starts and abandons becomes a child of the keeper, however it tried to get away.
//! It is used again only after the kernel has said that no child is left. When the other end of its socket closes, for
//! whatever reason, it kills everything at once and goes.
//!
//! The tool's end is known from the kernel (SIGCHLD, then a look that does not reap). The tool stays unreaped until its
//! group is dead, so its number cannot come to mean somebody else while it is still used for signals.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::process::{DumpableBehavior, Pid, Signal};

use crate::cell::Cell;
use crate::command::Command;
use crate::confine::{Confinement, Namespaces, Plan};
use crate::door::entrance::Entrance;
use crate::door::report::Network;
use crate::error::SpawnError;
use crate::observe::{self, Observer};
use crate::policy::Enforced;
use crate::process;
use crate::protocol::Usage;
use crate::switches::Guard;
use crate::sys::children::Children;
use crate::sys::launch::Limits;
use crate::sys::pidfd::poll_until;
use crate::sys::signals::{self, SignalQueue};
use crate::sys::wait::{self, Ending, Reap};
use crate::sys::{self, fd};
use crate::wire::{self, Cause, EndReport, Order, Received, ReceivedOrder, Report, StartOrder};

/// Between SIGTERM and SIGKILL when a run has used up its time.
pub const TIMEOUT_GRACE: Duration = Duration::from_secs(2);
/// How long SIGKILL is given before survivors are reported.
const KILL_DEADLINE: Duration = Duration::from_secs(5);
/// Survivors that are named in a report; with more it would not fit a message.
const MAX_NAMED: usize = 1024;
/// SIGCHLD says when to look again; this is for the case that a process hangs between two parents.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Runs in a process just forked; never returns.
pub fn main(socket: OwnedFd, limits: Limits) -> ! {
    let code = match Keeper::new(socket, limits) {
        Ok(mut keeper) => keeper.serve(),
        Err(_) => 1,
    };
    sys::exit_now(code)
}

struct Keeper {
    socket: OwnedFd,
    signals: SignalQueue,
    children: Children,
    limits: Limits,
    buffer: Vec<u8>,
    /// For cells; made for the first of them.
    namespaces: Option<Namespaces>,
}

/// The supervisor is gone, or this keeper can no longer promise anything.
struct Gone;

impl Keeper {
    fn new(socket: OwnedFd, limits: Limits) -> Result<Self, Errno> {
        let socket = fd::keep_only(socket)?;
        sys::become_guardian(c"lilux-keeper", Guard::KeeperSubreaper)?;
        signals::block_all()?;
        Ok(Self {
            socket,
            signals: SignalQueue::of(&[Signal::CHILD])?,
            children: Children::open(),
            limits,
            buffer: vec![0; wire::BUFFER],
            namespaces: None,
        })
    }

    fn serve(&mut self) -> i32 {
        loop {
            let Received::Message(received) =
                wire::receive_order(&self.socket, &mut self.buffer, RecvFlags::empty())
            else {
                return 0;
            };
            if self.carry_out(received).is_err() {
                return 1;
            }
        }
    }

    fn carry_out(&mut self, received: ReceivedOrder) -> Result<(), Gone> {
        match (received.order, received.command) {
            (Order::Start(order), Some(command)) => self.run(&order, &command, received.descriptors),
            (Order::KillPid { pid, grace_ms }, _) => self.report(&kill_somebody(pid, grace_ms)),
            // These cross the end of a run on the wire.
            (Order::Cancel { .. } | Order::Finish | Order::Start(_), _) => Ok(()),
        }
    }

    fn report(&self, report: &Report) -> Result<(), Gone> {
        wire::send(&self.socket, report).map_err(|_| Gone)
    }

    fn start(
        &mut self,
        order: &StartOrder,
        command: &Command,
        places: &[RawFd],
        door: Option<&Entrance>,
    ) -> Result<Beginning, SpawnError> {
        let (observer, post) = observation(order)?.unzip();
        let mut plan = match &order.confinement {
            Some(confinement) => Plan::make(confinement, self.limits, &mut self.namespaces, door)?,
            None => Plan::unconfined(self.limits),
        };
        plan.observe(post);
        let started = command.start(places, &plan);
        if plan.lifeline.is_some() {
            // A user namespace that was entered may have changed it, and the memory was shared.
            let _ = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
        }
        let started = started?;
        let cell = started.init.zip(plan.lifeline).map(|(init, lifeline)| Cell::new(init, lifeline));
        Ok(Beginning { leader: started.leader, cell, enforced: plan.enforced, observer })
    }

    /// What was begun at the door is ended there.
    fn fail(&self, error: SpawnError, door: Option<Entrance>) -> Result<(), Gone> {
        let unfit = door.is_some_and(|door| door.close().0.is_none());
        self.report(&Report::Failed { error })?;
        if unfit { Err(Gone) } else { Ok(()) }
    }

    fn run(&mut self, order: &StartOrder, command: &Command, mut passed: Vec<OwnedFd>) -> Result<(), Gone> {
        let door = entrance(order, &mut passed);
        let places = places(order, &passed);
        let started = Instant::now();
        let Beginning { leader, cell, enforced, mut observer } =
            match self.start(order, command, &places, door.as_ref()) {
                Ok(started) => started,
                Err(error) => return self.fail(error, door),
            };
        if let Some(observer) = &mut observer {
            // A tool whose calls nobody answers is of no use; the supervisor ends it when this process has gone.
            observer.begin().map_err(|_| Gone)?;
        }
        let outputs = passed.split_off(usize::from(order.stdin));
        drop(passed);
        if order.notify {
            self.report(&Report::Started { pid: raw(leader) })?;
        }
        let deadline = order.timeout_ms.map(|limit| started + Duration::from_millis(limit));
        let phase = Phase::Running { deadline };
        let mut run = Run {
            keeper: self,
            leader,
            cell,
            phase,
            cause: None,
            forced: false,
            left_running: 0,
            outputs,
            enforced,
            door,
            observer,
        };
        let end = run.watch()?;
        let clean = end.survivors.is_empty() && !end.unfit;
        self.report(&Report::Ended(Box::new(end)))?;
        // With survivors this process is not fit for another run; ending it hands them to the supervisor, which kills.
        if clean { Ok(()) } else { Err(Gone) }
    }
}

/// A tool that runs, and what goes with it.
struct Beginning {
    leader: Pid,
    cell: Option<Cell>,
    enforced: Option<Enforced>,
    observer: Option<Observer>,
}

fn observation(order: &StartOrder) -> Result<Option<(Observer, observe::Post)>, SpawnError> {
    let prepared = order.observe.as_ref().map(observe::prepare).transpose();
    prepared.map_err(|errno| SpawnError::resources("observe", errno))
}

/// The way to the door, if the run has one.
fn entrance(order: &StartOrder, passed: &mut Vec<OwnedFd>) -> Option<Entrance> {
    let channel = if order.door { passed.pop() } else { None };
    let opening = order.confinement.as_deref().and_then(Confinement::opening);
    channel.zip(opening).map(|(channel, opening)| Entrance::new(channel, opening))
}

/// What becomes 0, 1, 2 and perhaps 3. Standard input that was not given is this keeper's own `/dev/null`.
fn places(order: &StartOrder, passed: &[OwnedFd]) -> Vec<RawFd> {
    let given = passed.iter().map(AsRawFd::as_raw_fd);
    if order.stdin { given.collect() } else { [0].into_iter().chain(given).collect() }
}

fn kill_somebody(pid: i64, grace_ms: u64) -> Report {
    match process::kill(pid, Duration::from_millis(grace_ms)) {
        Ok(method) => Report::PidKilled { method },
        Err(error) => {
            Report::PidRefused { code: error.code.to_owned(), errno: error.errno, message: error.message }
        }
    }
}

/// Whether a child has ended already, and is only not reaped yet.
fn is_over(child: Pid) -> bool {
    matches!(wait::peek(child), Ok(Some(_)))
}

fn raw(pid: Pid) -> i32 {
    pid.as_raw_nonzero().get()
}

#[derive(Clone, Copy)]
enum Phase {
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

/// What the supervisor wants next.
enum Wish {
    Nothing,
    Cancel(Duration),
    Finish,
    Gone,
}

struct Run<'a> {
    keeper: &'a mut Keeper,
    leader: Pid,
    cell: Option<Cell>,
    phase: Phase,
    cause: Option<Cause>,
    forced: bool,
    left_running: usize,
    /// The tool's ends of its streams. Held until the supervisor has to know who else holds them: an end of file while the
    /// tool exits would only wake the supervisor, which hears of the exit a moment later, and reads what is left then.
    outputs: Vec<OwnedFd>,
    enforced: Option<Enforced>,
    door: Option<Entrance>,
    observer: Option<Observer>,
}

impl Run<'_> {
    /// Until nothing of the run is left.
    fn watch(&mut self) -> Result<EndReport, Gone> {
        loop {
            match self.wait() {
                Wish::Nothing => {}
                Wish::Cancel(grace) => self.terminate(Cause::Cancelled, grace),
                Wish::Finish => return self.kill_and_close(),
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
                    self.keeper.report(&Report::Lingering { pid: raw(self.leader), ending })?;
                }
                (Phase::Running { deadline: Some(deadline) }, None) if Instant::now() >= deadline => {
                    self.terminate(Cause::Timeout, TIMEOUT_GRACE);
                }
                (Phase::Terminating { until }, _) if Instant::now() >= until => return self.kill_and_close(),
                _ => {}
            }
        }
    }

    /// Until a child changes, an order comes, or the next deadline.
    fn wait(&mut self) -> Wish {
        let until = match self.phase {
            Phase::Running { deadline } => deadline,
            Phase::Terminating { until } => Some(until),
            Phase::Lingering => None,
        };
        let keeper = &mut *self.keeper;
        let calls = self.observer.as_ref().and_then(Observer::listener);
        let mut watched = [
            PollFd::new(&keeper.socket, PollFlags::IN),
            PollFd::new(&keeper.signals, PollFlags::IN),
            PollFd::new(calls.unwrap_or(&keeper.socket), PollFlags::IN),
        ];
        let count = if calls.is_some() { 3 } else { 2 };
        if poll_until(&mut watched[..count], until).is_err() {
            return Wish::Gone;
        }
        let order_waits = !watched[0].revents().is_empty();
        let call_waits = !watched[2].revents().is_empty();
        if !watched[1].revents().is_empty() {
            keeper.signals.drain(Signal::CHILD);
        }
        if let Some(observer) = self.observer.as_mut().filter(|_| call_waits) {
            observer.answer();
        }
        if !order_waits {
            return Wish::Nothing;
        }
        match wire::receive_order(&keeper.socket, &mut keeper.buffer, RecvFlags::DONTWAIT) {
            Received::Message(received) => match received.order {
                Order::Cancel { grace_ms } => Wish::Cancel(Duration::from_millis(grace_ms)),
                Order::Finish => Wish::Finish,
                Order::Start(_) | Order::KillPid { .. } => Wish::Gone,
            },
            Received::Nothing => Wish::Nothing,
            Received::EndOfFile => Wish::Gone,
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
        listed.into_iter().filter(|pid| *pid != self.leader && !self.is_init(*pid)).collect()
    }

    fn is_init(&self, pid: Pid) -> bool {
        self.cell.as_ref().is_some_and(|cell| cell.init == pid)
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
        // Killed within the deadline or not: without an ending there is none to report but the signal that was sent.
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

    /// Init ends last: it waits until the leader has been reaped, which is in its cell.
    fn close_cell(&self) {
        let Some(cell) = &self.cell else { return };
        cell.kill();
        let deadline = Instant::now() + KILL_DEADLINE;
        while matches!(wait::reap(Some(cell.init)), Ok(Reap::NotYet)) && Instant::now() < deadline {
            self.wait_for_child(Instant::now() + LOOK_AGAIN);
        }
    }

    /// Reaps the leader and asks the kernel whether anybody is left.
    fn close(&mut self, ending: Ending) -> Result<EndReport, Gone> {
        let mut usage = Usage::default();
        if let Ok(Reap::One(reaped)) = wait::reap(Some(self.leader)) {
            usage = reaped.usage;
        }
        self.close_cell();
        let survivors = match wait::reap(None) {
            Ok(Reap::NoChildren) => Vec::new(),
            _ => {
                let left = self.keeper.children.list().map_err(|_| Gone)?;
                left.into_iter().take(MAX_NAMED).map(raw).collect()
            }
        };
        let (cause, forced, left_running) = (self.cause, self.forced, self.left_running);
        let (network, unfit) = self.close_door();
        let (pid, enforced) = (raw(self.leader), self.enforced.take());
        let observed = self.observer.take().map(Observer::finish);
        let report = EndReport {
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
        };
        Ok(report)
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
