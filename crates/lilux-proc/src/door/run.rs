//! One run as the door sees it: what listens in its namespace, what its names stand for, and its report.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::sockopt::socket_type;
use rustix::net::{RecvFlags, SendFlags, SocketType, getsockname, recv, recvfrom, send, sendto};

use super::address;
use super::channel::Opening;
use super::dns::{self, Answer, Question};
use super::fakes::{Cursor, Fakes};
use super::report::Tally;
use crate::poller::Key;
use crate::switches::Guard;
use crate::sys::fd;

/// Packets that are read before others get their turn.
const PACKETS_IN_A_ROW: usize = 16;
/// How long addresses that were found are used again.
const KEPT: Duration = Duration::from_secs(10);

/// What listens for connections to one port.
pub struct Listener {
    pub socket: OwnedFd,
    pub port: u16,
}

/// Where a connection wants to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    pub host: String,
    pub port: u16,
}

/// A run in flight.
pub struct Run {
    pub channel: OwnedFd,
    pub names: Option<OwnedFd>,
    pub listeners: Vec<Listener>,
    pub connections: HashSet<Key>,
    /// Sockets for names of a run in walls.
    pub askers: HashSet<Key>,
    /// Connections that wait for the addresses of a name.
    pub waiting: HashMap<String, Vec<Key>>,
    pub tally: Tally,
    /// Nobody is accepted for a while.
    pub paused: bool,
    opening: Opening,
    fakes: Fakes,
    found: HashMap<String, (Instant, Vec<IpAddr>)>,
}

impl Run {
    /// Nothing listens yet.
    pub fn new(opening: Opening, channel: OwnedFd) -> Self {
        Self {
            channel,
            names: None,
            listeners: Vec::new(),
            connections: HashSet::new(),
            askers: HashSet::new(),
            waiting: HashMap::new(),
            tally: Tally::default(),
            paused: false,
            opening,
            fakes: Fakes::default(),
            found: HashMap::new(),
        }
    }

    /// Keeps the sockets that are what they should be. Only the first hand-over counts.
    pub fn take_over(&mut self, sockets: Vec<OwnedFd>) {
        if self.names.is_some() {
            return;
        }
        let ports = self.opening.ports();
        for socket in sockets {
            let Ok(local) = local_address(&socket) else { continue };
            if fd::set_nonblocking(&socket).is_err() {
                continue;
            }
            match socket_type(&socket) {
                Ok(SocketType::DGRAM) => self.names = Some(socket),
                Ok(SocketType::STREAM) if ports.contains(&local.port()) => {
                    self.listeners.push(Listener { socket, port: local.port() });
                }
                _ => {}
            }
        }
        if self.names.is_some() {
            self.tally.serves(self.listeners.iter().map(|listener| listener.port).collect());
        }
    }

    /// The run is in walls: its keeper makes its connections.
    pub fn serve_in_walls(&mut self) {
        self.tally.serves(self.opening.ports());
    }

    /// Answers some of the questions that have arrived.
    pub fn answer_names(&mut self, cursor: &mut Cursor) {
        let mut packet = [0; dns::MAX_PACKET + 1];
        for _ in 0..PACKETS_IN_A_ROW {
            let Some(socket) = &self.names else { return };
            // An error that an earlier answer has caused (its asker is gone) is told here, and means nothing.
            let received = recvfrom(socket, &mut packet[..], RecvFlags::DONTWAIT);
            let (count, asker) = match received {
                Ok((count, _, Some(asker))) => (count, asker),
                Err(Errno::AGAIN) => return,
                _ => continue,
            };
            let Some(said) = self.answer_packet(&packet[..count], cursor) else { continue };
            let Some(socket) = &self.names else { return };
            // Somebody who does not take the answer asks again.
            let _ = sendto(socket, &said, SendFlags::DONTWAIT | SendFlags::NOSIGNAL, &asker);
        }
    }

    /// Packets that are no questions have no answer.
    fn answer_packet(&mut self, packet: &[u8], cursor: &mut Cursor) -> Option<Vec<u8>> {
        let question = dns::parse(packet)?;
        Some(dns::answer(&question, self.answer_to(&question, cursor)))
    }

