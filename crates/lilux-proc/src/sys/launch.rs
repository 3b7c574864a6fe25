//! From a prepared image to a running process: `clone`, raw system calls only, `execve`.
//!
//! The child shares this process's memory until it executes (`CLONE_VM | CLONE_VFORK`), so starting it costs the same however
//! much memory there is, and a failure is reported by writing to that memory. Between clone and `execve` the child
//! calls nothing that allocates, locks or unwinds.

use std::cell::RefCell;
use std::ffi::{CStr, c_int, c_void};
use std::mem::ManuallyDrop;
use std::os::fd::RawFd;
use std::ptr::NonNull;

use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use rustix::process::{Pid, Resource, Rlimit, WaitOptions};

use super::fd::{close_from, close_range};
use super::{checked, last_errno, signals};
use crate::observe::LAUNCH;

/// Multiples of every page size that Linux has.
const STACK: usize = 64 * 1024;
const GUARD: usize = 64 * 1024;

/// Stacks that nobody uses, at most as many as one launch needs.
const SPARE: usize = 3;

thread_local! {
    static SPARES: RefCell<Vec<NonNull<c_void>>> = const { RefCell::new(Vec::new()) };
}

/// The stack of a child. Below it is memory that nobody may touch: a child that needs more dies, and overwrites nothing of
/// ours, although it shares our memory.
#[derive(Debug)]
struct Stack {
    start: NonNull<c_void>,
}

impl Stack {
    /// One that a child before has used, or a new one.
    fn new() -> Result<Self, Errno> {
        match SPARES.with_borrow_mut(Vec::pop) {
            Some(start) => Ok(Self { start }),
            None => Self::map(),
        }
    }

    fn map() -> Result<Self, Errno> {
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
        let is_kept = SPARES.with_borrow_mut(|spares| {
            let has_room = spares.len() < SPARE;
            spares.extend(has_room.then_some(self.start));
            has_room
        });
        if !is_kept {
            // SAFETY: the mapping is ours, and the child that used it is gone. It cannot fail for a whole mapping.
            let _ = unsafe { munmap(self.start.as_ptr(), GUARD + STACK) };
        }
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

    /// Something to be built around the tool first.
    fn chamber(&self) -> Option<&dyn Chamber> {
        None
    }

    /// More than limits: files may be out of the tool's sight.
    fn is_confining(&self) -> bool {
        false
    }

    /// For a message: what was refused.
    fn name_of(&self, _step: usize) -> String {
        String::new()
    }

    /// What `seal` still needs, above the fixed places; they close by themselves at `execve`.
    fn descriptors(&self) -> [Option<RawFd>; 3] {
        [None; 3]
    }

    /// After it, and last of all: what restricts the tool must not keep it from where it begins.
    fn seal(&self) -> Result<(), Refused>;
}

/// Namespaces around a tool, which take a process to make them and another to hold them together.
pub trait Chamber {
    /// In a process that shares the parent's memory and starts the tool: makes what is around it. Only system calls.
    fn build(&self) -> Result<(), Refused>;

    /// Somebody has to hold it together.
    fn has_guard(&self) -> bool {
        true
    }

    /// As `build`, when process 1 is there.
    fn complete(&self) -> Result<(), Refused> {
        Ok(())
    }

    /// In a process 1 with memory of its own, before it goes on as the guardian.
    fn prepare_guard(&self) -> Result<(), Refused> {
        Ok(())
    }

    /// What process 1 of the chamber is.
    fn guardian(&self) -> Guardian;
}

/// A process that goes on in the parent's memory, beside it, until it is reaped. So it allocates nothing, keeps to what it is
/// given here and to what is constant, and makes no call of the C library that says by `errno` how it went.
#[derive(Clone, Copy, Debug)]
pub struct Guardian {
    pub main: extern "C" fn(*mut c_void) -> c_int,
    pub descriptor: RawFd,
}

/// Which part of a restriction could not be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    pub what: &'static str,
    pub errno: Errno,
    /// Of several of its kind, this one; whoever prepared them has a name for it.
    pub step: Option<usize>,
}

