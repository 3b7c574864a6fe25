//! What a supervisor, its keepers and its door say to each other.
//!
//! For each run with hosts its keeper makes a pair of sockets, the run's channel. Through one end the keeper passes what
//! listens in the run's network namespace, and learns at the end of the run what became of it. The other end goes to the
//! door with an `Opening`, when the door is first needed.

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::net::{IpAddr, SocketAddrV4};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, Shutdown};
use serde::{Deserialize, Serialize};

use super::names::{Rule, allow, allow_name, normalise};
use super::report::Network;
use crate::sys::fd;
use crate::sys::pidfd::poll_until;

/// Rules of one run.
pub const MAX_RULES: usize = 64;
/// Ports of one run; each has a listener.
pub const MAX_PORTS: usize = 16;
/// Names of one run whose addresses are given.
const MAX_PINNED: usize = 64;
const MAX_ADDRESSES: usize = 8;
/// Holds any message.
pub const BUFFER: usize = 128 * 1024;

/// What a keeper says to the door, with the sockets that it passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// All that listens in the run's namespace.
    Listeners,
    /// The run has no namespace: its keeper makes its connections.
    Walls,
    /// Somebody in walls wants to ask for names here.
    Names,
    /// Somebody in walls wants to reach what this fake address stands for.
    Connection(SocketAddrV4),
}

impl Word {
    /// As it is sent.
    pub fn encode(self) -> [u8; 7] {
        let of = |letter, rest: [u8; 6]| {
            let [a, b, c, d, e, f] = rest;
            [letter, a, b, c, d, e, f]
        };
        match self {
            Self::Listeners => of(b'L', [0; 6]),
            Self::Walls => of(b'W', [0; 6]),
            Self::Names => of(b'N', [0; 6]),
            Self::Connection(to) => {
                let ([a, b, c, d], [high, low]) = (to.ip().octets(), to.port().to_be_bytes());
                of(b'C', [a, b, c, d, high, low])
            }
        }
    }

    /// Of a whole message.
    pub fn decode(message: &[u8]) -> Option<Self> {
        match message {
            [b'L', ..] => Some(Self::Listeners),
            [b'W', ..] => Some(Self::Walls),
            [b'N', ..] => Some(Self::Names),
            [b'C', a, b, c, d, high, low] => {
                let port = u16::from_be_bytes([*high, *low]);
                Some(Self::Connection(SocketAddrV4::new([*a, *b, *c, *d].into(), port)))
            }
            _ => None,
        }
    }
}

/// Which hosts a run may reach.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Opening {
    pub hosts: Vec<Rule>,
    /// At these ports every host may be reached: for learning which ones a tool needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub every_host_at: Vec<u16>,
    /// Names that are not looked up: the client of the supervisor says where they are, and answers for these
    /// addresses, which may be private ones. It allows no name that `hosts` does not.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pinned: BTreeMap<String, Vec<IpAddr>>,
}

impl Opening {
    /// What is wrong with it, if anything.
    pub fn check(&self) -> Result<(), String> {
        let ports = self.ports();
        if self.hosts.len() > MAX_RULES || !(1..=MAX_PORTS).contains(&ports.len()) || ports[0] == 0 {
            return Err(format!("expected 1 to {MAX_RULES} hosts and at most {MAX_PORTS} different ports"));
        }
        let usable = |(name, addresses): (&String, &Vec<IpAddr>)| {
            normalise(name.as_bytes()).as_ref() == Some(name) && addresses.len() <= MAX_ADDRESSES
        };
        if self.pinned.len() > MAX_PINNED || !self.pinned.iter().all(usable) {
            return Err(format!(
                "expected at most {MAX_PINNED} pinned names in lower case, with at most {MAX_ADDRESSES} addresses each"
            ));
        }
        Ok(())
    }

    /// Every port that some host may be reached at, once.
    pub fn ports(&self) -> Vec<u16> {
        let named = self.hosts.iter().map(Rule::port);
        let mut ports: Vec<u16> = named.chain(self.every_host_at.iter().copied()).collect();
        ports.sort_unstable();
        ports.dedup();
        ports
    }

    /// Those of these hosts that the door has served.
    pub fn confirmed(&self, report: &Network) -> Self {
        let served = |rule: &&Rule| report.served && report.ports.contains(&rule.port());
        let every_host_at = self.every_host_at.iter().copied();
        let every_host_at =
            every_host_at.filter(|port| report.served && report.ports.contains(port)).collect();
        let hosts = self.hosts.iter().filter(served).cloned().collect();
        Self { hosts, every_host_at, pinned: BTreeMap::new() }
    }

