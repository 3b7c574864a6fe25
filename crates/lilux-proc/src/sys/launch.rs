//! From a prepared image to a running process: `clone`, raw system calls only, `execve`.
//!
//! The child shares this process's memory until it executes (`CLONE_VM | CLONE_VFORK`), so starting it costs the same however
//! much memory there is, and a failure is reported by writing to that memory. Between clone and `execve` the child
//! calls nothing that allocates, locks or unwinds.

use std::ffi::{CStr, c_int, c_void};
use std::os::fd::RawFd;

use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, WaitOptions};

use super::fd::close_from;
use super::{checked, last_errno, signals};

const STACK: usize = 64 * 1024;

/// Something prepared beforehand and applied in the child, between clone and `execve`.
pub trait Restriction {
    /// Runs in the child while it shares the parent's memory: only system calls, no allocation, no lock, no panic.
    fn apply(&self) -> Result<(), Errno>;
}

/// No core dumps, and the descriptor limit that the supervisor itself was started with.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub descriptors: Rlimit,
}

impl Restriction for Limits {
    fn apply(&self) -> Result<(), Errno> {
        rustix::process::setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
        rustix::process::setrlimit(Resource::Nofile, self.descriptors)
    }
}

/// What the child was doing when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Session,
    Descriptors,
    Restrict,
    WorkingDirectory,
    Execute,
}

/// Why nothing runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchError {
    pub stage: Stage,
    pub errno: Errno,
}

/// A program ready to be executed; the pointers borrow from its caller and end with null.
pub struct Program<'a> {
    pub candidates: &'a [&'a CStr],
    pub arguments: &'a [*const libc::c_char],
    pub environment: &'a [*const libc::c_char],
    pub directory: Option<&'a CStr>,
    /// What becomes 0, 1, 2 and, if there is a fourth, 3. Each is at least 4, or already in its place.
    pub descriptors: &'a [RawFd],
    pub restriction: &'a dyn Restriction,
}

struct Shared<'a> {
    program: &'a Program<'a>,
    failure: Option<LaunchError>,
}

/// Starts it as the leader of a session and group of its own, with every signal at its default.
///
/// The caller must have blocked all signals and must be of one thread.
pub fn launch(program: &Program<'_>) -> Result<Pid, LaunchError> {
    let mut stack = Vec::<u128>::with_capacity(STACK / size_of::<u128>());
    let mut shared = Shared { program, failure: None };
    let argument: *mut c_void = (&raw mut shared).cast();
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    let top: *mut c_void = stack.spare_capacity_mut().as_mut_ptr_range().end.cast();
    // SAFETY: the stack is large enough, aligned and outlives the child's use of it, because CLONE_VFORK holds this thread
    // until the child has executed or exited; `child` keeps to the rules above.
    let raw = unsafe { libc::clone(child, top, flags, argument) };
    let pid = checked(raw).map(Pid::from_raw);
    match (pid, shared.failure) {
        (Ok(Some(pid)), None) => Ok(pid),
        (Ok(Some(pid)), Some(failure)) => {
            // CLONE_VFORK lets go of us a moment before the child has quite ended, so this one wait may be real.
            let _ = rustix::process::waitpid(Some(pid), WaitOptions::empty());
            Err(failure)
        }
        (Ok(None), _) => Err(LaunchError { stage: Stage::Session, errno: Errno::CHILD }),
        (Err(errno), _) => Err(LaunchError { stage: Stage::Session, errno }),
    }
}

extern "C" fn child(argument: *mut c_void) -> c_int {
    let shared: *mut Shared<'_> = argument.cast();
    // SAFETY: the parent passed a Shared that lives on its stack and does not touch it until we are gone.
    let shared = unsafe { &mut *shared };
    shared.failure = become_program(shared.program).err();
    super::exit_now(127)
}

/// Returns only when something failed.
fn become_program(program: &Program<'_>) -> Result<(), LaunchError> {
    let at = |stage| move |errno| LaunchError { stage, errno };
    rustix::process::setsid().map_err(at(Stage::Session))?;
    place_descriptors(program.descriptors).map_err(at(Stage::Descriptors))?;
    program.restriction.apply().map_err(at(Stage::Restrict))?;
    if let Some(directory) = program.directory {
        rustix::process::chdir(directory).map_err(at(Stage::WorkingDirectory))?;
    }
    signals::unblock_all().map_err(at(Stage::Session))?;
    Err(LaunchError { stage: Stage::Execute, errno: execute(program) })
}

fn place_descriptors(descriptors: &[RawFd]) -> Result<(), Errno> {
    for (place, descriptor) in descriptors.iter().enumerate() {
        // SAFETY: the child's table of descriptors is its own copy.
        checked(unsafe { libc::dup2(*descriptor, place as RawFd) })?;
    }
    let first = descriptors.len() as libc::c_uint;
    // SAFETY: as above; everything that was not placed is not the tool's.
    unsafe { close_from(first) }
}

/// Tries every candidate; the reason of the first that exists but cannot be executed is worth more than "not found".
fn execute(program: &Program<'_>) -> Errno {
    let mut reason = Errno::NOENT;
    for candidate in program.candidates {
        let (path, argv, envp) =
            (candidate.as_ptr(), program.arguments.as_ptr(), program.environment.as_ptr());
        // SAFETY: all three are C strings or null-terminated lists of them.
        unsafe { libc::execve(path, argv, envp) };
        match last_errno() {
            Errno::NOENT | Errno::NOTDIR => {}
            Errno::ACCESS => reason = Errno::ACCESS,
            other => return other,
        }
    }
    reason
}
