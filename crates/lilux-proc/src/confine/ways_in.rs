//! A cell that a forked process enters by itself: descriptors of its namespaces, and the kernel's word that it has done so.
//!
//! The builder opens them in the keeper's own table of descriptors, and only makes system calls, as everywhere in a cell.

use std::cell::Cell;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

use rustix::fs::{Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Pid;

use super::capabilities::Capabilities;
use super::holder::Namespaces;
use crate::sys::checked;

const CLOSED: RawFd = -1;

/// Made before the builder, and filled by it.
#[derive(Debug)]
pub struct WaysIn {
    directory: Cell<RawFd>,
    mounts: Cell<RawFd>,
    ipc: Cell<RawFd>,
    processes: Cell<RawFd>,
    ready: OwnedFd,
    said: Cell<RawFd>,
}

/// The namespaces, in the order in which a zygote is handed them.
#[derive(Debug)]
pub struct Entries {
    pub processes: OwnedFd,
    pub mounts: OwnedFd,
    pub ipc: OwnedFd,
}

impl WaysIn {
    pub fn new() -> Result<Self, Errno> {
        let (ready, said) = pipe_with(PipeFlags::CLOEXEC)?;
        let [directory, mounts, ipc, processes] = [const { Cell::new(CLOSED) }; 4];
        Ok(Self { directory, mounts, ipc, processes, ready, said: Cell::new(said.into_raw_fd()) })
    }

    /// In the builder, as long as its own `/proc` is there.
    pub fn open(&self) -> Result<(), Errno> {
        // Not for reading: of a process that others may not look into, it is root's.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(c"/proc/self/ns", flags, Mode::empty())?;
        self.directory.set(directory.into_raw_fd());
        self.mounts.set(self.named(c"mnt")?.into_raw_fd());
        self.ipc.set(self.named(c"ipc")?.into_raw_fd());
        Ok(())
    }

    /// Runs in the builder once init is in the process namespace: before that, it cannot be opened.
    pub fn open_last(&self) -> Result<(), Errno> {
        self.processes.set(self.named(c"pid_for_children")?.into_raw_fd());
        Ok(())
    }

    /// In the builder, as a process does that comes in.
    pub fn enter_mounts(&self) -> Result<(), Errno> {
        // SAFETY: a namespace of the builder only.
        checked(unsafe { libc::setns(self.mounts.get(), libc::CLONE_NEWNS) }).map(drop)
    }

    fn named(&self, name: &std::ffi::CStr) -> Result<OwnedFd, Errno> {
        // SAFETY: opened by `open`, and closed when the keeper takes the entries.
        let directory = unsafe { BorrowedFd::borrow_raw(self.directory.get()) };
        rustix::fs::openat(directory, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
    }

    /// In init.
    pub fn say_ready(&self) -> Result<(), Errno> {
        // SAFETY: open in the copy of the table that init has.
        let said = unsafe { BorrowedFd::borrow_raw(self.said.get()) };
        rustix::io::write(said, b"r").map(drop)
    }

    /// In the builder. If init has ended instead, the other end is closed.
    pub fn wait_for_init(&self) -> Result<(), Errno> {
        close(&self.said);
        let mut byte = [0; 1];
        loop {
            match rustix::io::read(&self.ready, &mut byte) {
                Ok(1) => return Ok(()),
                Ok(_) => return Err(Errno::CHILD),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    /// In the keeper, when the builder has done its work.
    pub fn take(&self) -> Option<Entries> {
        let owned = |place: &Cell<RawFd>| {
            let raw = place.replace(CLOSED);
            // SAFETY: the builder has opened it in this process's table, and nobody owns it yet.
            (raw != CLOSED).then(|| unsafe { OwnedFd::from_raw_fd(raw) })
        };
        let entries = (owned(&self.processes), owned(&self.mounts), owned(&self.ipc));
        match entries {
            (Some(processes), Some(mounts), Some(ipc)) => Some(Entries { processes, mounts, ipc }),
            _ => None,
        }
    }
}

impl Drop for WaysIn {
    fn drop(&mut self) {
        for place in [&self.directory, &self.mounts, &self.ipc, &self.processes, &self.said] {
            close(place);
        }
    }
}

fn close(place: &Cell<RawFd>) {
    let raw = place.replace(CLOSED);
    if raw != CLOSED {
        // SAFETY: it was this structure's own.
        drop(unsafe { OwnedFd::from_raw_fd(raw) });
    }
}

/// Whether a process is in these namespaces, has these capabilities and no others, and can gain none.
pub fn check(
    pid: Pid,
    entries: &Entries,
    namespaces: &Namespaces,
    own_network: bool,
    keep: Capabilities,
) -> Result<(), &'static str> {
    let mut expected = vec![("pid", &entries.processes), ("mnt", &entries.mounts), ("ipc", &entries.ipc)];
    expected.extend(namespaces.user.as_ref().map(|user| ("user", user)));
    expected.extend(own_network.then_some(("net", &namespaces.net)));
    for (name, descriptor) in expected {
        let found = rustix::fs::stat(format!("/proc/{pid}/ns/{name}")).map_err(|_| name)?;
        let entered = rustix::fs::fstat(descriptor).map_err(|_| name)?;
        if same(&found) != same(&entered) {
            return Err(name);
        }
    }
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).map_err(|_| "status")?;
    let says = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let kept = format!("{:016x}", keep.bits());
    for name in ["CapPrm:", "CapEff:", "CapBnd:"] {
        if says(name) != Some(kept.as_str()) {
            return Err("capabilities");
        }
    }
    let none = format!("{:016x}", 0);
    let sealed = [("CapInh:", none.as_str()), ("CapAmb:", &none), ("NoNewPrivs:", "1"), ("Seccomp:", "2")];
    sealed.iter().try_for_each(|(name, value)| if says(name) == Some(value) { Ok(()) } else { Err("seal") })
}

fn same(found: &Stat) -> (u64, u64) {
    (found.st_dev, found.st_ino)
}

impl Entries {
    /// In the order in which a zygote is handed them.
    pub fn borrowed(&self) -> [BorrowedFd<'_>; 3] {
        [&self.processes, &self.mounts, &self.ipc].map(|entry| {
            // SAFETY: it lives as long as the entries do.
            unsafe { BorrowedFd::borrow_raw(entry.as_raw_fd()) }
        })
    }
}
