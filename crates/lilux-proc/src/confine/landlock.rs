//! Landlock: which files, ports and processes are within reach.
//!
//! Rights are asked for by name, by what this kernel knows: what a later one adds must be a decision, not an accident.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::Errno;

use crate::sys::last_errno;

const VERSION: u32 = 1;
const PATH_BENEATH: u32 = 1;
const NET_PORT: u32 = 2;

const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const REMOVE_DIR: u64 = 1 << 4;
const REMOVE_FILE: u64 = 1 << 5;
const MAKE_CHAR: u64 = 1 << 6;
const MAKE_DIR: u64 = 1 << 7;
const MAKE_REG: u64 = 1 << 8;
const MAKE_SOCK: u64 = 1 << 9;
const MAKE_FIFO: u64 = 1 << 10;
const MAKE_BLOCK: u64 = 1 << 11;
const MAKE_SYM: u64 = 1 << 12;
const REFER: u64 = 1 << 13;
const TRUNCATE: u64 = 1 << 14;
const IOCTL_DEV: u64 = 1 << 15;

const CONNECT_TCP: u64 = 1 << 1;
const BIND_TCP: u64 = 1;
const SCOPE_ABSTRACT_SOCKETS: u64 = 1;
const SCOPE_SIGNALS: u64 = 1 << 1;

/// What a rule on a file, not a directory, may speak of.
const OF_FILES: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV;
const READ: u64 = EXECUTE | READ_FILE | READ_DIR;
/// Device files are made by nobody.
const WRITE: u64 = READ
    | WRITE_FILE
    | REMOVE_DIR
    | REMOVE_FILE
    | MAKE_DIR
    | MAKE_REG
    | MAKE_SOCK
    | MAKE_FIFO
    | MAKE_SYM
    | REFER
    | TRUNCATE;
const DEVICE: u64 = READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEV;

/// What may be done with a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
    Device,
    /// All that is left when walls of another kind stand around it: a whole cell.
    Everything,
}

/// What this kernel's Landlock can do; 0 is a kernel without it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(transparent)]
pub struct Abi(pub u32);

impl Abi {
    /// As the kernel says it.
    pub fn of_kernel() -> Self {
        // SAFETY: without a structure the call only answers with a number.
        let answer = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, 0usize, 0usize, VERSION) };
        Self(u32::try_from(answer).unwrap_or(0))
    }

    fn files(self) -> u64 {
        let mut rights = WRITE & !(REFER | TRUNCATE) | MAKE_CHAR | MAKE_BLOCK;
        for (since, right) in [(2, REFER), (3, TRUNCATE), (5, IOCTL_DEV)] {
            if self.0 >= since {
                rights |= right;
            }
        }
        rights
    }

    /// TCP ports can be told apart.
    pub fn knows_ports(self) -> bool {
        self.0 >= 4
    }

    /// Signals and abstract sockets stay inside.
    pub fn knows_scopes(self) -> bool {
        self.0 >= 6
    }

    /// What confinement by this kernel's Landlock leaves open, by name.
    pub fn gaps(self) -> impl Iterator<Item = &'static str> {
        let all = [(3, "truncate"), (5, "device_ioctls"), (6, "signals")];
        all.into_iter().filter(move |(since, _)| self.0 < *since).map(|(_, name)| name)
    }
}

/// Which TCP ports can be reached.
#[derive(Clone, Copy, Debug)]
pub enum Tcp<'a> {
    /// Landlock is not asked.
    Unhandled,
    Only(&'a [u16]),
}

#[repr(C)]
struct RulesetAttributes {
    files: u64,
    net: u64,
    scoped: u64,
}

#[repr(C, packed)]
struct PathAttributes {
    access: u64,
    parent: RawFd,
}

#[repr(C)]
struct PortAttributes {
    access: u64,
    port: u64,
}

/// Rules that are being collected.
#[derive(Debug)]
pub struct Ruleset {
    descriptor: OwnedFd,
    abi: Abi,
}

impl Ruleset {
    /// One that allows nothing but what rules add.
    pub fn new(abi: Abi, tcp: Tcp<'_>) -> Result<Self, Errno> {
        Self::over(abi.files(), abi, tcp)
    }

