//! Notices of system calls, as the kernel tells them (`seccomp_unotify(2)`), and what a keeper learns and answers by them.
//!
//! A filter with a `Post` is loaded by the tool just before its program is executed; the keeper finds the listener in the
//! `Mailbox`. Of all filters of a process one has a listener. The tool waits until its call has been answered.

pub mod memory;
pub mod peer;
mod post;

use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

pub use post::{Mailbox, Post, Tells, post};

use crate::sys::checked;
use crate::sys::pidfd::poll_until;

const RECEIVE: u32 = 0xc050_2100;
const SEND: u32 = 0xc018_2101;
const IS_VALID: u32 = 0x4008_2102;
const ADD_DESCRIPTOR: u32 = 0x4018_2103;
/// The number of the descriptor is the answer, too.
const AND_ANSWER: u32 = 2;
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

#[repr(C)]
struct AddedDescriptor {
    id: u64,
    flags: u32,
    source: u32,
    number: u32,
    descriptor_flags: u32,
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

/// Whether the caller still waits, so that its number still means it.
pub fn is_valid(listener: &OwnedFd, id: u64) -> bool {
    // SAFETY: the kernel reads one number.
    checked(unsafe { libc::ioctl(listener.as_raw_fd(), IS_VALID as libc::Ioctl, &raw const id) }).is_ok()
}

/// Lets the call be made. A caller that has gone needs no answer.
pub fn go_on(listener: &OwnedFd, id: u64) {
    send(listener, Answer { id, value: 0, error: 0, flags: GO_ON });
}

/// What the call returns instead of being made.
pub fn answer(listener: &OwnedFd, id: u64, outcome: Result<(), Errno>) {
    let error = outcome.err().map_or(0, |errno| -errno.raw_os_error());
    send(listener, Answer { id, value: 0, error, flags: 0 });
}

fn send(listener: &OwnedFd, answer: Answer) {
    // SAFETY: the kernel reads a structure of this form and size.
    let _ = checked(unsafe { libc::ioctl(listener.as_raw_fd(), SEND as libc::Ioctl, &raw const answer) });
}

/// The caller gets the descriptor, and its number as the answer.
pub fn give(listener: &OwnedFd, id: u64, descriptor: impl AsFd, closed_by_exec: bool) -> Result<(), Errno> {
    let source = descriptor.as_fd().as_raw_fd() as u32;
    let descriptor_flags = if closed_by_exec { libc::O_CLOEXEC as u32 } else { 0 };
    let added = AddedDescriptor { id, flags: AND_ANSWER, source, number: 0, descriptor_flags };
    // SAFETY: the kernel reads a structure of this form and size.
    checked(unsafe { libc::ioctl(listener.as_raw_fd(), ADD_DESCRIPTOR as libc::Ioctl, &raw const added) })
        .map(drop)
}

/// The caller's own descriptor of this number: the same open file.
pub fn take(thread: u32, number: RawFd) -> Result<OwnedFd, Errno> {
    let process = open_process(thread)?;
    // SAFETY: numbers only.
    let raw = unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), number, 0) };
    let raw = checked(raw as libc::c_int)?;
    // SAFETY: a new descriptor, close-on-exec, that nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// Only processes have handles, and the caller may be a thread other than the first.
fn open_process(thread: u32) -> Result<OwnedFd, Errno> {
    let open = |number: u32| {
        let pid = i32::try_from(number).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
        pidfd_open(pid, PidfdFlags::empty())
    };
    open(thread).or_else(|_| open(leader_of(thread).ok_or(Errno::SRCH)?))
}

fn leader_of(thread: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}
