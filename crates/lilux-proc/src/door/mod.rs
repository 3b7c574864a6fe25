//! The door: how a run without a network reaches the hosts that it is allowed, by name.
//!
//! In a run's network namespace every name leads to the door's DNS server, and every address that it gives out leads to
//! the door's listeners. The door is one process for all runs of a supervisor. It knows the name by the address that a
//! tool connects to, looks up where that host really is, and relays. docs/architecture/lilux.md has its rules.
//!
//! ```text
//! tool ── 198.18.x.y:443 ─▶ listener │ door: x.y is api.example.com, at 203.0.113.7 ─▶ 203.0.113.7:443
//!         (its namespace)            │ (the machine's namespace)
//! ```

mod address;
mod brokered;
pub mod channel;
mod connection;
mod dns;
pub mod entrance;
mod errands;
mod fakes;
pub mod names;
mod relay;
pub mod report;
mod resolver;
mod run;
mod service;

use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::sockopt::{socket_domain, socket_type};
use rustix::net::{AddressFamily, SocketType};
use rustix::process::{DumpableBehavior, Pid, Signal};
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::error::Fatal;
use crate::switches::Guard;
use crate::sys::launch::{LaunchError, Limits, Places, Program, launch};
use crate::sys::pidfd::poll_until;
use crate::sys::{self, fd, signals};
pub use fakes::is_fake;
pub use run::local_address;

/// The supervisor's handle on its door, which is started when it is first needed.
pub struct Door {
    limits: Limits,
    process: Option<Process>,
}

struct Process {
    socket: OwnedFd,
    pid: Pid,
}

impl Door {
    /// Nothing is started yet.
    pub fn new(limits: Limits) -> Self {
        Self { limits, process: None }
    }

    /// Where it takes openings, for the keeper of a run that may need it.
    pub fn open(&mut self) -> Result<OwnedFd, Errno> {
        if self.process.as_ref().is_some_and(|process| has_gone(&process.socket)) {
            self.close();
        }
        let process = match self.process.take() {
            Some(process) => process,
            None => start(&self.limits)?,
        };
        fd::above_fixed_places(&self.process.insert(process).socket)
    }

    /// The process, if there is one.
    pub fn pid(&self) -> Option<Pid> {
        self.process.as_ref().map(|process| process.pid)
    }

    /// This child is the door.
    pub fn is(&self, pid: Pid) -> bool {
        self.pid() == Some(pid)
    }

    /// It has not answered a keeper in time. The next run that needs one gets another.
    pub fn give_up(&mut self, pid: Pid) {
        if self.is(pid) {
            self.close();
        }
    }

    /// A child was reaped, perhaps this one.
    pub fn reaped(&mut self, pid: Pid) {
        if self.is(pid) {
            self.process = None;
        }
    }

    /// Ends it. Until it is reaped it counts as a stranger, and those are killed.
    pub fn close(&mut self) {
        if let Some(process) = self.process.take() {
            // Our own unreaped child: the number cannot mean anybody else.
            let _ = rustix::process::kill_process(process.pid, Signal::KILL);
        }
    }
}

/// Somebody has killed it, and it has not been reaped yet.
fn has_gone(socket: &OwnedFd) -> bool {
    let mut watched = [PollFd::new(socket, PollFlags::empty())];
    poll_until(&mut watched, Some(Instant::now())).is_ok_and(|count| count > 0)
}

/// Starts the process: this program once more, with nothing of this one's memory and no descriptor but its socket.
fn start(limits: &Limits) -> Result<Process, Errno> {
    let (ours, theirs) = fd::message_pair()?;
    let (theirs, null) = (fd::above_fixed_places(&theirs)?, fd::above_fixed_places(fd::open_null()?)?);
    let arguments = [c"lilux-proc".as_ptr(), c"door".as_ptr(), std::ptr::null()];
    let inherited = Guard::environment();
    let environment = [inherited.as_ref().map_or(std::ptr::null(), |one| one.as_ptr()), std::ptr::null()];
    let program = Program {
        candidates: &[c"/proc/self/exe"],
        arguments: &arguments,
        environment: &environment,
        directory: Some(c"/"),
        descriptors: Places {
            first: &[theirs.as_raw_fd(), null.as_raw_fd(), null.as_raw_fd()],
            further: &[],
        },
        restriction: limits,
    };
    let started = launch(&program).map_err(|LaunchError { errno, .. }| errno)?;
    Ok(Process { socket: ours, pid: started.leader })
}

/// `lilux-proc door`: until the supervisor, at the other end of standard input, is gone.
pub fn main() -> Result<(), Fatal> {
    let socket = fd::above_fixed_places(rustix::stdio::stdin()).map_err(Fatal::system("standard input"))?;
    if !is_message_socket(&socket) {
        return Err(Fatal::Usage(
            "only `lilux-proc serve` starts a door, through a socket of its own".to_owned(),
        ));
    }
    give_up_powers().map_err(Fatal::system("door"))?;
    sys::raise_descriptor_limit();
    let mut service =
        service::Service::new(socket, sys::descriptor_limit().current).map_err(Fatal::system("door"))?;
    let outcome = service.run().map_err(Fatal::system("door"));
    // A thread may be waiting for an answer to a question that nobody asks any more.
    sys::exit_now(i32::from(outcome.is_err()))
}

fn is_message_socket(socket: &OwnedFd) -> bool {
    socket_domain(socket) == Ok(AddressFamily::UNIX) && socket_type(socket) == Ok(SocketType::SEQPACKET)
}

/// It reads packets of tools and talks to hosts, and needs no right but that to open sockets. It dies with its supervisor
/// even if it is stopped, and cannot be looked into by others.
fn give_up_powers() -> Result<(), Errno> {
    // Writing to a socket whose other side is gone is an error here, never a signal.
    signals::block_all()?;
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    rustix::thread::set_no_new_privs(true)?;
    let none = CapabilitySet::empty();
    rustix::thread::set_capabilities(
        None,
        CapabilitySets { effective: none, permitted: none, inheritable: none },
    )?;
    rustix::thread::set_name(c"lilux-door")
}