    /// Some port of this host may be reached, so its name may be looked up.
    pub fn allows_name(&self, name: &str) -> bool {
        !self.every_host_at.is_empty() || allow_name(&self.hosts, name)
    }

    /// This port of this host may be reached.
    pub fn allows(&self, name: &str, port: u16) -> bool {
        self.every_host_at.contains(&port) || allow(&self.hosts, name, port)
    }

    /// Nothing can be reached.
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty() && self.every_host_at.is_empty()
    }

    /// Sends it to the door, with the door's end of the run's channel.
    pub fn send(&self, door: &OwnedFd, channel: BorrowedFd<'_>) -> Result<(), Errno> {
        let bytes = serde_json::to_vec(self).map_err(|_| Errno::INVAL)?;
        fd::send(door, &[IoSlice::new(&bytes)], &[channel])
    }
}

/// Passes sockets to the door. It waits for nothing, and may be called between clone and `execve`: what arrives before the
/// door has looked waits in the kernel.
pub fn hand_over(channel: &OwnedFd, word: Word, sockets: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    fd::send(channel, &[IoSlice::new(&word.encode())], sockets)
}

/// Whether there is something to do for the door at once.
pub fn is_any_readable(sockets: &[OwnedFd]) -> bool {
    let mut watched: Vec<_> = sockets.iter().map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
    !watched.is_empty() && poll_until(&mut watched, Some(Instant::now())).is_ok_and(|count| count > 0)
}

/// Ends a run's use of the door. When this returns a report, nothing of the door is left in the run's namespace; without
/// one, the door was lost or has not answered in time, and the namespace must not be used again.
pub fn finish(channel: &OwnedFd, until: Instant) -> Option<Network> {
    rustix::net::shutdown(channel, Shutdown::Write).ok()?;
    let mut buffer = vec![0; BUFFER];
    let mut report = None;
    loop {
        let mut watched = [PollFd::new(channel, PollFlags::IN)];
        if poll_until(&mut watched, Some(until)) != Ok(1) {
            return None;
        }
        match fd::receive(channel, &mut buffer, RecvFlags::DONTWAIT) {
            Ok((0, _)) => return report,
            Ok((count, _)) => report = serde_json::from_slice(&buffer[..count]).ok(),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opening(text: &str) -> Opening {
        serde_json::from_str(text).expect("an opening")
    }

    #[test]
    fn an_opening_has_each_port_once() {
        let opened = opening(r#"{"hosts": ["a.example:443", "b.example:80", "*.c.example:443"]}"#);
        assert_eq!((opened.ports(), opened.check()), (vec![80, 443], Ok(())));
    }

    #[test]
    fn words_survive_the_channel_and_others_mean_nothing() {
        let to = SocketAddrV4::new([198, 18, 3, 4].into(), 0x1234);
        for word in [Word::Listeners, Word::Walls, Word::Names, Word::Connection(to)] {
            assert_eq!(Word::decode(&word.encode()), Some(word));
        }
        assert_eq!((Word::decode(b""), Word::decode(b"C"), Word::decode(b"x")), (None, None, None));
    }

    #[test]
    fn what_is_no_opening_is_refused() {
        for text in [
            r#"{}"#,
            r#"{"hosts": ["127.0.0.1:80"]}"#,
            r#"{"hosts": [], "every_host_at": ["*"]}"#,
            r#"{"hosts": [], "any": true}"#,
        ] {
            assert!(serde_json::from_str::<Opening>(text).is_err(), "{text}");
        }
        let ports: Vec<String> = (1..=17).map(|port| format!("\"a.example:{port}\"")).collect();
        assert!(opening(&format!(r#"{{"hosts": [{}]}}"#, ports.join(","))).check().is_err());
        for text in [r#"{"hosts": []}"#, r#"{"hosts": [], "every_host_at": [0]}"#] {
            assert!(opening(text).check().is_err(), "{text}");
        }
        for name in ["A.example", "a.example.", "a b", ""] {
            let text = format!(r#"{{"hosts": ["a.example:80"], "pinned": {{"{name}": ["127.0.0.1"]}}}}"#);
            assert!(opening(&text).check().is_err(), "{name:?}");
        }
    }
}
