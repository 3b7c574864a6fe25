//! A cell: namespaces around the tool, and a root that shows only what was granted.
//!
//! ```text
//! keeper ─ builder (shares memory): enters and makes namespaces, builds the root
//!             ├ init    pid 1 of the cell; waits for the end of a pipe that only the keeper holds
//!             └ tool    a direct child of the keeper as ever, pid 2 of the cell
//! ```
//!
//! Builder and tool share the keeper's memory until they are gone or have executed, so nothing here allocates.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, mkdirat, mknodat, openat2, symlinkat};
use rustix::io::Errno;
use rustix::process::DumpableBehavior;

use super::holder::Namespaces;
use super::landlock::{Access, Ruleset};
use super::layout::{
    Bind, EMPTIES, EMPTY_DIRECTORY, EMPTY_FILE, Kind, Layout, STAGED_EMPTY_DIRECTORY, STAGED_EMPTY_FILE, Step,
};
use super::mounts::{self, Attributes};
use super::places::{Identity, open_exactly};
use super::ways_in::WaysIn;
use crate::door::entrance::Entrance;
use crate::policy::Proc;
use crate::switches::{Guard, Moment, StopAt};
use crate::sys::checked;
use crate::sys::launch::Refused;
use crate::wire::Role;

/// Where the root is built: a directory that every system has, and that the cell needs at another place.
pub const STAGE: &CStr = c"/proc";
/// Where it is when it is built: on top of the machine's root, for a process that has that one as its root still.
pub const BUILT: &CStr = c"/..";
const OWN_PROC: &CStr = c"/../proc";

/// What a run does not share with the machine, beside its network.
#[derive(Clone, Copy, Debug)]
pub struct Isolated {
    flags: libc::c_int,
    root: bool,
}

impl Isolated {
    /// All of it, but for what a test has switched off.
    pub fn as_guarded(role: Role) -> Self {
        let kinds = [(Guard::CellProcesses, libc::CLONE_NEWPID), (Guard::CellIpc, libc::CLONE_NEWIPC)];
        let of_role = |kind| role != Role::Zygote || kind != libc::CLONE_NEWPID;
        let wanted = kinds.into_iter().filter(|(guard, kind)| guard.is_on() && of_role(*kind));
        let flags = wanted.fold(libc::CLONE_NEWNS, |flags, (_, kind)| flags | kind);
        Self { flags, root: Guard::CellRoot.is_on() }
    }
}

/// Everything that a cell is made of.
#[derive(Debug)]
pub struct Cell<'a> {
    pub namespaces: &'a Namespaces,
    pub layout: Layout,
    /// Otherwise that of the machine.
    pub own_network: bool,
    /// What is made for each run.
    pub new: Isolated,
    pub proc: Proc,
    /// Options of the file system that the root is.
    pub options: CString,
    /// What leads to the hosts that the run may reach.
    pub door: Option<&'a Entrance>,
    /// The end that init waits at.
    pub waits_at: OwnedFd,
    /// For a process that comes in by itself.
    pub ways_in: Option<WaysIn>,
    pub role: Role,
    pub stop_at: StopAt,
}

