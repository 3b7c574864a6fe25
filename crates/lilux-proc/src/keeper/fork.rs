//! What is forked from a zygote: from the request to a process that is confined and waits for its call.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Pid, Signal};

use super::run::{Phase, Run};
use super::zygote::{ForkRequest, failed};
use super::{Beginning, Gone, Keeper, entrance, raw};
use crate::cell::Cell;
use crate::confine::Plan;
use crate::door::entrance::Entrance;
use crate::error::SpawnError;
use crate::policy::Tier;
use crate::sys::wait;
use crate::wire::{ReceivedOrder, Report, StartOrder};

impl Keeper {
    /// Looks after it until nothing of it is left. An error is the end of the zygote, too.
    pub(super) fn fork(&mut self, received: ReceivedOrder) -> Result<(), Gone> {
        let crate::wire::Order::Start(order) = received.order else { return Err(Gone) };
        let mut passed = received.descriptors;
        let begun = Instant::now();
        let entrance = entrance(&order, &mut passed);
        let beginning = entrance.and_then(|door| {
            let beginning = self.begin_forked(&order, &passed, door.as_ref())?;
            Ok((beginning, door))
        });
        let (beginning, mut door) = match beginning {
            Ok(beginning) => beginning,
            Err(error) => {
                self.report_forked(Report::Failed { error })?;
                // Nobody knows what it has done, or what has become of it.
                return Err(Gone);
            }
        };
        let Beginning { leader, cell, enforced, observer, .. } = beginning;
        door.as_mut().map_or(Ok(()), Entrance::begin_in_cell).map_err(|_| Gone)?;
        passed.truncate(passed.len().saturating_sub(order.descriptors.len()));
        let outputs = passed.split_off(1);
        let memory_kb = self.zygote.as_ref().and_then(super::Zygote::memory_kb);
        self.report_forked(Report::Started { pid: raw(leader), enforced: enforced.clone(), memory_kb })?;
        let phase = Phase::running_since(begun, order.timeout_ms);
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
            broker: None,
            is_forked: true,
        };
        let mut end = run.watch()?;
        // The zygote, too, is in the network that a socket has been left in.
        end.unfit |= run.keeper.has_left_sockets();
        let clean = end.survivors.is_empty() && !end.unfit;
        run.report(Report::Ended(Box::new(end)))?;
        run.close_cell()?;
        if clean { Ok(()) } else { Err(Gone) }
    }

    fn begin_forked(
        &mut self,
        order: &StartOrder,
        passed: &[OwnedFd],
        door: Option<&Entrance>,
    ) -> Result<Beginning, SpawnError> {
        let zygote = self.zygote.as_mut().ok_or_else(|| failed("zygote", Errno::CHILD))?;
        let known = zygote.pid;
        let (places, awaited) = (order.places(passed.len()), order.awaited);
        let passed: Vec<BorrowedFd<'_>> = passed.iter().map(AsFd::as_fd).collect();
        let confinement = order.confinement.as_deref();
        let Some(confinement) = confinement.filter(|confinement| confinement.level == Tier::Cell) else {
            let request = ForkRequest { places, in_cell: false, in_walls: false, keep: 0, awaited };
            let leader = zygote.fork(&request, &passed).map_err(|errno| failed("fork", errno))?;
            let enforced = zygote.enforced.clone();
            is_new_child(leader, known).map_err(|errno| failed("child", errno))?;
            return Ok(Beginning {
                leader,
                cell: None,
                enforced,
                observer: None,
                mailbox: None,
                group: None,
            });
        };
        let mut plan = Plan::make(confinement, self.limits, &mut self.namespaces, door, order.role)?;
        let founded = plan.found();
        // A user namespace that was entered may have changed it, and the memory was shared.
        let _ = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
        let (init, entries) =
            founded.map_err(|failure| failed(&format!("{:?}", failure.stage), failure.errno))?;
        let (ruleset, keep) = (plan.ruleset(), plan.keep().bits());
        let request = ForkRequest { places, in_cell: true, in_walls: ruleset.is_some(), keep, awaited };
        let all: Vec<BorrowedFd<'_>> = passed.into_iter().chain(ruleset).chain(entries.borrowed()).collect();
        let forked = zygote.fork(&request, &all).map_err(|errno| failed("fork", errno)).and_then(|leader| {
            is_new_child(leader, known).map_err(|errno| failed("child", errno))?;
            plan.check(leader, &entries).map_err(|what| failed(what, Errno::PERM))?;
            Ok(leader)
        });
        let leader = match forked {
            Ok(leader) => leader,
            Err(error) => {
                // The kernel ends everybody in the cell with it, also the one who came in only half.
                let _ = rustix::process::kill_process(init.pid, Signal::KILL);
                return Err(error);
            }
        };
        let cell = plan.lifeline.take().map(|lifeline| Cell::new(init, lifeline));
        Ok(Beginning { leader, cell, enforced: plan.enforced, observer: None, mailbox: None, group: None })
    }
}

/// The kernel knows whose child it is: a number that a zygote has made up is nobody to be signalled. Nor is the zygote.
fn is_new_child(pid: Pid, zygote: Pid) -> Result<(), Errno> {
    if pid == zygote { Err(Errno::CHILD) } else { wait::peek(pid).map(drop) }
}