    /// Answers some of the questions of somebody in walls. The end of file is an error, too.
    pub fn answer_asker(&mut self, socket: &OwnedFd, cursor: &mut Cursor) -> Result<(), Errno> {
        let mut packet = [0; dns::MAX_PACKET + 1];
        for _ in 0..PACKETS_IN_A_ROW {
            // What is passed with a packet is closed by the kernel: nobody here asks for it.
            let count = match recv(socket, &mut packet[..], RecvFlags::DONTWAIT) {
                Ok((_, 0)) => return Err(Errno::PIPE),
                Ok((_, count)) => count,
                Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
                Err(errno) => return Err(errno),
            };
            if let Some(said) = self.answer_packet(&packet[..count], cursor) {
                // Somebody who does not take the answer asks again.
                let _ = send(socket, &said, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
            }
        }
        Ok(())
    }

    fn answer_to(&mut self, question: &Question<'_>, cursor: &mut Cursor) -> Answer {
        let Some(name) = &question.name else { return Answer::NoSuchName };
        if !self.opening.allows_name(name) && Guard::DoorNames.is_on() {
            if question.kind != dns::PTR {
                self.tally.refused(name.clone());
            }
            return Answer::NoSuchName;
        }
        if question.kind != dns::A {
            return Answer::Nothing;
        }
        let address = self.fakes.address_of(name, cursor);
        if let Some(address) = address.filter(|_| !self.opening.every_host_at.is_empty()) {
            self.tally.named(name, address);
        }
        address.map_or(Answer::Failure, Answer::Address)
    }

    /// Where a connection to this address wants to go; `None` if it stands for no host that is allowed at this port.
    pub fn destination(&self, local: SocketAddr) -> Option<Destination> {
        let IpAddr::V4(address) = local.ip() else { return None };
        let host = self.fakes.name_of(address)?;
        let allowed = self.opening.allows(host, local.port()) || !Guard::DoorNames.is_on();
        allowed.then(|| Destination { host: host.to_owned(), port: local.port() })
    }

    /// The addresses of a host, if they are known: said by the client, or looked up a moment ago.
    pub fn known(&self, host: &str) -> Option<Addresses> {
        if let Some(pinned) = self.opening.pinned.get(host) {
            return Some(Addresses::Allowed(pinned.clone()));
        }
        let (when, found) = self.found.get(host)?;
        (when.elapsed() < KEPT).then(|| check(found))
    }

    /// The addresses of a host have been looked up.
    pub fn learn(&mut self, host: &str, found: Vec<IpAddr>) {
        self.found.insert(host.to_owned(), (Instant::now(), found));
    }
}

/// What may be done with the addresses of a host.
#[derive(Debug, PartialEq, Eq)]
pub enum Addresses {
    Allowed(Vec<IpAddr>),
    Refused(&'static str),
}

/// As for requests over HTTP: one address that is refused refuses the host, which is not what it says.
fn check(found: &[IpAddr]) -> Addresses {
    match found.iter().find_map(|address| address::refusal(*address)) {
        Some(why) if Guard::DoorAddresses.is_on() => Addresses::Refused(why),
        _ => Addresses::Allowed(found.to_vec()),
    }
}

/// The address that a socket has, or that its other side has connected to.
pub fn local_address(socket: impl AsFd) -> Result<SocketAddr, Errno> {
    SocketAddr::try_from(getsockname(socket)?).map_err(|_| Errno::AFNOSUPPORT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, UdpSocket};

    fn run(opening: &str) -> Run {
        let opening = serde_json::from_str(opening).expect("an opening");
        Run::new(opening, fd::message_pair().expect("sockets").0)
    }

    fn at(address: Ipv4Addr, port: u16) -> SocketAddr {
        SocketAddr::new(IpAddr::V4(address), port)
    }

    /// What the run answers to a question of this type.
    fn ask(run: &mut Run, name: &str, kind: u8) -> Answer {
        let labels: Vec<u8> =
            name.split('.').flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat()).collect();
        let header: &[u8] = b"\x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00";
        let packet = [header, &labels, &[0, 0, kind, 0, 1]].concat();
        run.answer_to(&dns::parse(&packet).expect("a question"), &mut Cursor::default())
    }

    #[test]
    fn an_allowed_name_has_an_address_and_nothing_else() {
        let mut run = run(r#"{"hosts": ["api.example.com:443"]}"#);
        let Answer::Address(address) = ask(&mut run, "API.example.com", 1) else { panic!("no address") };
        for kind in [28, 65, 16, 12] {
            assert_eq!(ask(&mut run, "api.example.com", kind), Answer::Nothing);
        }
        let host = Some(Destination { host: "api.example.com".to_owned(), port: 443 });
        assert_eq!(run.destination(at(address, 443)), host);
        assert_eq!(run.destination(at(address, 80)), None);
        assert_eq!(run.destination(at(Ipv4Addr::LOCALHOST, 443)), None);
        assert_eq!(run.destination(at(Ipv4Addr::new(198, 19, 1, 1), 443)), None);
    }

    #[test]
    fn other_names_do_not_exist_and_are_reported() {
        let mut run = run(r#"{"hosts": ["api.example.com:443"]}"#);
        for (name, kind) in
            [("evil.com", 1), ("EVIL.com", 28), ("example.com", 1), ("1.0.0.127.in-addr.arpa", 12)]
        {
            assert_eq!(ask(&mut run, name, kind), Answer::NoSuchName);
        }
        let refused = run.tally.finish().refused;
        assert_eq!(refused, [("evil.com".to_owned(), 2), ("example.com".to_owned(), 1)]);
    }

    #[test]
    fn one_refused_address_refuses_the_host_unless_it_was_pinned() {
        let mut run =
            run(r#"{"hosts": ["a.example:80", "b.example:80"], "pinned": {"a.example": ["127.0.0.1"]}}"#);
        let (public, loopback) = ("8.8.8.8".parse().expect("an address"), IpAddr::V4(Ipv4Addr::LOCALHOST));
        assert_eq!(run.known("a.example"), Some(Addresses::Allowed(vec![loopback])));
        assert_eq!(run.known("b.example"), None);
        run.learn("b.example", vec![public, loopback]);
        assert_eq!(run.known("b.example"), Some(Addresses::Refused("loopback")));
        run.learn("b.example", vec![public]);
        assert_eq!(run.known("b.example"), Some(Addresses::Allowed(vec![public])));
    }

    #[test]
    fn packets_are_answered_and_malformed_ones_are_not() {
        let mut run = run(r#"{"hosts": ["api.example.com:443"]}"#);
        let server = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let asker = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        asker.connect(server.local_addr().expect("an address")).expect("connected");
        run.take_over(vec![server.into()]);
        let good =
            b"\xab\xcd\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03api\x07example\x03com\x00\x00\x01\x00\x01";
        for packet in [&good[..11], b"", &[0xff; 600], good] {
            asker.send(packet).expect("sent");
        }
        run.answer_names(&mut Cursor::default());
        let mut said = [0; 512];
        let count = asker.recv(&mut said).expect("an answer");
        assert_eq!((&said[..2], said[3] & 0x0f, count), (&good[..2], 0, good.len() + 16));
        asker.set_nonblocking(true).expect("a socket");
        assert!(asker.recv(&mut said).is_err());
    }
}