impl Cell<'_> {
    /// In the builder. A ruleset gets the new root as the only place that there is.
    pub fn build(&self, ruleset: Option<&Ruleset>) -> Result<(), Refused> {
        self.enter_namespaces()?;
        // Entering a user namespace may have changed it, for the keeper as well, whose memory this is.
        let hidden = DumpableBehavior::NotDumpable;
        rustix::process::set_dumpable_behavior(hidden).map_err(Refused::at("dumpable"))?;
        self.stop_at.reached(Moment::Namespaces);
        // Never in the machine's own network, whatever guard is off.
        let door = self.door.filter(|_| self.own_network);
        door.map_or(Ok(()), |door| door.make(&self.namespaces.routed)).map_err(Refused::at("door"))?;
        mounts::make_private().map_err(Refused::at("propagation"))?;
        // Not later: the root is built where they are looked for.
        self.ways_in.as_ref().map_or(Ok(()), WaysIn::open).map_err(Refused::at("ways in"))?;
        let outer_proc = match self.proc {
            Proc::Shared => Some(mounts::copy_of(STAGE).map_err(Refused::at("proc"))?),
            Proc::Private => None,
        };
        mounts::new_root(STAGE, &self.options).map_err(Refused::at("root"))?;
        let root = open_exactly(STAGE).map_err(Refused::at("root"))?;
        self.stop_at.reached(Moment::Root);
        for (number, step) in self.layout.steps.iter().enumerate() {
            carry_out(step, root.as_fd()).map_err(|errno| Refused {
                what: "place",
                errno,
                step: Some(number),
            })?;
        }
        if let Some(tree) = outer_proc {
            attach(&tree, root.as_fd(), c"proc", Attributes::PROC).map_err(Refused::at("proc"))?;
        }
        // A terminal is opened by name: programs that make some for others need a list of their own.
        mounts::terminals(c"/proc/dev/pts").map_err(Refused::at("terminals"))?;
        if let Some(ruleset) = ruleset {
            let allowed = ruleset.allow(root.as_raw_fd(), true, Access::Everything);
            allowed.map_err(Refused::at("landlock"))?;
        }
        // Not below it: a process of another cell that is handed a directory of this one climbs to the top of what it is in.
        mounts::cover_root(STAGE).map_err(Refused::at("root"))?;
        self.stop_at.reached(Moment::Places);
        Ok(())
    }

    /// What it forks goes to another cell.
    pub fn is_of_zygote(&self) -> bool {
        self.role == Role::Zygote
    }

    fn enter_namespaces(&self) -> Result<(), Refused> {
        if let Some(user) = &self.namespaces.user {
            enter(user, libc::CLONE_NEWUSER).map_err(Refused::at("user namespace"))?;
        }
        if self.own_network {
            enter(&self.namespaces.net, libc::CLONE_NEWNET).map_err(Refused::at("network namespace"))?;
        }
        // SAFETY: namespaces of this process only; it shares memory with the keeper, and nothing else.
        checked(unsafe { libc::unshare(self.new.flags) }).map(drop).map_err(Refused::at("namespaces"))
    }

    /// In the tool, which is the first that sees its own processes: the rest of its world.
    pub fn enter(&self) -> Result<(), Refused> {
        if self.proc == Proc::Private {
            mounts::own_proc(OWN_PROC).map_err(Refused::at("proc"))?;
        }
        self.stop_at.reached(Moment::Tool);
        if !self.new.root {
            return Ok(());
        }
        rustix::process::chroot(BUILT).map_err(Refused::at("root"))?;
        rustix::process::chdir(c"/").map_err(Refused::at("root"))?;
        own_null().map_err(Refused::at("standard input"))
    }

    /// In the builder, when init is there: only the cell is left for the process that enters.
    pub fn complete(&self) -> Result<(), Refused> {
        self.stop_at.reached(Moment::ProcessOne);
        let Some(ways_in) = &self.ways_in else { return Ok(()) };
        ways_in.wait_for_init().map_err(Refused::at("process 1"))?;
        // Below the root of a chroot of ours there would be another one.
        let built = root_at(BUILT).map_err(Refused::at("root"))?;
        ways_in.enter_mounts().and_then(|()| root_at(c"/")).map_err(Refused::at("root")).and_then(
            |found| {
                if found == built { Ok(()) } else { Err(Refused::at("root")(Errno::XDEV)) }
            },
        )?;
        ways_in.open_last().map_err(Refused::at("ways in"))
    }

    /// In process 1 of a cell that somebody comes into, which has memory of its own.
    pub fn prepare_guard(&self) -> Result<(), Errno> {
        let Some(ways_in) = &self.ways_in else { return Ok(()) };
        if self.proc == Proc::Private {
            mounts::own_proc(OWN_PROC)?;
        }
        rustix::process::chroot(BUILT)?;
        rustix::process::chdir(c"/")?;
        ways_in.say_ready()
    }

    /// Where init waits until the keeper is gone, or says that nobody is needed any more.
    pub fn waits_at(&self) -> RawFd {
        self.waits_at.as_raw_fd()
    }
}

