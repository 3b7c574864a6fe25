//! Signals as something to be read: blocked for the whole process and taken from a descriptor.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::Signal;

use super::checked;

/// The signals that are read from a descriptor instead of interrupting.
pub struct SignalQueue {
    descriptor: OwnedFd,
}

/// Blocks every signal and gives each its default action, so that nothing ignored is passed on to a tool.
pub fn block_all() -> Result<(), Errno> {
    // All zero: the default action, no flags, an empty mask. The kernel is asked directly, because the C library refuses to
    // touch the two signals that it keeps for itself, and those may be inherited as ignored like any other.
    let default = [0u64; 8];
    for signal in 1..=libc::SIGRTMAX() {
        let nothing = std::ptr::null_mut::<u64>();
        // SAFETY: the structure is larger than the kernel reads; SIGKILL and SIGSTOP answer EINVAL and stay as they are.
        unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), nothing, size_of::<u64>()) };
    }
    set_mask(&full_set())
}

/// Children of this process are gone as soon as they end, without being waited for.
pub fn ignore_children() -> Result<(), Errno> {
    let mut ignore = [0u64; 8];
    ignore[0] = libc::SIG_IGN as u64;
    let nothing = std::ptr::null_mut::<u64>();
    // SAFETY: the structure is larger than the kernel reads, and has no flags.
    let answer = unsafe {
        libc::syscall(libc::SYS_rt_sigaction, libc::SIGCHLD, ignore.as_ptr(), nothing, size_of::<u64>())
    };
    checked(answer as i32).map(drop)
}

fn full_set() -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::uninit();
    // SAFETY: sigfillset initialises the set that it is given.
    unsafe { libc::sigfillset(set.as_mut_ptr()) };
    // SAFETY: initialised by the call above.
    unsafe { set.assume_init() }
}

fn empty_set() -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set that it is given.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: initialised by the call above.
    unsafe { set.assume_init() }
}

fn set_mask(set: &libc::sigset_t) -> Result<(), Errno> {
    // SAFETY: the set is initialised and the old mask is not asked for.
    checked(unsafe { libc::sigprocmask(libc::SIG_SETMASK, set, std::ptr::null_mut()) })?;
    Ok(())
}

/// Lets every signal through again; the last thing a tool's process does before `execve`. Safe after `clone`.
pub fn unblock_all() -> Result<(), Errno> {
    set_mask(&empty_set())
}

impl SignalQueue {
    /// Call `block_all` first: a signal that is not blocked is delivered, not queued.
    pub fn of(signals: &[Signal]) -> Result<Self, Errno> {
        let mut set = empty_set();
        for signal in signals {
            // SAFETY: the set is initialised and the number is a signal's.
            unsafe { libc::sigaddset(&mut set, signal.as_raw()) };
        }
        // SAFETY: the set is initialised; -1 asks for a new descriptor.
        let raw = checked(unsafe { libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) })?;
        // SAFETY: signalfd returned a new descriptor that nothing else owns.
        let descriptor = unsafe { OwnedFd::from_raw_fd(raw) };
        Ok(Self { descriptor })
    }

    /// The next signal, or `None` when none is waiting.
    pub fn take(&self) -> Option<i32> {
        let mut info = std::mem::MaybeUninit::<libc::signalfd_siginfo>::uninit();
        let size = size_of::<libc::signalfd_siginfo>();
        let raw = self.descriptor.as_raw_fd();
        // SAFETY: the buffer is as large as said.
        let count = unsafe { libc::read(raw, info.as_mut_ptr().cast(), size) };
        if count != size as isize {
            return None;
        }
        // SAFETY: the kernel filled the whole structure.
        let info = unsafe { info.assume_init() };
        Some(info.ssi_signo as i32)
    }

    /// Empties the queue; true when `wanted` was in it.
    pub fn drain(&self, wanted: Signal) -> bool {
        let mut seen = false;
        while let Some(signal) = self.take() {
            seen |= signal == wanted.as_raw();
        }
        seen
    }
}

impl AsFd for SignalQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
