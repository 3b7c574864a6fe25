//! The namespaces that all runs of a keeper use, one after the other: making a network costs more than the rest of a cell.
//!
//! A forked process makes them, hands their descriptors over and ends; namespaces live as long as somebody holds them. A run
//! that has ended may have left a socket in the network, with a process elsewhere that it was sent to: then they are not used
//! again.

use std::cell::Cell;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, statx};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::process::{DumpableBehavior, Pid, WaitOptions, getegid, geteuid};

use super::facts::{CellKind, Facts};
use crate::sys::{self, checked, fd};
use crate::wire::Role;

/// Held for as long as the keeper lives.
#[derive(Debug)]
pub struct Namespaces {
    /// Only where this process may not mount without one.
    pub user: Option<OwnedFd>,
    pub net: OwnedFd,
    /// The network has the route of the door's addresses. A builder says so, whose memory is the keeper's.
    pub routed: Cell<bool>,
    /// What the kernel says of the sockets of this network.
    sockets: OwnedFd,
}

/// The users in the namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Users {
    /// The namespace of the machine.
    Same,
    /// Nobody but the user of this process.
    Own,
    /// All users of the machine, by their own numbers: only root can make such a one. Capabilities count in it only.
    All,
}

impl Users {
    pub fn of(facts: &Facts, role: Role) -> Self {
        match (facts.cell, role) {
            (Some(CellKind::UserNamespace), _) => Self::Own,
            (_, Role::Tool) => Self::Same,
            (_, Role::Zygote | Role::Forked) => Self::All,
        }
    }
}

impl Namespaces {
    /// Makes them in a process of their own.
    pub fn make(users: Users) -> Result<Self, Errno> {
        let (ours, theirs) = fd::message_pair()?;
        let with_user = users != Users::Same;
        let Some(holder) = sys::fork()? else {
            let told = make(users, &theirs).and_then(|made| {
                let passed: Vec<_> = made.iter().map(AsFd::as_fd).collect();
                fd::send(&theirs, &[std::io::IoSlice::new(b"n")], &passed)
            });
            sys::exit_now(told.err().map_or(0, Errno::raw_os_error));
        };
        drop(theirs);
        let mut word = [0; 1];
        if users == Users::All {
            // What fails here is told by the holder, which ends without having been answered.
            let asked = fd::receive(&ours, &mut word, RecvFlags::empty());
            if asked.is_ok_and(|(count, _)| count > 0) && map_all(holder).is_ok() {
                let _ = fd::send(&ours, &[std::io::IoSlice::new(b"m")], &[]);
            }
        }
        let received = fd::receive(&ours, &mut word, RecvFlags::empty());
        let ended = rustix::process::waitpid(Some(holder), WaitOptions::empty())?;
        let mut found = received?.1.into_iter();
        match (found.next(), found.next(), found.next()) {
            (Some(net), Some(sockets), user) if user.is_some() == with_user => {
                Ok(Self { user, net, routed: Cell::new(false), sockets })
            }
            _ => Err(ended
                .and_then(|(_, status)| status.exit_status())
                .map_or(Errno::IO, Errno::from_raw_os_error)),
        }
    }

    /// Whether a socket of the network is open, of whatever family and wherever.
    pub fn have_sockets(&self) -> bool {
        let mut text = [0; 64];
        let read = rustix::io::pread(&self.sockets, &mut text[..], 0);
        !read.is_ok_and(|count| text[..count].starts_with(b"sockets: used 0\n"))
    }
}

fn map_all(holder: Pid) -> Result<(), Errno> {
    let everybody = "0 0 4294967295";
    write(&format!("/proc/{holder}/uid_map"), everybody)?;
    write(&format!("/proc/{holder}/gid_map"), everybody)
}

/// The keeper, outside, may map its users.
fn ask_for_map(theirs: &OwnedFd) -> Result<(), Errno> {
    fd::send(theirs, &[std::io::IoSlice::new(b"u")], &[])?;
    let mut word = [0; 1];
    match fd::receive(theirs, &mut word, RecvFlags::empty())? {
        (0, _) => Err(Errno::PERM),
        _ => Ok(()),
    }
}

fn make(users: Users, theirs: &OwnedFd) -> Result<Vec<OwnedFd>, Errno> {
    let with_user = users != Users::Same;
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    let flags = libc::CLONE_NEWNET | if with_user { libc::CLONE_NEWUSER } else { 0 };
    // SAFETY: this process has one thread, and nothing in it depends on its namespaces.
    checked(unsafe { libc::unshare(flags) })?;
    if users == Users::All {
        ask_for_map(theirs)?;
    } else if users == Users::Own {
        // The files in /proc of a process that others may not look into are root's, and could not be written.
        rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)?;
        write("/proc/self/setgroups", "deny")?;
        write("/proc/self/uid_map", &format!("{user} {user} 1"))?;
        write("/proc/self/gid_map", &format!("{group} {group} 1"))?;
    }
    if !with_user {
        require_whole_root()?;
    }
    raise_loopback()?;
    let names: &[&str] =
        if with_user { &["ns/net", "net/sockstat", "ns/user"] } else { &["ns/net", "net/sockstat"] };
    let open = |name: &&str| {
        let path = format!("/proc/self/{name}");
        rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
    };
    names.iter().map(open).collect()
}

/// In a chroot, a cell's root would cover that one alone, and what is above it would be within reach. No other user makes a user
/// namespace in one.
fn require_whole_root() -> Result<(), Errno> {
    let mount = || {
        let found = statx(CWD, c"/", AtFlags::empty(), StatxFlags::MNT_ID)?;
        Ok((found.stx_mnt_id, found.stx_ino))
    };
    let before = mount()?;
    let own = rustix::fs::open(c"/proc/self/ns/mnt", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    // SAFETY: to enter its own namespace leads this process to the root of that.
    checked(unsafe { libc::setns(own.as_raw_fd(), libc::CLONE_NEWNS) })?;
    if mount()? == before { Ok(()) } else { Err(Errno::XDEV) }
}

fn write(path: &str, text: &str) -> Result<(), Errno> {
    let file = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(file, text.as_bytes()).map(drop)
}

#[repr(C)]
struct InterfaceFlags {
    name: [u8; 16],
    flags: i16,
    rest: [u8; 22],
}

/// A new network has a loopback that is down.
fn raise_loopback() -> Result<(), Errno> {
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None)?;
    let mut request = InterfaceFlags { name: [0; 16], flags: libc::IFF_UP as i16, rest: [0; 22] };
    request.name[..2].copy_from_slice(b"lo");
    // SAFETY: the structure is an `ifreq`, which the kernel reads.
    checked(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw const request) }).map(drop)
}
