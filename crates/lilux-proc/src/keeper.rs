//! A keeper looks after one run at a time: it starts the tool, and sees to it that nothing of it remains.
//!
//! It is a subreaper, so whatever the tool starts and abandons becomes a child of the keeper, however it tried to get away.
//! It is used again only after the kernel has said that no child is left. When the other end of its socket closes, for
//! whatever reason, it kills everything at once and goes.
//!
//! The tool's end is known from the kernel (SIGCHLD, then a look that does not reap). The tool stays unreaped until its
//! group is dead, so its number cannot come to mean somebody else while it is still used for signals.

mod fork;
mod run;
mod zygote;

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::process::{DumpableBehavior, Pid, Signal};

use crate::broker::Broker;
use crate::cell::Cell;
use crate::command::Command;
use crate::confine::{Confinement, Group, Namespaces, Plan};
use crate::door::entrance::Entrance;
use crate::error::SpawnError;
use crate::notify::{Mailbox, Post};
use crate::observe::{self, Observer};
use crate::policy::Enforced;
use crate::process;
use crate::switches::{Guard, StopAt};
use crate::sys::children::Children;
use crate::sys::launch::{Limits, Places};
use crate::sys::signals::{self, SignalQueue};
use crate::sys::{self, fd};
use crate::wire::{self, Order, Received, ReceivedOrder, Report, Role, StartOrder};
use run::{Phase, Run};
use zygote::Zygote;

/// Between SIGTERM and SIGKILL when a run has used up its time.
pub const TIMEOUT_GRACE: Duration = Duration::from_secs(2);

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
    /// What it looks after all the time, while it looks after one thing that was forked from it.
    zygote: Option<Zygote>,
}

/// The supervisor is gone, or this keeper can no longer promise anything.
struct Gone;

