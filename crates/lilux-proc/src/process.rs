//! Processes by number: `kill` and `status` for processes that are nobody's run.
//!
//! A number is looked at once and turned into a handle; what follows concerns that process and no other. A zombie is
//! dead. A process of another user is alive and not ours: an error, never "already dead".

use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal};

use crate::error::RequestError;
use crate::protocol::KillMethod;
use crate::sys::children::{Process, processes};
use crate::sys::pidfd::{ProcessHandle, wait_for_all};

const KILL_DEADLINE: Duration = Duration::from_secs(5);
const KILL_AGAIN: Duration = Duration::from_millis(100);
/// How often a group is listed to find members that were forked while it was told something.
const LISTINGS: usize = 8;
/// No longer than a day: beyond that `kill` is not what somebody wants.
const MAX_GRACE: Duration = Duration::from_secs(24 * 3600);

/// SIGTERM, `grace`, SIGKILL. The leader of a group or session ends its whole group.
pub fn kill(pid: i64, grace: Duration) -> Result<KillMethod, RequestError> {
    if pid == 1 {
        let message = "process 1 is the system's own and cannot be killed";
        return Err(RequestError::new("not_permitted", "kill", message));
    }
    let Some(target) = Target::find(checked(pid)?)? else {
        return Ok(KillMethod::AlreadyDead);
    };
    target.signal(Signal::TERM)?;
    target.signal(Signal::CONT)?;
    if target.wait(Instant::now() + grace.min(MAX_GRACE)) {
        return Ok(KillMethod::Terminated);
    }
    target.kill_all(Instant::now() + KILL_DEADLINE)
}

/// Whether a process is there and not a zombie.
pub fn is_alive(pid: i64) -> Result<bool, RequestError> {
    Ok(living(checked(pid)?)?.is_some())
}

/// A handle on a process that has not ended. /proc would not do: it may hide other users' processes, and it shows a process
/// whose first thread has ended as a zombie, however alive the others are.
fn living(pid: Pid) -> Result<Option<ProcessHandle>, RequestError> {
    match ProcessHandle::open(pid) {
        Ok(handle) => Ok(Some(handle).filter(|handle| !handle.has_ended())),
        Err(Errno::SRCH) => Ok(None),
        Err(Errno::INVAL | Errno::NOENT) => {
            let message = format!("{pid} is a thread, not a process");
            Err(RequestError::new("invalid_pid", "pid", message))
        }
        Err(errno) => {
            let message = format!("process {pid} cannot be looked at: {errno}");
            Err(RequestError::new("internal", "pid", message).with_errno(errno))
        }
    }
}

/// 0 and negative numbers mean groups to the kernel, never here.
fn checked(pid: i64) -> Result<Pid, RequestError> {
    let number = i32::try_from(pid).ok().filter(|number| *number > 0);
    number.and_then(Pid::from_raw).ok_or_else(|| {
        let limit = i32::MAX;
        RequestError::new("invalid_pid", "pid", format!("a process id is 1 to {limit}, not {pid}"))
    })
}

struct Target {
    handle: ProcessHandle,
    /// None when /proc does not show it: then it is signalled alone, if the kernel lets us.
    seen: Option<Process>,
}

fn send(process: &ProcessHandle, signal: Signal) -> Result<(), RequestError> {
    match process.signal(signal) {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(errno) => {
            let message = format!("process {} is not ours to signal: {errno}", process.pid);
            Err(RequestError::new("not_permitted", "kill", message).with_errno(errno))
        }
    }
}

impl Target {
    fn find(pid: Pid) -> Result<Option<Self>, RequestError> {
        let Some(handle) = living(pid)? else { return Ok(None) };
        // Read after the handle was opened: if the handle's process lives, this is about that very process.
        let seen = Process::read(pid);
        Ok(Some(Self { handle, seen }).filter(|target| !target.handle.has_ended()))
    }

    /// The session of the group that it leads.
    fn led(&self) -> Option<Option<Pid>> {
        let me = Some(self.handle.pid);
        self.seen.filter(|seen| seen.group == me || seen.session == me).map(|seen| seen.session)
    }

    /// Every living member of the group that the process leads, if it leads one.
    fn members(&self) -> Vec<ProcessHandle> {
        let Some(session) = self.led() else { return Vec::new() };
        let group = Some(self.handle.pid);
        let same = |process: &Process| process.group == group && process.session == session;
        let found = processes().filter(same).filter_map(|process| ProcessHandle::open(process.pid).ok());
        let living = found.filter(|handle| !handle.has_ended());
        living.filter(|handle| Process::read(handle.pid).as_ref().is_some_and(same)).collect()
    }

    /// Every process gets it once, also one that is forked between the listing and its parent's end.
    fn signal(&self, signal: Signal) -> Result<(), RequestError> {
        send(&self.handle, signal)?;
        let mut told = vec![self.handle.pid];
        for _ in 0..LISTINGS {
            let mut members = self.members();
            members.retain(|member| !told.contains(&member.pid));
            if members.is_empty() {
                break;
            }
            for member in members {
                send(&member, signal)?;
                told.push(member.pid);
            }
        }
        Ok(())
    }

    /// Again and again, because a member may have forked between being listed and being killed.
    fn kill_all(&self, deadline: Instant) -> Result<KillMethod, RequestError> {
        loop {
            self.signal(Signal::KILL)?;
            let now = Instant::now();
            if self.wait(deadline.min(now + KILL_AGAIN)) {
                return Ok(KillMethod::Killed);
            }
            if now >= deadline {
                let message = format!("process {} is still there 5 s after SIGKILL", self.handle.pid);
                return Err(RequestError::new("internal", "kill", message));
            }
        }
    }

    /// True once the process and all members of its group have ended.
    fn wait(&self, until: Instant) -> bool {
        if !wait_for_all(std::slice::from_ref(&self.handle), until) {
            return false;
        }
        loop {
            let members = self.members();
            if members.is_empty() {
                return true;
            }
            if !wait_for_all(&members, until) {
                return false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_mean_groups_are_refused() {
        for pid in [0, -1, -1000, i64::from(i32::MAX) + 1, i64::MAX, i64::MIN] {
            assert_eq!(kill(pid, Duration::ZERO).expect_err("refused").code, "invalid_pid");
            assert_eq!(is_alive(pid).expect_err("refused").code, "invalid_pid");
        }
    }

    #[test]
    fn a_zombie_is_dead() {
        let mut child = std::process::Command::new("/bin/true").spawn().expect("true starts");
        let handle = ProcessHandle::open(Pid::from_child(&child)).expect("is there");
        assert!(wait_for_all(&[handle], Instant::now() + Duration::from_secs(10)));
        let pid = i64::from(child.id());
        assert_eq!(is_alive(pid), Ok(false));
        assert_eq!(kill(pid, Duration::ZERO), Ok(KillMethod::AlreadyDead));
        child.wait().expect("can be reaped");
    }

    #[test]
    fn the_first_process_is_left_alone() {
        assert_eq!(kill(1, Duration::ZERO).expect_err("not ours").code, "not_permitted");
        assert_eq!(is_alive(1), Ok(true));
    }
}
