//! The way of a listener from the tool, which loads the filter just before its program is executed, to its keeper.

use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::rc::Rc;

use rustix::io::Errno;
use rustix::net::RecvFlags;

use crate::confine::Instruction;
use crate::sys::{fd, last_errno};

const NEW_LISTENER: libc::c_ulong = 1 << 3;
const WAIT_KILLABLE: libc::c_ulong = 1 << 5;

/// When a signal may break off a call that was told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tells {
    /// At any time: it is made again, and told of again.
    AsOftenAsItIsMade,
    /// Not while it is being answered, because the answer changes something: only a fatal one (Linux 5.19).
    Once,
}

/// Everything that the tool needs, prepared before its process exists.
#[derive(Debug)]
pub struct Post {
    channel: OwnedFd,
    filter: Rc<[Instruction]>,
    flags: libc::c_ulong,
}

/// Where the keeper finds the listener.
#[derive(Debug)]
pub struct Mailbox(OwnedFd);

/// Both ends.
pub fn post(filter: impl Into<Rc<[Instruction]>>, tells: Tells) -> Result<(Mailbox, Post), Errno> {
    let (ours, theirs) = fd::message_pair()?;
    let flags = NEW_LISTENER | if tells == Tells::Once { WAIT_KILLABLE } else { 0 };
    Ok((Mailbox(ours), Post { channel: fd::above_fixed_places(theirs)?, filter: filter.into(), flags }))
}

impl Post {
    /// What it still needs when other descriptors have been closed.
    pub fn descriptor(&self) -> RawFd {
        self.channel.as_raw_fd()
    }

    /// In the tool, which can gain no privileges any more. Only system calls, none of which may be told of.
    pub fn install(&self) -> Result<(), Errno> {
        let filter = &self.filter;
        let program =
            libc::sock_fprog { len: filter.len() as libc::c_ushort, filter: filter.as_ptr().cast_mut() };
        // SAFETY: the program is as long as said; the kernel copies it.
        let listener = unsafe {
            libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, self.flags, &raw const program)
        };
        if listener < 0 {
            return Err(last_errno());
        }
        // SAFETY: a new descriptor, which nothing else knows.
        let listener = unsafe { OwnedFd::from_raw_fd(listener as RawFd) };
        fd::send(&self.channel, &[IoSlice::new(b"N")], &[listener.as_fd()])
    }
}

impl AsFd for Mailbox {
    /// Readable once the tool has sent its listener, or is gone.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Mailbox {
    /// Once the tool has been started.
    pub fn open(self) -> Result<OwnedFd, Errno> {
        let (_, mut passed) = fd::receive(&self.0, &mut [0; 1], RecvFlags::DONTWAIT)?;
        passed.pop().ok_or(Errno::BADF)
    }
}
