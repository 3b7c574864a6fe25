//! What only Linux has, behind one small seam: subreapers, pidfds, signalfds, `clone`, `/proc`, fork-proof memory.
//!
//! Everything above this module speaks of processes, descriptors and memory without knowing how the kernel provides them;
//! a portable backend (process groups, `poll`) would stand beside these files and offer the same names.

pub mod children;
pub mod fd;
pub mod launch;
pub mod pidfd;
pub mod region;
pub mod signals;
pub mod wait;

use std::ffi::{CStr, OsStr, OsString, c_char, c_int};
use std::os::unix::ffi::OsStrExt;

use crate::error::Fatal;
use crate::switches::Guard;
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Pid, Resource, Rlimit, getpid, getrlimit, setrlimit};

/// Everything here needs Linux 5.9 and its /proc; without them the first call says so, not the first run.
pub fn check_kernel() -> Result<(), Fatal> {
    if !children::can_be_listed() {
        let message = "lilux-proc needs /proc, and it is not mounted here: nobody could be found whom a tool leaves behind";
        return Err(Fatal::Usage(message.to_owned()));
    }
    // SAFETY: the range is empty, so nothing is closed.
    let answer = unsafe { fd::close_from(libc::c_uint::MAX) };
    match answer {
        Err(Errno::NOSYS) => {
            let message = "lilux-proc needs Linux 5.9 or later: this kernel has no close_range";
            Err(Fatal::Usage(message.to_owned()))
        }
        _ => Ok(()),
    }
}

/// What the C library gives to `main`. `std::env::args` would know it only under glibc: elsewhere it learns it from Rust's
/// own start-up, which this program does without.
///
/// # Safety
///
/// `arguments` points to `count` texts that end with a zero.
pub unsafe fn arguments(count: c_int, arguments: *const *const c_char) -> Vec<OsString> {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: the caller's promise; a program that was started without any has no list either.
    let texts = if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(arguments, count) } };
    // SAFETY: the caller's promise.
    texts
        .iter()
        .map(|text| OsStr::from_bytes(unsafe { CStr::from_ptr(*text) }.to_bytes()).to_owned())
        .collect()
}

/// A process of ours, in which whatever is orphaned below it arrives, and into which others cannot look.
pub fn become_guardian(name: &CStr, guard: Guard) -> Result<(), Errno> {
    if guard.is_on() {
        rustix::process::set_child_subreaper(Some(getpid()))?;
    }
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    rustix::thread::set_name(name)
}

/// Raises the soft limit on descriptors to the hard one and returns what it was, so that tools get it back.
pub fn raise_descriptor_limit() -> Rlimit {
    let before = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: before.maximum, maximum: before.maximum };
    // Where it cannot be raised, fewer runs fit at once; each that does not fit says so.
    let _ = setrlimit(Resource::Nofile, raised);
    before
}

/// The limit on descriptors as it is.
pub fn descriptor_limit() -> Rlimit {
    getrlimit(Resource::Nofile)
}

/// `fork`, for a program of one thread. Returns `None` in the child.
pub fn fork() -> Result<Option<Pid>, Errno> {
    // SAFETY: this program never starts a thread, so the child has every lock and all state in order.
    let pid = unsafe { libc::fork() };
    match pid {
        -1 => Err(last_errno()),
        0 => Ok(None),
        _ => Ok(Pid::from_raw(pid)),
    }
}

/// Ends a forked process without running destructors that belong to its parent.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: `_exit` has no preconditions.
    unsafe { libc::_exit(code) }
}

pub(crate) fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// `-1` becomes the error that the C library left behind.
pub(crate) fn checked(result: i32) -> Result<i32, Errno> {
    if result == -1 { Err(last_errno()) } else { Ok(result) }
}

/// Hands memory that the allocator keeps for later back to the system.
pub fn give_back_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it only releases free memory.
    unsafe {
        libc::malloc_trim(0);
    }
}