/// Whoever owns the machine's `/dev/null` could change its mode by a descriptor of it; the cell's own is read-only.
fn own_null() -> Result<(), Errno> {
    // SAFETY: it is only looked at; when cells are tried out, there is none.
    let input = unsafe { BorrowedFd::borrow_raw(0) };
    if !rustix::fs::fstat(input).is_ok_and(|found| FileType::from_raw_mode(found.st_mode).is_char_device()) {
        return Ok(());
    }
    let null = rustix::fs::open(c"/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    // SAFETY: the tool's table of descriptors is its own copy.
    checked(unsafe { libc::dup2(null.as_raw_fd(), 0) }).map(drop)
}

fn root_at(path: &CStr) -> Result<Identity, Errno> {
    open_exactly(path).and_then(|root| Identity::of(&root))
}

fn enter(namespace: &OwnedFd, kind: libc::c_int) -> Result<(), Errno> {
    // SAFETY: a namespace of this process only.
    checked(unsafe { libc::setns(namespace.as_raw_fd(), kind) }).map(drop)
}

fn carry_out(step: &Step, root: BorrowedFd<'_>) -> Result<(), Errno> {
    match step {
        Step::Directory { path, mode, inside: None } => make_directory(root, path, *mode),
        Step::Directory { path, mode, inside: Some(inside) } => {
            let parent = within(root, inside)?;
            made_or_there(mkdirat(&parent, last_part(path), Mode::from_raw_mode(*mode)))
        }
        Step::File { path, inside: Some(inside) } => {
            let parent = within(root, inside)?;
            made_or_there(make_file(parent.as_fd(), last_part(path)))
        }
        Step::File { path, inside: None } => make_file(root, path),
        Step::Link { path, target } => symlinkat(target.as_c_str(), root, path.as_c_str()),
        Step::Bind(bind) => show(bind, root),
        Step::System { source, at } => mounts::show_by_name(source, at),
        Step::Attributes(kind) => mounts::set_below(root, attributes_of(*kind)),
        Step::Shut => mounts::attach_at(&mounts::copy_of_at(root, EMPTIES)?, root, EMPTIES, Attributes::READ),
        Step::MaskSystem { at, is_directory } => mask_by_name(at, *is_directory),
        Step::Mask { path, is_directory, may_be_gone } => {
            let target = match within(root, path) {
                Err(Errno::NOENT) if *may_be_gone => return Ok(()),
                found => found?,
            };
            // What it is copied from is read-only already.
            mounts::place(
                &mounts::copy_of_at(root, if *is_directory { EMPTY_DIRECTORY } else { EMPTY_FILE })?,
                &target,
            )
        }
    }
}

fn mask_by_name(at: &CStr, is_directory: bool) -> Result<(), Errno> {
    let empty = if is_directory { STAGED_EMPTY_DIRECTORY } else { STAGED_EMPTY_FILE };
    match mounts::show_by_name(empty, at) {
        Err(Errno::NOENT) => Ok(()),
        masked => masked,
    }
}

/// Empty, and to be covered.
fn make_file(directory: BorrowedFd<'_>, path: &CStr) -> Result<(), Errno> {
    mknodat(directory, path, FileType::RegularFile, Mode::from_raw_mode(0o444), 0)
}

fn attributes_of(kind: Kind) -> Attributes {
    match kind {
        Kind::Read => Attributes::READ,
        Kind::Write => Attributes::WRITE,
        Kind::Device => Attributes::DEVICE,
    }
}

/// What is there already was left by another run; whoever puts something on it sees whether it is a link.
fn made_or_there(made: Result<(), Errno>) -> Result<(), Errno> {
    if made == Err(Errno::EXIST) { Ok(()) } else { made }
}

fn last_part(path: &CStr) -> &CStr {
    let bytes = path.to_bytes_with_nul();
    let start = bytes.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    CStr::from_bytes_with_nul(&bytes[start..]).unwrap_or(c"")
}

fn make_directory(root: BorrowedFd<'_>, path: &CStr, mode: u32) -> Result<(), Errno> {
    mkdirat(root, path, Mode::from_raw_mode(mode))?;
    // Whatever the mask for new files says.
    if mode == 0o1777 {
        rustix::fs::chmodat(root, path, Mode::from_raw_mode(mode), AtFlags::empty())
    } else {
        Ok(())
    }
}

/// Between the look at a place and this, somebody may have put something else there: ESTALE.
fn show(bind: &Bind, root: BorrowedFd<'_>) -> Result<(), Errno> {
    let source = open_exactly(bind.source.as_c_str())?;
    if Identity::of(&source)? != bind.identity {
        return Err(Errno::STALE);
    }
    let tree = mounts::copy_of_open(source.as_fd())?;
    let target = within(root, &bind.path)?;
    if bind.covers_itself && Identity::of(&target)? != bind.identity {
        return Err(Errno::STALE);
    }
    mounts::attach(&tree, &target, attributes_of(bind.kind))
}

fn attach(tree: &OwnedFd, root: BorrowedFd<'_>, path: &CStr, attributes: Attributes) -> Result<(), Errno> {
    mounts::attach(tree, &within(root, path)?, attributes)
}

/// No step follows a link, also not one that a tool has left in a place that it may write.
fn within(root: BorrowedFd<'_>, path: &CStr) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    openat2(root, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve)
}
