//! Handles on processes that are not our children. A pid can be given to somebody else; a handle cannot.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// A process, whoever its parent is.
pub struct ProcessHandle {
    pub pid: Pid,
    descriptor: OwnedFd,
}

impl ProcessHandle {
    /// ESRCH when there is no such process.
    pub fn open(pid: Pid) -> Result<Self, Errno> {
        Ok(Self { pid, descriptor: pidfd_open(pid, PidfdFlags::empty())? })
    }

    /// Reaches this process or nobody.
    pub fn signal(&self, signal: Signal) -> Result<(), Errno> {
        pidfd_send_signal(&self.descriptor, signal)
    }

    /// True once it has ended, reaped or not.
    pub fn has_ended(&self) -> bool {
        let mut watched = [PollFd::new(&self.descriptor, PollFlags::IN)];
        poll(&mut watched, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|count| count > 0)
    }
}

impl AsFd for ProcessHandle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Waits until all have ended; false when the time is up first.
pub fn wait_for_all(handles: &[ProcessHandle], until: Instant) -> bool {
    handles.iter().all(|handle| {
        let mut watched = [PollFd::new(handle, PollFlags::IN)];
        poll_until(&mut watched, Some(until)).is_ok_and(|count| count > 0)
    })
}

/// `poll` with a point in time; interrupted calls go on.
pub fn poll_until(watched: &mut [PollFd<'_>], until: Option<Instant>) -> Result<usize, Errno> {
    loop {
        let left = until.map(|until| timespec(until.saturating_duration_since(Instant::now())));
        match poll(watched, left.as_ref()) {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

/// As the kernel takes it.
pub fn timespec(duration: Duration) -> Timespec {
    Timespec { tv_sec: duration.as_secs() as i64, tv_nsec: i64::from(duration.subsec_nanos()) }
}