impl Refused {
    /// For `map_err`: names what was being done.
    pub fn at(what: &'static str) -> impl Fn(Errno) -> Self {
        move |errno| Self { what, errno, step: None }
    }
}

/// No core dumps, and the descriptor limit that the supervisor itself was started with.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub descriptors: Rlimit,
}

impl Restriction for Limits {
    fn seal(&self) -> Result<(), Refused> {
        // A program that cores are piped to is started for a limit of 0, too, but not for 1, in which no core has room.
        let none = Rlimit { current: Some(1), maximum: Some(1) };
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
    pub step: Option<usize>,
}

impl LaunchError {
    /// It has ended without a word.
    pub fn lost() -> Self {
        Self { stage: Stage::Session, errno: Errno::CHILD, step: None }
    }

    fn at(stage: Stage) -> impl Fn(Errno) -> Self {
        move |errno| Self { stage, errno, step: None }
    }
}

impl From<Refused> for LaunchError {
    fn from(Refused { what, errno, step }: Refused) -> Self {
        Self { stage: Stage::Restrict(what), errno, step }
    }
}

/// What runs now.
#[derive(Debug)]
pub struct Launched {
    pub leader: Pid,
    /// Process 1 of the chamber around it, if there is one.
    pub init: Option<Init>,
}

/// A child of ours that may run in our memory.
#[derive(Debug)]
pub struct Init {
    pub pid: Pid,
    /// Left as it is unless the process has been reaped.
    stack: ManuallyDrop<Stack>,
}

impl Init {
    /// Nobody uses its stack any more.
    pub fn reaped(mut self) {
        // SAFETY: `self` ends here, so nobody sees it again.
        unsafe { ManuallyDrop::drop(&mut self.stack) };
    }
}

/// What stands where in the tool; everything else is closed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Places<'a> {
    /// What becomes 0, 1, 2 and, if there is a fourth, 3. Each is at least 4, or already in its place.
    pub first: &'a [RawFd],
    /// `(place, descriptor)` beyond them, ascending. Each descriptor, and what a restriction needs, is above all places.
    pub further: &'a [(RawFd, RawFd)],
}

/// A program ready to be executed; the pointers borrow from its caller and end with null.
pub struct Program<'a> {
    pub candidates: &'a [&'a CStr],
    pub arguments: &'a [*const libc::c_char],
    pub environment: &'a [*const libc::c_char],
    pub directory: Option<&'a CStr>,
    pub descriptors: Places<'a>,
    pub restriction: &'a dyn Restriction,
}

struct Shared<'a> {
    program: &'a Program<'a>,
    /// Where the stacks of tool and init begin when a builder starts them.
    stacks: [*mut c_void; 2],
    leader: c_int,
    init: c_int,
    failure: Option<LaunchError>,
}

const SHARING: c_int = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;

/// Starts it as the leader of a session and group of its own, with every signal at its default.
///
/// The caller must have blocked all signals and must be of one thread.
pub fn launch(program: &Program<'_>) -> Result<Launched, LaunchError> {
    let new_stack = || Stack::new().map_err(LaunchError::at(Stage::Session));
    let stack = new_stack()?;
    let inner = match program.restriction.chamber() {
        Some(_) => Some((new_stack()?, new_stack()?)),
        None => None,
    };
    let stacks = inner.as_ref().map_or([std::ptr::null_mut(); 2], |(tool, init)| [tool.top(), init.top()]);
    let mut shared = Shared { program, stacks, leader: 0, init: 0, failure: None };
    let argument: *mut c_void = (&raw mut shared).cast();
    let first = if inner.is_some() { builder } else { child };
    // SAFETY: the stack is large enough, aligned and outlives the child's use of it, because CLONE_VFORK holds this thread
    // until the child has executed or exited; `child` and `builder` keep to the rules above.
    let raw = unsafe { libc::clone(first, stack.top(), SHARING, argument) };
    let pid = checked(raw).map_err(LaunchError::at(Stage::Session))?;
    let (leader, init) = if inner.is_some() { (shared.leader, shared.init) } else { (pid, 0) };
    if inner.is_some() {
        wait_for(pid);
    }
    match (Pid::from_raw(leader), shared.failure) {
        (Some(leader), None) => {
            let init = Pid::from_raw(init).zip(inner);
            let init = init.map(|(pid, (_, stack))| Init { pid, stack: ManuallyDrop::new(stack) });
            Ok(Launched { leader, init })
        }
        (_, failure) => {
            wait_for(leader);
            if let Some(init) = Pid::from_raw(init) {
                // Our own unreaped child: the number cannot mean anybody else.
                let _ = rustix::process::kill_process(init, rustix::process::Signal::KILL);
            }
            wait_for(init);
            Err(failure.unwrap_or_else(LaunchError::lost))
        }
    }
}