impl Keeper {
    fn new(socket: OwnedFd, limits: Limits) -> Result<Self, Errno> {
        let socket = fd::keep_only(socket)?;
        fd::reserve_further_places()?;
        sys::become_guardian(c"lilux-keeper", Guard::KeeperSubreaper)?;
        signals::block_all()?;
        Ok(Self {
            socket,
            signals: SignalQueue::of(&[Signal::CHILD])?,
            children: Children::open(),
            limits,
            buffer: vec![0; wire::BUFFER],
            namespaces: None,
            zygote: None,
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
            // Its zygote has ended in the meantime, which the supervisor is told of.
            (Order::Start(StartOrder { role: Role::Forked, .. }), _) => Ok(()),
            (Order::Start(order), Some(command)) => self.run(&order, &command, received.descriptors),
            (Order::KillPid { pid, grace_ms }, _) => self.report(&kill_somebody(pid, grace_ms)),
            // These cross the end of a run on the wire.
            (Order::Cancel { .. } | Order::Call { .. } | Order::Finish | Order::Start(_), _) => Ok(()),
        }
    }

    /// Says something about what was forked.
    fn report_forked(&self, report: Report) -> Result<(), Gone> {
        self.report(&Report::OfForked(Box::new(report)))
    }

    fn report(&self, report: &Report) -> Result<(), Gone> {
        wire::send(&self.socket, report).map_err(|_| Gone)
    }

    fn start(
        &mut self,
        order: &StartOrder,
        command: &Command,
        places: Places<'_>,
        door: Option<&Entrance>,
    ) -> Result<Beginning, SpawnError> {
        if order.role == Role::Zygote {
            // Those of cells before are others.
            self.namespaces = None;
        }
        let (observer, post) = observation(order)?.unzip();
        let mut plan = match &order.confinement {
            Some(confinement) => {
                Plan::make(confinement, self.limits, &mut self.namespaces, door, order.role)?
            }
            None => Plan::unconfined(self.limits),
        };
        plan.observe(post);
        plan.stop(StopAt::asked_for());
        let mailbox = plan.take_mailbox();
        let started = command.start(places, &plan);
        if plan.lifeline.is_some() {
            // A user namespace that was entered may have changed it, and the memory was shared.
            let _ = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
        }
        let (started, group) = (started?, plan.take_group());
        let cell = started.init.zip(plan.lifeline).map(|(init, lifeline)| Cell::new(init, lifeline));
        Ok(Beginning { leader: started.leader, cell, enforced: plan.enforced, observer, mailbox, group })
    }

    /// A run has passed a socket of its network on.
    fn has_left_sockets(&self) -> bool {
        self.namespaces.as_ref().is_some_and(Namespaces::have_sockets)
    }

    /// What was begun at the door is ended there.
    fn fail(&self, error: SpawnError, door: Option<Entrance>) -> Result<(), Gone> {
        let unfit = door.is_some_and(|door| door.close().0.is_none());
        self.report(&Report::Failed { error })?;
        if unfit { Err(Gone) } else { Ok(()) }
    }

    fn run(&mut self, order: &StartOrder, command: &Command, mut passed: Vec<OwnedFd>) -> Result<(), Gone> {
        let mut door = match entrance(order, &mut passed) {
            Ok(door) => door,
            Err(error) => return self.fail(error, None),
        };
        let handed_on = passed.split_off(passed.len().saturating_sub(order.descriptors.len()));
        let first = first_places(order, &passed);
        let mut further: Vec<(RawFd, RawFd)> =
            order.descriptors.iter().copied().zip(handed_on.iter().map(AsRawFd::as_raw_fd)).collect();
        let control = match control(order, &mut further) {
            Ok(control) => control,
            Err(error) => return self.fail(error, door),
        };
        let places = Places { first: &first, further: &further };
        let started = Instant::now();
        let Beginning { leader, cell, enforced, mut observer, mailbox, group } =
            match self.start(order, command, places, door.as_ref()) {
                Ok(started) => started,
                Err(error) => return self.fail(error, door),
            };
        if let Some(observer) = &mut observer {
            // A tool whose calls nobody answers is of no use; the supervisor ends it when this process has gone.
            observer.begin().map_err(|_| Gone)?;
        }
        let broker = match &mut door {
            Some(door) => begin_at(door, mailbox)?,
            None => None,
        };
        let outputs = passed.split_off(usize::from(order.stdin));
        drop((passed, handed_on));
        if let Some((ours, theirs)) = control {
            drop(theirs);
            self.zygote = Some(Zygote::new(leader, ours, enforced.clone()));
        } else if order.notify {
            self.report(&Report::Started { pid: raw(leader), enforced: enforced.clone(), memory_kb: None })?;
        }
        let phase = Phase::running_since(started, order.timeout_ms);
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
            broker,
            is_forked: false,
        };
        let end = run.watch()?;
        let clean = end.survivors.is_empty() && !end.unfit;
        run.report(Report::Ended(Box::new(end)))?;
        run.close_cell()?;
        drop(group);
        // They were made for the zygote, or somebody would meet the next run in them.
        if self.zygote.take().is_some() || self.has_left_sockets() {
            self.namespaces = None;
        }
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
    mailbox: Option<Mailbox>,
    group: Option<Group>,
}

/// Both ends of what one talks with a zygote by; it has its own where others read their call.
fn control(
    order: &StartOrder,
    further: &mut [(RawFd, RawFd)],
) -> Result<Option<(OwnedFd, OwnedFd)>, SpawnError> {
    if order.role != Role::Zygote {
        return Ok(None);
    }
    let (ours, theirs) = fd::message_pair().map_err(|errno| SpawnError::resources("zygote", errno))?;
    if let Some(place) = further.last_mut() {
        place.1 = theirs.as_raw_fd();
    }
    Ok(Some((ours, theirs)))
}

fn observation(order: &StartOrder) -> Result<Option<(Observer, Post)>, SpawnError> {
    let prepared = order.observe.as_ref().map(observe::prepare).transpose();
    prepared.map_err(|errno| SpawnError::resources("observe", errno))
}

/// Only a run in walls has a broker. A tool whose calls nobody answers is of no use, as above.
fn begin_at(door: &mut Entrance, mailbox: Option<Mailbox>) -> Result<Option<Broker>, Gone> {
    let begun = match mailbox {
        Some(mailbox) => door.begin_in_walls().and_then(|()| Broker::begin(mailbox)).map(Some),
        None => door.begin_in_cell().map(|()| None),
    };
    begun.map_err(|_| Gone)
}

/// The way to the door, if the run has one.
fn entrance(order: &StartOrder, passed: &mut Vec<OwnedFd>) -> Result<Option<Entrance>, SpawnError> {
    let door = if order.door { passed.pop() } else { None };
    let opening = order.confinement.as_deref().and_then(Confinement::opening);
    let entrance = door.zip(opening).map(|(door, opening)| Entrance::new(door, opening));
    entrance.transpose().map_err(|errno| SpawnError::resources("door", errno))
}

/// What becomes 0, 1, 2 and perhaps 3. Standard input that was not given is this keeper's own `/dev/null`.
fn first_places(order: &StartOrder, passed: &[OwnedFd]) -> Vec<RawFd> {
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

fn raw(pid: Pid) -> i32 {
    pid.as_raw_nonzero().get()
}