    /// One that is about no files: for a process whose children have roots of their own. Nothing where it would be about
    /// nothing at all.
    pub fn without_files(abi: Abi, tcp: Tcp<'_>) -> Result<Option<Self>, Errno> {
        let handles_tcp = abi.knows_ports() && matches!(tcp, Tcp::Only(_));
        if abi.knows_scopes() || handles_tcp { Self::over(0, abi, tcp).map(Some) } else { Ok(None) }
    }

    fn over(files: u64, abi: Abi, tcp: Tcp<'_>) -> Result<Self, Errno> {
        let handles_tcp = abi.knows_ports() && matches!(tcp, Tcp::Only(_));
        let attributes = RulesetAttributes {
            files,
            net: if handles_tcp { BIND_TCP | CONNECT_TCP } else { 0 },
            scoped: if abi.knows_scopes() { SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS } else { 0 },
        };
        // A kernel refuses a structure with members that it does not know.
        let size = match abi.0 {
            0..4 => size_of::<u64>(),
            4..6 => 2 * size_of::<u64>(),
            _ => size_of::<RulesetAttributes>(),
        };
        // SAFETY: the structure is at least as large as said.
        let raw =
            unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, &raw const attributes, size, 0u32) };
        if raw < 0 {
            return Err(last_errno());
        }
        // SAFETY: a new descriptor (close-on-exec, as all of Landlock's) that nothing else owns.
        let descriptor = unsafe { OwnedFd::from_raw_fd(raw as RawFd) };
        let ruleset = Self { descriptor, abi };
        if let (true, Tcp::Only(ports)) = (handles_tcp, tcp) {
            ports.iter().try_for_each(|port| ruleset.allow_port(*port))?;
        }
        Ok(ruleset)
    }

    /// Adds a place. Only system calls: a cell's own root is added between clone and `execve`.
    pub fn allow(&self, place: RawFd, is_directory: bool, access: Access) -> Result<(), Errno> {
        let wanted = match access {
            Access::Read => READ,
            Access::Write => WRITE,
            Access::Device => DEVICE,
            Access::Everything => WRITE | IOCTL_DEV,
        };
        let known = if is_directory { wanted } else { wanted & OF_FILES } & self.abi.files();
        let attributes = PathAttributes { access: known, parent: place };
        self.add(PATH_BENEATH, (&raw const attributes).cast())
    }

    fn allow_port(&self, port: u16) -> Result<(), Errno> {
        let attributes = PortAttributes { access: CONNECT_TCP, port: u64::from(port) };
        self.add(NET_PORT, (&raw const attributes).cast())
    }

    fn add(&self, kind: u32, attributes: *const libc::c_void) -> Result<(), Errno> {
        let ruleset = self.descriptor.as_raw_fd();
        // SAFETY: the attributes are of the kind that is named; the kernel only reads them.
        let answer = unsafe { libc::syscall(libc::SYS_landlock_add_rule, ruleset, kind, attributes, 0u32) };
        if answer < 0 { Err(last_errno()) } else { Ok(()) }
    }

    /// Has to be open still when it is entered.
    pub fn raw(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }

    /// For a process that confines itself.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// Confines this thread, and everybody whom it starts, for ever. Needs `no_new_privs`.
    pub fn enter(&self) -> Result<(), Errno> {
        let ruleset = self.descriptor.as_raw_fd();
        // SAFETY: numbers only.
        let answer = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset, 0u32) };
        if answer < 0 { Err(last_errno()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_kernel_is_asked_for_no_more_than_it_knows() {
        assert_eq!(Abi(1).files(), (1 << 13) - 1);
        assert_eq!(Abi(2).files(), (1 << 14) - 1);
        assert_eq!(Abi(3).files(), (1 << 15) - 1);
        assert_eq!(Abi(5).files(), (1 << 16) - 1);
        // What a later kernel adds is asked for when it has been understood, and not before.
        assert_eq!(Abi(99).files(), Abi(5).files());
    }

    #[test]
    fn what_an_older_kernel_leaves_open_has_names() {
        let gaps = |abi| Abi(abi).gaps().collect::<Vec<_>>();
        assert_eq!(gaps(1), ["truncate", "device_ioctls", "signals"]);
        assert_eq!(gaps(4), ["device_ioctls", "signals"]);
        assert_eq!(gaps(7), Vec::<&str>::new());
    }

    #[test]
    fn nobody_may_make_device_files() {
        assert_eq!((WRITE | DEVICE) & (MAKE_CHAR | MAKE_BLOCK), 0);
    }
}