/// CLONE_VFORK lets go of us a moment before a child has quite ended, so this wait may be real.
fn wait_for(pid: c_int) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = rustix::process::waitpid(Some(pid), WaitOptions::empty());
    }
}

extern "C" fn child(argument: *mut c_void) -> c_int {
    let shared: *mut Shared<'_> = argument.cast();
    // SAFETY: the parent passed a Shared that lives on its stack and does not touch it until we are gone.
    let shared = unsafe { &mut *shared };
    shared.failure = become_program(shared.program).err();
    super::exit_now(127)
}

extern "C" fn builder(argument: *mut c_void) -> c_int {
    let shared: *mut Shared<'_> = argument.cast();
    // SAFETY: as in `child`.
    let shared = unsafe { &mut *shared };
    if let Some(chamber) = shared.program.restriction.chamber() {
        shared.failure = start_inside(chamber, shared).err();
    }
    super::exit_now(0)
}

/// Both become children of the builder's parent: the tool is watched and waited for as every other.
fn start_inside(chamber: &dyn Chamber, shared: &mut Shared<'_>) -> Result<(), LaunchError> {
    chamber.build()?;
    let [stack, of_init] = shared.stacks;
    if chamber.has_guard() {
        shared.init = start_guardian(chamber.guardian(), of_init)?;
    }
    chamber.complete()?;
    let argument: *mut c_void = (&raw mut *shared).cast();
    // SAFETY: as in `launch`; this process stands still until the child has executed or exited, and reads what it wrote after.
    let leader = unsafe { libc::clone(child, stack, SHARING | libc::CLONE_PARENT, argument) };
    shared.leader = checked(leader).map_err(LaunchError::at(Stage::Session))?;
    shared.failure.map_or(Ok(()), Err)
}

/// A child of the builder's parent.
fn start_guardian(guardian: Guardian, stack: *mut c_void) -> Result<c_int, LaunchError> {
    let flags = libc::CLONE_VM | libc::CLONE_PARENT | libc::SIGCHLD;
    // SAFETY: its stack is its own until it has been reaped, and it keeps to the rules of a `Guardian`. A copy of all memory
    // would cost as much as the rest of a cell.
    let init = unsafe { libc::clone(guardian.main, stack, flags, guardian.descriptor as *mut c_void) };
    checked(init).map_err(LaunchError::at(Stage::Session))
}

/// As `start_guardian`, with memory of its own: it has more to do first than a guardian may.
fn fork_guardian(chamber: &dyn Chamber) -> Result<c_int, LaunchError> {
    let flags = libc::CLONE_PARENT | libc::SIGCHLD;
    // SAFETY: a plain fork, without what the C library does around it: a copy of all memory, and this very stack.
    let init = unsafe { libc::syscall(libc::SYS_clone, flags, 0usize, 0usize, 0usize, 0usize) };
    if init == 0 {
        if chamber.prepare_guard().is_err() {
            super::exit_now(1);
        }
        let guardian = chamber.guardian();
        super::exit_now((guardian.main)(guardian.descriptor as *mut c_void));
    }
    checked(init as c_int).map_err(LaunchError::at(Stage::Session))
}

struct Founding<'a> {
    chamber: &'a dyn Chamber,
    init: c_int,
    failure: Option<LaunchError>,
}

