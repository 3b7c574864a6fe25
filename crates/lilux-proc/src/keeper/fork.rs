//! What is forked from a zygote: from the request to a process that is confined and waits for its call.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::process::Pid;

use super::run::{Phase, Run};
use super::zygote::{ForkRequest, failed};
use super::{Beginning, Gone, Keeper, entrance, raw};
use crate::error::SpawnError;
use crate::sys::wait;
use crate::wire::{ReceivedOrder, Report, StartOrder};

impl Keeper {
    /// Looks after it until nothing of it is left. An error is the end of the zygote, too.
    pub(super) fn fork(&mut self, received: ReceivedOrder) -> Result<(), Gone> {
        let crate::wire::Order::Start(order) = received.order else { return Err(Gone) };
        let mut passed = received.descriptors;
        let door = entrance(&order, &mut passed);
        let begun = Instant::now();
        let beginning = match self.begin_forked(&order, &passed) {
            Ok(beginning) => beginning,
            Err(error) => {
                self.report_forked(Report::Failed { error })?;
                // Nobody knows what it has done, or what has become of it.
                return Err(Gone);
            }
        };
        let Beginning { leader, cell, enforced, observer, mailbox: _ } = beginning;
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
        let end = run.watch()?;
        let clean = end.survivors.is_empty() && !end.unfit;
        run.report(Report::Ended(Box::new(end)))?;
        run.close_cell()?;
        if clean { Ok(()) } else { Err(Gone) }
    }

    fn begin_forked(&mut self, order: &StartOrder, passed: &[OwnedFd]) -> Result<Beginning, SpawnError> {
        let zygote = self.zygote.as_mut().ok_or_else(|| failed("zygote", rustix::io::Errno::CHILD))?;
        let places = order.places(passed.len());
        let request = ForkRequest { places, in_cell: false, keep: 0 };
        let passed: Vec<BorrowedFd<'_>> = passed.iter().map(AsFd::as_fd).collect();
        let leader = zygote.fork(&request, &passed).map_err(|errno| failed("fork", errno))?;
        let enforced = zygote.enforced.clone();
        is_own_child(leader).map_err(|errno| failed("child", errno))?;
        Ok(Beginning { leader, cell: None, enforced, observer: None, mailbox: None })
    }
}

/// The kernel knows whose child it is: a number that a zygote has made up is nobody to be signalled.
fn is_own_child(pid: Pid) -> Result<(), rustix::io::Errno> {
    wait::peek(pid).map(drop)
}
