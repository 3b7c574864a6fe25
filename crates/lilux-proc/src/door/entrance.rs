//! The half of the door that is in a run's network namespace, as its keeper makes it and takes it away again.
//!
//! The door hears of a run when something of it first asks for a name or connects; until then its keeper watches. Many runs
//! that may reach hosts reach none, and waking the door would cost them as much as the rest of their network.

use std::cell::Cell;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::sockopt::set_socket_reuseaddr;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, listen, socket_with};

use super::channel::{MAX_PORTS, Opening, Word, finish, hand_over, is_any_readable};
use super::report::Network;
use crate::policy::Net;
use crate::sys::{checked, fd};

/// Names are asked for here; resolvers that are told nothing else ask here too.
const NAMES: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 53);
/// Connections that wait for the door.
const BACKLOG: i32 = 128;
/// The door answers within a millisecond, or is stuck.
const PATIENCE: Duration = Duration::from_secs(2);

/// What leads from a run's namespace to the door.
#[derive(Debug)]
pub struct Entrance {
    /// Where runs are opened.
    door: OwnedFd,
    channel: OwnedFd,
    /// Until the door is needed.
    unopened: Option<Unopened>,
    opening: Opening,
    ports: [u16; MAX_PORTS],
    count: usize,
}

/// What the door gets when it is needed. What was said through the channel waits at its other end.
#[derive(Debug)]
struct Unopened {
    other_end: OwnedFd,
    /// Readable when something of the run asks for a name, or connects.
    listeners: Vec<OwnedFd>,
    /// The run has what it needs to come here.
    begun: bool,
}

impl Entrance {
    /// Nothing is done yet. `door` is where it takes openings.
    pub fn new(door: OwnedFd, opening: &Opening) -> Result<Self, Errno> {
        let (channel, other_end) = fd::message_pair()?;
        let unopened = Some(Unopened { other_end, listeners: Vec::new(), begun: false });
        let mut ports = [0; MAX_PORTS];
        let wanted = opening.ports();
        let count = wanted.len().min(MAX_PORTS);
        ports[..count].copy_from_slice(&wanted[..count]);
        Ok(Self { door, channel, unopened, opening: opening.clone(), ports, count })
    }

    /// Call it inside the namespace, before the tool is there. Only system calls: it may be called between clone and
    /// `execve`. All sockets are closed here again; they wait in the channel. `routed` says whether the namespace has the
    /// route of the fake addresses, which stays.
    pub fn make(&self, routed: &Cell<bool>) -> Result<(), Errno> {
        if !routed.get() {
            add_fake_network()?;
            routed.set(true);
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let names = socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?;
        bind(&names, &NAMES)?;
        let mut listeners = [const { None::<OwnedFd> }; MAX_PORTS];
        let mut passed = [names.as_fd(); MAX_PORTS + 1];
        for (place, port) in listeners.iter_mut().zip(&self.ports[..self.count]) {
            *place = Some(listener(*port)?);
        }
        for (place, listener) in passed[1..].iter_mut().zip(listeners.iter().flatten()) {
            *place = listener.as_fd();
        }
        let passed: &[BorrowedFd<'_>] = &passed[..=self.count];
        hand_over(&self.channel, Word::Listeners, passed)
    }

    /// The tool has been started in a cell: from here on somebody has to watch.
    pub fn begin_in_cell(&mut self) -> Result<(), Errno> {
        let Some(unopened) = &mut self.unopened else { return Ok(()) };
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        unopened.listeners = match fd::receive(&unopened.other_end, &mut [0; 16], flags) {
            Ok((_, listeners)) => listeners,
            Err(Errno::AGAIN) => Vec::new(), // a test has switched its network off
            Err(errno) => return Err(errno),
        };
        unopened.begun = !unopened.listeners.is_empty();
        Ok(())
    }

    /// For a run in walls, whose connections its keeper makes.
    pub fn begin_in_walls(&mut self) -> Result<(), Errno> {
        hand_over(&self.channel, Word::Walls, &[])?;
        if let Some(unopened) = &mut self.unopened {
            unopened.begun = true;
        }
        Ok(())
    }

    /// As soon as one of these is readable, the door is needed.
    pub fn watched(&self) -> &[OwnedFd] {
        self.unopened.as_ref().map_or(&[], |unopened| &unopened.listeners)
    }

    /// The door takes over, unless it has already. If that fails, the run has no network, and `close` has no report.
    pub fn open(&mut self) -> Result<(), Errno> {
        let Some(Unopened { other_end, listeners, .. }) = self.unopened.take() else { return Ok(()) };
        drop(listeners);
        self.opening.send(&self.door, other_end.as_fd())
    }

    /// What is asked through this socket, the door answers.
    pub fn pass_names(&mut self, socket: BorrowedFd<'_>) -> Result<(), Errno> {
        self.open()?;
        hand_over(&self.channel, Word::Names, &[socket])
    }

    /// The door leads this connection to what a fake address stands for.
    pub fn pass_connection(&mut self, to: SocketAddrV4, socket: BorrowedFd<'_>) -> Result<(), Errno> {
        self.open()?;
        hand_over(&self.channel, Word::Connection(to), &[socket])
    }

    /// Every port that some host may be reached at.
    pub fn ports(&self) -> &[u16] {
        &self.ports[..self.count]
    }

    /// Call it when nobody of the run is left: what the run did at the door, and the network that it had. Without a report
    /// the namespace must not be used again.
    pub fn close(mut self) -> (Option<Network>, Net) {
        if is_any_readable(self.watched()) {
            // The last question of the run. If it fails, there is no report, either.
            let _ = self.open();
        }
        let report = match self.unopened.take() {
            Some(Unopened { begun, .. }) => Some(Network::unused(begun, self.ports())),
            None => finish(&self.channel, Instant::now() + PATIENCE),
        };
        let confirmed = report.as_ref().map(|report| self.opening.confirmed(report));
        let reached = confirmed.filter(|opening| !opening.is_empty());
        // Without the door, its namespace has no way out at all.
        (report, reached.map_or(Net::None, Net::Hosts))
    }
}

/// At every address, because the tool connects to fake ones.
fn listener(port: u16) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port))?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// `ip address add 198.18.0.1/15 dev lo`, with which the kernel takes all of that network for its own. Not as a route through
/// netlink: the kernel frees such a socket later, and until then the network would look as if the run had left one in it.
fn add_fake_network() -> Result<(), Errno> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?;
    for (request, address) in [(libc::SIOCSIFADDR, [198, 18, 0, 1]), (libc::SIOCSIFNETMASK, [255, 254, 0, 0])]
    {
        let wanted = InterfaceAddress::of(address);
        // SAFETY: the structure is an `ifreq`, which the kernel reads.
        checked(unsafe { libc::ioctl(socket.as_raw_fd(), request as _, &raw const wanted) })?;
    }
    Ok(())
}

#[repr(C)]
struct InterfaceAddress {
    name: [u8; 16],
    family: libc::sa_family_t,
    port: u16,
    address: [u8; 4],
    rest: [u8; 16],
}

impl InterfaceAddress {
    /// A second address of the loopback device.
    fn of(address: [u8; 4]) -> Self {
        let mut name = [0; 16];
        name[..4].copy_from_slice(b"lo:1");
        Self { name, family: libc::AF_INET as libc::sa_family_t, port: 0, address, rest: [0; 16] }
    }
}
