//! From a prepared image to a running process: `clone`, raw system calls only, `execve`.
//!
//! The child shares this process's memory until it executes (`CLONE_VM | CLONE_VFORK`), so starting it costs the same however
//! much memory there is, and a failure is reported by writing to that memory. Between clone and `execve` the child
//! calls nothing that allocates, locks or unwinds.

use std::ffi::{CStr, c_int, c_void};
use std::os::fd::RawFd;
use std::ptr::NonNull;

use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use rustix::process::{Pid, Resource, Rlimit, WaitOptions};

use super::fd::{close_from, close_range};
use super::{checked, last_errno, signals};

/// Multiples of every page size that Linux has.
const STACK: usize = 64 * 1024;
const GUARD: usize = 64 * 1024;

/// The stack of a child. Below it is memory that nobody may touch: a child that needs more dies, and overwrites nothing of
/// ours, although it shares our memory.
struct Stack {
    start: NonNull<c_void>,
}

impl Stack {
    fn new() -> Result<Self, Errno> {
        let (size, nothing) = (GUARD + STACK, ProtFlags::empty());
        // SAFETY: a new anonymous mapping overlaps nothing.
        let address = unsafe { mmap_anonymous(std::ptr::null_mut(), size, nothing, MapFlags::PRIVATE)? };
        let stack = Self { start: NonNull::new(address).ok_or(Errno::NOMEM)? };
        let usable = MprotectFlags::READ | MprotectFlags::WRITE;
        // SAFETY: the guard ends within the mapping.
        let bottom = unsafe { stack.start.byte_add(GUARD) };
        // SAFETY: exactly the rest of the mapping, which nobody uses yet.
        unsafe { mprotect(bottom.as_ptr(), STACK, usable)? };
        Ok(stack)
    }

    /// Where it begins: stacks grow downwards.
    fn top(&self) -> *mut c_void {
        // SAFETY: the end of the mapping.
        unsafe { self.start.byte_add(GUARD + STACK) }.as_ptr()
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and the child that used it is gone. It cannot fail for a whole mapping.
        let _ = unsafe { munmap(self.start.as_ptr(), GUARD + STACK) };
    }
}

/// Something prepared beforehand and applied in the child, between clone and `execve`.
///
/// Both phases run in the child while it shares the parent's memory: only system calls, no allocation, no lock, no panic.
pub trait Restriction {
    /// Before the working directory is entered: the tool's own world is made here.
    fn enter(&self) -> Result<(), Refused> {
        Ok(())
    }

    /// What `seal` still needs; it closes by itself at `execve`.
    fn descriptor(&self) -> Option<RawFd> {
        None
    }

    /// After it, and last of all: what restricts the tool must not keep it from where it begins.
    fn seal(&self) -> Result<(), Refused>;
}

/// Which part of a restriction could not be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    pub what: &'static str,
    pub errno: Errno,
}

impl Refused {
    /// For `map_err`: names what was being done.
    pub fn at(what: &'static str) -> impl Fn(Errno) -> Self {
        move |errno| Self { what, errno }
    }
}

/// No core dumps, and the descriptor limit that the supervisor itself was started with.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub descriptors: Rlimit,
}

impl Restriction for Limits {
    fn seal(&self) -> Result<(), Refused> {
        let none = Rlimit { current: Some(0), maximum: Some(0) };
        rustix::process::setrlimit(Resource::Core, none).map_err(Refused::at("limit"))?;
        rustix::process::setrlimit(Resource::Nofile, self.descriptors).map_err(Refused::at("limit"))
    }
}

/// What the child was doing when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Session,
    Descriptors,
    WorkingDirectory,
    /// Names the part that could not be applied.
    Restrict(&'static str),
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
    let stack = Stack::new().map_err(|errno| LaunchError { stage: Stage::Session, errno })?;
    let mut shared = Shared { program, failure: None };
    let argument: *mut c_void = (&raw mut shared).cast();
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: the stack is large enough, aligned and outlives the child's use of it, because CLONE_VFORK holds this thread
    // until the child has executed or exited; `child` keeps to the rules above.
    let raw = unsafe { libc::clone(child, stack.top(), flags, argument) };
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
    place_descriptors(program.descriptors, program.restriction.descriptor()).map_err(at(Stage::Descriptors))?;
    let refused =
        |refused: Refused| LaunchError { stage: Stage::Restrict(refused.what), errno: refused.errno };
    program.restriction.enter().map_err(refused)?;
    if let Some(directory) = program.directory {
        rustix::process::chdir(directory).map_err(at(Stage::WorkingDirectory))?;
    }
    program.restriction.seal().map_err(refused)?;
    signals::unblock_all().map_err(at(Stage::Session))?;
    Err(LaunchError { stage: Stage::Execute, errno: execute(program) })
}

fn place_descriptors(descriptors: &[RawFd], kept: Option<RawFd>) -> Result<(), Errno> {
    for (place, descriptor) in descriptors.iter().enumerate() {
        // SAFETY: the child's table of descriptors is its own copy.
        checked(unsafe { libc::dup2(*descriptor, place as RawFd) })?;
    }
    let first = descriptors.len() as libc::c_uint;
    let Some(kept) = kept.map(|kept| kept as libc::c_uint) else {
        // SAFETY: as above; everything that was not placed is not the tool's.
        return unsafe { close_from(first) };
    };
    // SAFETY: as above.
    unsafe { close_range(first, kept - 1) }?;
    // SAFETY: as above.
    unsafe { close_from(kept + 1) }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The permissions of the mapping that holds this address, as the kernel shows them.
    fn permissions(address: usize) -> String {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
        let holds = |line: &&str| {
            let (start, end) =
                line.split(' ').next().and_then(|range| range.split_once('-')).expect("a range");
            let parse = |text| usize::from_str_radix(text, 16).expect("an address");
            (parse(start)..parse(end)).contains(&address)
        };
        let line = maps.lines().find(holds).expect("a mapping");
        line.split(' ').nth(1).expect("permissions").to_owned()
    }

    #[test]
    fn below_the_stack_of_a_child_is_memory_that_nobody_may_touch() {
        let stack = Stack::new().expect("a stack");
        let top = stack.top() as usize;
        assert_eq!(permissions(top - 1), "rw-p");
        assert_eq!(permissions(top - STACK), "rw-p");
        assert_eq!(permissions(top - STACK - 1), "---p");
        assert_eq!(permissions(top - STACK - GUARD), "---p");
    }
}
