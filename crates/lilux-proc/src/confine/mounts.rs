//! Mounts, as raw system calls: the C libraries that we are built with know few of them.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::Errno;

use crate::sys::{checked, last_errno};

const OPEN_TREE_CLONE: libc::c_uint = 1;
const RECURSIVE: libc::c_uint = 0x8000;
const EMPTY_PATH: libc::c_uint = libc::AT_EMPTY_PATH as libc::c_uint;
const MOVE_FROM_DESCRIPTOR: libc::c_uint = 0x4;
const MOVE_TO_DESCRIPTOR: libc::c_uint = 0x40;

/// What can be done with what is mounted.
#[derive(Clone, Copy, Debug)]
pub struct Attributes(u64);

const READ_ONLY: u64 = 1;
const NO_SUID: u64 = 2;
const NO_DEVICES: u64 = 4;
const NO_EXECUTE: u64 = 8;

impl Attributes {
    pub const READ: Self = Self(READ_ONLY | NO_SUID | NO_DEVICES);
    pub const WRITE: Self = Self(NO_SUID | NO_DEVICES);
    /// It can be written all the same: read-only are its mode, its owner and its times.
    pub const DEVICE: Self = Self(READ_ONLY);
    pub const PROC: Self = Self(READ_ONLY | NO_SUID | NO_DEVICES | NO_EXECUTE);
}

#[repr(C)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// Nothing that is mounted from here on is seen outside, nor the other way round.
pub fn make_private() -> Result<(), Errno> {
    mount(c"none", c"/", c"none", libc::MS_REC | libc::MS_PRIVATE, None)
}

/// An empty file system in memory.
pub fn new_root(at: &CStr, options: &CString) -> Result<(), Errno> {
    mount(c"tmpfs", at, c"tmpfs", libc::MS_NOSUID | libc::MS_NODEV, Some(options))
}

/// The processes of the caller's own namespace, and nothing that can be changed.
pub fn own_proc(at: &CStr) -> Result<(), Errno> {
    let flags = libc::MS_RDONLY | libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    mount(c"proc", at, c"proc", flags, None)
}

/// Terminals of this run alone.
pub fn terminals(at: &CStr) -> Result<(), Errno> {
    let options = c"newinstance,ptmxmode=0666,mode=0620";
    mount(c"devpts", at, c"devpts", libc::MS_NOSUID | libc::MS_NOEXEC, Some(options))
}

/// Shows what has this name at another one, with the attributes that it has. Links are followed: for names that only root can
/// give to something else.
pub fn show_by_name(source: &CStr, at: &CStr) -> Result<(), Errno> {
    mount(source, at, c"none", libc::MS_BIND | libc::MS_REC, None)
}

/// Gives attributes to all that has been mounted below a root so far; in the root itself, files can still be made.
pub fn set_below(root: BorrowedFd<'_>, attributes: Attributes) -> Result<(), Errno> {
    set(root, attributes.0, 0, RECURSIVE)?;
    set(root, 0, READ_ONLY, 0)
}

fn mount(
    source: &CStr,
    at: &CStr,
    kind: &CStr,
    flags: libc::c_ulong,
    options: Option<&CStr>,
) -> Result<(), Errno> {
    let options = options.map_or(std::ptr::null(), CStr::as_ptr);
    // SAFETY: all are C strings, or null where the kernel takes that for nothing.
    let answer = unsafe { libc::mount(source.as_ptr(), at.as_ptr(), kind.as_ptr(), flags, options.cast()) };
    checked(answer).map(drop)
}

/// A copy of a tree of mounts that is not attached anywhere.
pub fn copy_of(path: &CStr) -> Result<OwnedFd, Errno> {
    open_tree(libc::AT_FDCWD, path, 0)
}

/// As `copy_of`, below a directory.
pub fn copy_of_at(root: BorrowedFd<'_>, path: &CStr) -> Result<OwnedFd, Errno> {
    open_tree(root.as_raw_fd(), path, 0)
}

/// As `copy_of`, of what has been opened.
pub fn copy_of_open(place: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    open_tree(place.as_raw_fd(), c"", EMPTY_PATH)
}

fn open_tree(from: RawFd, path: &CStr, flags: libc::c_uint) -> Result<OwnedFd, Errno> {
    let flags = flags | OPEN_TREE_CLONE | RECURSIVE | libc::O_CLOEXEC as libc::c_uint;
    // SAFETY: the path is a C string.
    let raw = unsafe { libc::syscall(libc::SYS_open_tree, from, path.as_ptr(), flags) };
    if raw < 0 {
        return Err(last_errno());
    }
    // SAFETY: a new descriptor that nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(raw as RawFd) })
}

/// Puts a tree where `target` is, with attributes that hold for all of it.
pub fn attach(tree: &OwnedFd, target: &OwnedFd, attributes: Attributes) -> Result<(), Errno> {
    set(tree.as_fd(), attributes.0, 0, RECURSIVE)?;
    place(tree, target)
}

/// As `attach`, at a new name in a directory that no other process writes.
pub fn attach_at(
    tree: &OwnedFd,
    directory: BorrowedFd<'_>,
    name: &CStr,
    attributes: Attributes,
) -> Result<(), Errno> {
    set(tree.as_fd(), attributes.0, 0, RECURSIVE)?;
    move_mount(tree, directory.as_raw_fd(), name, MOVE_FROM_DESCRIPTOR)
}

/// Puts a tree where `target` is, with the attributes that it has.
pub fn place(tree: &OwnedFd, target: &OwnedFd) -> Result<(), Errno> {
    move_mount(tree, target.as_raw_fd(), c"", MOVE_FROM_DESCRIPTOR | MOVE_TO_DESCRIPTOR)
}

fn set(tree: BorrowedFd<'_>, set: u64, clear: u64, depth: libc::c_uint) -> Result<(), Errno> {
    let wanted = MountAttributes { set, clear, propagation: 0, user_namespace: 0 };
    let (size, flags) = (size_of::<MountAttributes>(), EMPTY_PATH | depth);
    let (tree, empty) = (tree.as_raw_fd(), c"".as_ptr());
    // SAFETY: the structure is as large as said, and the path a C string.
    let answer =
        unsafe { libc::syscall(libc::SYS_mount_setattr, tree, empty, flags, &raw const wanted, size) };
    checked(answer as i32).map(drop)
}

fn move_mount(tree: &OwnedFd, to: RawFd, name: &CStr, flags: libc::c_uint) -> Result<(), Errno> {
    let (tree, empty) = (tree.as_raw_fd(), c"".as_ptr());
    // SAFETY: descriptors and C strings.
    let answer = unsafe { libc::syscall(libc::SYS_move_mount, tree, empty, to, name.as_ptr(), flags) };
    checked(answer as i32).map(drop)
}

/// Puts a mount on top of the root, where no path and no `..` leads below it.
pub fn cover_root(new: &CStr) -> Result<(), Errno> {
    let (here, root) = (libc::AT_FDCWD, c"/".as_ptr());
    // SAFETY: both are C strings.
    let answer = unsafe { libc::syscall(libc::SYS_move_mount, here, new.as_ptr(), here, root, 0) };
    checked(answer as i32).map(drop)
}
