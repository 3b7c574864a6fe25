//! The tool's half: the filter that tells of its calls, loaded just before its program is executed.

use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::Errno;

use super::calls;
use crate::confine::{Instruction, compile};
use crate::sys::fd;
use crate::sys::last_errno;

const NEW_LISTENER: libc::c_ulong = 1 << 3;

/// Everything that is needed, prepared before the tool's process exists.
#[derive(Debug)]
pub struct Post {
    channel: OwnedFd,
    filter: Vec<Instruction>,
}

impl Post {
    pub fn new(channel: OwnedFd) -> Self {
        Self { channel, filter: compile(&calls::table()) }
    }

    /// What it still needs when other descriptors have been closed.
    pub fn descriptor(&self) -> RawFd {
        self.channel.as_raw_fd()
    }

    /// In the tool, which can gain no privileges any more. Only system calls, none of which is told of.
    pub fn install(&self) -> Result<(), Errno> {
        let filter = &self.filter;
        let program =
            libc::sock_fprog { len: filter.len() as libc::c_ushort, filter: filter.as_ptr().cast_mut() };
        // SAFETY: the program is as long as said; the kernel copies it.
        let listener = unsafe {
            libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, NEW_LISTENER, &raw const program)
        };
        if listener < 0 {
            return Err(last_errno());
        }
        // SAFETY: a new descriptor, which nobody else knows.
        let listener = unsafe { OwnedFd::from_raw_fd(listener as RawFd) };
        fd::send(&self.channel, &[IoSlice::new(b"N")], &[listener.as_fd()])
    }
}
