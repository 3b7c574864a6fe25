//! Notices of system calls, as the kernel tells them (`seccomp_unotify(2)`).

use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use crate::sys::checked;
use crate::sys::pidfd::poll_until;

const RECEIVE: u32 = 0xc050_2100;
const SEND: u32 = 0xc018_2101;
const IS_VALID: u32 = 0x4008_2102;
/// The kernel goes on as if nobody had been asked.
const GO_ON: u32 = 1;

/// A call that waits to be made.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Notice {
    pub id: u64,
    pub thread: u32,
    flags: u32,
    pub number: i32,
    architecture: u32,
    instruction: u64,
    pub arguments: [u64; 6],
}

#[repr(C)]
struct Answer {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

/// What there is to do.
pub enum Waiting {
    Nothing,
    Call,
    /// Nobody is left who could make a call.
    Over,
}

pub fn waiting(listener: &OwnedFd) -> Waiting {
    let mut watched = [PollFd::new(listener, PollFlags::IN)];
    if poll_until(&mut watched, Some(Instant::now())).is_err() {
        return Waiting::Over;
    }
    let found = watched[0].revents();
    if found.contains(PollFlags::IN) {
        Waiting::Call
    } else if found.is_empty() {
        Waiting::Nothing
    } else {
        Waiting::Over
    }
}

/// Fails when the caller has gone in the meantime.
pub fn receive(listener: &OwnedFd) -> Result<Notice, Errno> {
    let mut notice = Notice::default();
    // SAFETY: the kernel writes a structure of this form and size; it demands that all of it is zero.
    checked(unsafe { libc::ioctl(listener.as_raw_fd(), RECEIVE as libc::Ioctl, &raw mut notice) })?;
    Ok(notice)
}

/// Whether the caller still waits, so that its number means nobody else.
pub fn is_valid(listener: &OwnedFd, id: u64) -> bool {
    // SAFETY: the kernel reads one number.
    checked(unsafe { libc::ioctl(listener.as_raw_fd(), IS_VALID as libc::Ioctl, &raw const id) }).is_ok()
}

/// Lets the call be made. A caller that has gone needs no answer.
pub fn go_on(listener: &OwnedFd, id: u64) {
    let answer = Answer { id, value: 0, error: 0, flags: GO_ON };
    // SAFETY: the kernel reads a structure of this form and size.
    let _ = checked(unsafe { libc::ioctl(listener.as_raw_fd(), SEND as libc::Ioctl, &raw const answer) });
}