/// Makes a chamber without starting a program in it: processes enter it by themselves. Returns its process 1.
///
/// What the builder opens is open in this process, too. The caller must have blocked all signals and be of one thread.
pub fn found(chamber: &dyn Chamber) -> Result<Init, LaunchError> {
    let stack = Stack::new().map_err(LaunchError::at(Stage::Session))?;
    let mut founding = Founding { chamber, init: 0, failure: None };
    let argument: *mut c_void = (&raw mut founding).cast();
    // SAFETY: as in `launch`.
    let raw = unsafe { libc::clone(founder, stack.top(), SHARING | libc::CLONE_FILES, argument) };
    wait_for(checked(raw).map_err(LaunchError::at(Stage::Session))?);
    match (Pid::from_raw(founding.init), founding.failure) {
        (Some(pid), None) => Ok(Init { pid, stack: ManuallyDrop::new(stack) }),
        (init, failure) => {
            if let Some(init) = init {
                // Our own unreaped child: the number cannot mean anybody else.
                let _ = rustix::process::kill_process(init, rustix::process::Signal::KILL);
                wait_for(founding.init);
            }
            Err(failure.unwrap_or_else(LaunchError::lost))
        }
    }
}

extern "C" fn founder(argument: *mut c_void) -> c_int {
    let founding: *mut Founding<'_> = argument.cast();
    // SAFETY: as in `child`.
    let founding = unsafe { &mut *founding };
    founding.failure = found_inside(founding).err();
    super::exit_now(0)
}

fn found_inside(founding: &mut Founding<'_>) -> Result<(), LaunchError> {
    founding.chamber.build()?;
    founding.init = fork_guardian(founding.chamber)?;
    founding.chamber.complete().map_err(LaunchError::from)
}

/// Returns only when something failed.
fn become_program(program: &Program<'_>) -> Result<(), LaunchError> {
    rustix::process::setsid().map_err(LaunchError::at(Stage::Session))?;
    let kept = program.restriction.descriptors();
    place_descriptors(program.descriptors, kept).map_err(LaunchError::at(Stage::Descriptors))?;
    program.restriction.enter()?;
    if let Some(directory) = program.directory {
        rustix::process::chdir(directory).map_err(LaunchError::at(Stage::WorkingDirectory))?;
    }
    program.restriction.seal()?;
    signals::unblock_all().map_err(LaunchError::at(Stage::Session))?;
    Err(LaunchError::at(Stage::Execute)(execute(program)))
}

fn place_descriptors(places: Places<'_>, mut kept: [Option<RawFd>; 3]) -> Result<(), Errno> {
    let first = places.first.iter().enumerate().map(|(place, descriptor)| (place as RawFd, *descriptor));
    for (place, descriptor) in first.chain(places.further.iter().copied()) {
        // SAFETY: the child's table of descriptors is its own copy.
        checked(unsafe { libc::dup2(descriptor, place) })?;
    }
    kept.sort_unstable();
    let further = places.further.iter().map(|(place, _)| *place);
    let mut closed = places.first.len() as libc::c_uint;
    for stays in further.chain(kept.into_iter().flatten()).map(|stays| stays as libc::c_uint) {
        if stays > closed {
            // SAFETY: as above.
            unsafe { close_range(closed, stays - 1) }?;
        }
        closed = stays + 1;
    }
    // SAFETY: as above; everything that was neither placed nor kept is not the tool's.
    unsafe { close_from(closed) }
}

/// Tries every candidate; the reason of the first that exists but cannot be executed is worth more than "not found".
fn execute(program: &Program<'_>) -> Errno {
    let mut reason = Errno::NOENT;
    for candidate in program.candidates {
        let (path, argv, envp) =
            (candidate.as_ptr(), program.arguments.as_ptr(), program.environment.as_ptr());
        // SAFETY: all three are C strings or null-terminated lists of them; `execve` has no fourth argument.
        unsafe { libc::syscall(libc::SYS_execve, path, argv, envp, libc::c_ulong::from(LAUNCH)) };
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
