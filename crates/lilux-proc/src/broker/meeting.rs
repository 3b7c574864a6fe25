//! How a tool's own socket and the door's come to be the two ends of one connection of this machine's loopback.
//!
//! There is a listener for each, at a port that the kernel picks, and what else connects to it is turned away. Nothing here
//! waits: the tool decides how its socket behaves, and could make it wait for ever.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::Errno;
use rustix::net::sockopt::socket_domain;
use rustix::net::{
    AddressFamily, SendFlags, SocketFlags, SocketType, acceptfrom_with, bind, getpeername, listen, sendto,
    socket_with,
};

use crate::door::local_address;

/// Longer than this machine takes to connect to itself.
const PATIENCE: Duration = Duration::from_secs(10);
const ANY_PORT: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);

/// A connection that is being made.
#[derive(Debug)]
pub struct Meeting {
    listener: OwnedFd,
    /// Where the tool's socket connects from.
    tool: SocketAddr,
    /// What the tool wants to reach.
    pub to: SocketAddrV4,
    /// Whoever waits in a call until it is made.
    pub waiting: Option<u64>,
    pub until: Instant,
}

/// What became of an attempt.
pub enum Begun {
    /// This socket has been connected before, and the kernel says so now.
    AlreadyDone,
    Meets(Meeting),
}

impl Meeting {
    /// Connects a tool's socket; `call` is the one that waits for it, if the socket is one that waits.
    pub fn begin(socket: &OwnedFd, to: SocketAddrV4, call: u64) -> Result<Begun, Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let listener = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
        bind(&listener, &ANY_PORT)?;
        listen(&listener, 1)?;
        let port = local_address(&listener)?.port();
        match connect_without_waiting(socket, port) {
            Err(Errno::INPROGRESS) => {}
            Err(errno) => return Err(errno),
            Ok(()) if peer_port(socket) != Some(port) => return Ok(Begun::AlreadyDone),
            Ok(()) => {}
        }
        let tool = unmapped(local_address(socket)?);
        let waits = !fcntl_getfl(socket)?.contains(OFlags::NONBLOCK);
        let (waiting, until) = (waits.then_some(call), Instant::now() + PATIENCE);
        Ok(Begun::Meets(Self { listener, tool, to, waiting, until }))
    }

    /// The door's end, if the tool's has arrived.
    pub fn met(&self) -> Option<OwnedFd> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        loop {
            match acceptfrom_with(&self.listener, flags) {
                Ok((socket, Some(peer))) => {
                    if SocketAddr::try_from(peer) == Ok(self.tool) {
                        return Some(socket);
                    }
                }
                Ok((_, None)) | Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(_) => return None,
            }
        }
    }
}

impl AsFd for Meeting {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// `connect` waits if the socket does, which the tool may change at any moment. Sending nothing with the first packet
/// connects as well, and does not wait if the call says so.
fn connect_without_waiting(socket: &OwnedFd, port: u16) -> Result<(), Errno> {
    let flags =
        SendFlags::DONTWAIT | SendFlags::NOSIGNAL | SendFlags::from_bits_retain(libc::MSG_FASTOPEN as u32);
    let address = match socket_domain(socket)? {
        AddressFamily::INET6 => IpAddr::V6(Ipv4Addr::LOCALHOST.to_ipv6_mapped()),
        _ => IpAddr::V4(Ipv4Addr::LOCALHOST),
    };
    sendto(socket, &[], flags, &SocketAddr::new(address, port)).map(drop)
}

fn peer_port(socket: &OwnedFd) -> Option<u16> {
    let peer = getpeername(socket).ok()??;
    SocketAddr::try_from(peer).ok().map(|peer| peer.port())
}

/// The same address, as the other side sees it.
fn unmapped(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Its peer is forgotten, as `connect` does it for an address without a family.
pub fn disconnect(socket: &OwnedFd) -> Result<(), Errno> {
    let nothing = libc::sockaddr { sa_family: libc::AF_UNSPEC as libc::sa_family_t, sa_data: [0; 14] };
    let size = size_of::<libc::sockaddr>() as libc::socklen_t;
    // SAFETY: the kernel reads an address of this size.
    crate::sys::checked(unsafe { libc::connect(socket.as_raw_fd(), &raw const nothing, size) }).map(drop)
}
