//! Waiting for children, with what they used.

use std::mem::MaybeUninit;

use rustix::io::Errno;
use rustix::process::Pid;

use super::{checked, last_errno};
use crate::protocol::Usage;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Ending {
    Code(i32),
    Signal(i32),
}

/// A child that has been reaped.
#[derive(Debug)]
pub struct Reaped {
    pub pid: Pid,
    pub usage: Usage,
}

/// What `reap` found.
#[derive(Debug)]
pub enum Reap {
    One(Reaped),
    /// There are children, and none of those asked for has ended.
    NotYet,
    /// There are no such children (ECHILD).
    NoChildren,
}

/// A child that has made us its tracer (`PTRACE_TRACEME`) tells us of its stops, too, although nobody asks for them.
const ENDINGS: [libc::c_int; 3] = [libc::CLD_EXITED, libc::CLD_KILLED, libc::CLD_DUMPED];

/// How a child of ours ended, without reaping it: its pid stays its own until `reap`.
pub fn peek(pid: Pid) -> Result<Option<Ending>, Errno> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    let number = pid.as_raw_nonzero().get() as libc::id_t;
    // SAFETY: the buffer is a siginfo_t.
    checked(unsafe { libc::waitid(libc::P_PID, number, info.as_mut_ptr(), options) })?;
    // SAFETY: all-zero is a valid siginfo_t, and waitid wrote over it if a child had ended.
    let info = unsafe { info.assume_init() };
    // SAFETY: after waitid the fields of SIGCHLD are the ones in force.
    if unsafe { info.si_pid() } == 0 || !ENDINGS.contains(&info.si_code) {
        return Ok(None);
    }
    // SAFETY: as above.
    let status = unsafe { info.si_status() };
    Ok(Some(if info.si_code == libc::CLD_EXITED { Ending::Code(status) } else { Ending::Signal(status) }))
}

/// Reaps one child that has ended: that one, or any (`None`). Never waits.
pub fn reap(pid: Option<Pid>) -> Result<Reap, Errno> {
    let wanted = pid.map_or(-1, |pid| pid.as_raw_nonzero().get());
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    let result = loop {
        let mut status = 0;
        let options = libc::WNOHANG | libc::__WALL;
        // SAFETY: the status is a number and the buffer is a rusage.
        let result = unsafe { libc::wait4(wanted, &raw mut status, options, usage.as_mut_ptr()) };
        // A stop is told once: see `ENDINGS`.
        if result <= 0 || !libc::WIFSTOPPED(status) {
            break result;
        }
    };
    // SAFETY: all-zero is a valid rusage.
    let usage = unsafe { usage.assume_init() };
    match result {
        -1 if last_errno() == Errno::CHILD => Ok(Reap::NoChildren),
        -1 => Err(last_errno()),
        0 => Ok(Reap::NotYet),
        raw => {
            let pid = Pid::from_raw(raw).ok_or(Errno::CHILD)?;
            Ok(Reap::One(Reaped { pid, usage: Usage::from(&usage) }))
        }
    }
}

impl From<&libc::rusage> for Usage {
    fn from(usage: &libc::rusage) -> Self {
        let ms = |time: libc::timeval| time.tv_sec as f64 * 1e3 + time.tv_usec as f64 / 1e3;
        Self { user_ms: ms(usage.ru_utime), system_ms: ms(usage.ru_stime), max_rss_kb: usage.ru_maxrss }
    }
}
