//! A prepared interpreter that a keeper looks after, and what is said between the two.
//!
//! A zygote forks what becomes a child of the keeper (`CLONE_PARENT`): so it is watched, signalled and reaped as ever. It is a
//! child like any other itself, and the keeper trusts nothing of what it says that the kernel can tell.

use std::io::IoSlice;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::process::Pid;
use serde::{Deserialize, Serialize};

use super::{Gone, Keeper, raw};
use crate::error::SpawnError;
use crate::policy::Enforced;
use crate::sys::fd;
use crate::sys::pidfd::poll_until;
use crate::wire::Report;

/// One that takes longer to fork is not in order, or the machine is not.
const PATIENCE: Duration = Duration::from_secs(2);
const WORD: usize = 4096;

/// A zygote, ready or not yet.
pub(super) struct Zygote {
    pub(super) pid: Pid,
    pub(super) enforced: Option<Enforced>,
    control: OwnedFd,
    memory_kb: Option<u64>,
}

/// What a zygote is asked to fork. The descriptors travel with it, in this order: those of the places, that of the walls if
/// there are any, those of the namespaces of processes, mounts and IPC.
#[derive(Serialize)]
pub(super) struct ForkRequest {
    pub(super) places: Vec<RawFd>,
    pub(super) in_cell: bool,
    /// Landlock keeps it to the files of its cell, whatever directory another cell sends it.
    pub(super) in_walls: bool,
    /// Capabilities, as a set of bits: those that are kept.
    pub(super) keep: u64,
    /// A call waits for it: it need not rehearse one.
    pub(super) awaited: bool,
}

/// What it says when it is ready, and when it has forked.
#[derive(Deserialize)]
struct Word {
    pid: Option<i32>,
    memory_kb: u64,
}

impl Zygote {
    pub(super) fn new(pid: Pid, control: OwnedFd, enforced: Option<Enforced>) -> Self {
        Self { pid, enforced, control, memory_kb: None }
    }

    /// To be watched until it has said that it is ready.
    pub(super) fn first_word(&self) -> Option<&OwnedFd> {
        self.memory_kb.is_none().then_some(&self.control)
    }

    fn hear(&mut self) -> Result<Word, Errno> {
        let mut watched = [PollFd::new(&self.control, PollFlags::IN)];
        if poll_until(&mut watched, Some(Instant::now() + PATIENCE))? == 0 {
            return Err(Errno::TIMEDOUT);
        }
        let mut buffer = [0; WORD];
        let (count, _) = fd::receive(&self.control, &mut buffer, RecvFlags::DONTWAIT)?;
        let word: Word = serde_json::from_slice(&buffer[..count]).map_err(|_| Errno::PROTO)?;
        self.memory_kb = Some(word.memory_kb);
        Ok(word)
    }

    /// Has it fork somebody; who that is.
    pub(super) fn fork(&mut self, request: &ForkRequest, passed: &[BorrowedFd<'_>]) -> Result<Pid, Errno> {
        let text = serde_json::to_vec(request).expect("numbers are JSON");
        fd::send(&self.control, &[IoSlice::new(&text)], passed)?;
        // One is the zygote's own, and one comes from what it forked, which says that it is where it should be. Whether
        // that is so, the kernel says. They come in any order.
        let pid = match (self.hear()?.pid, self.hear()?.pid) {
            (Some(pid), None) | (None, Some(pid)) => Pid::from_raw(pid),
            _ => None,
        };
        pid.ok_or(Errno::PROTO)
    }

    pub(super) fn memory_kb(&self) -> Option<u64> {
        self.memory_kb
    }
}

impl Keeper {
    /// The zygote is ready, or of no use.
    pub(super) fn hear_zygote(&mut self) -> Result<(), Gone> {
        let Some(zygote) = &mut self.zygote else { return Ok(()) };
        match zygote.hear() {
            Ok(_) => {
                let (pid, enforced, memory_kb) = (raw(zygote.pid), zygote.enforced.clone(), zygote.memory_kb);
                self.report(&Report::Started { pid, enforced, memory_kb })
            }
            Err(_) => Err(Gone),
        }
    }
}

/// Why nothing was forked.
pub(super) fn failed(what: &str, errno: Errno) -> SpawnError {
    let message = format!("the zygote could not fork what was asked for ({what}): {errno}");
    SpawnError::new("zygote_failed", "fork", Some(errno), message)
}
