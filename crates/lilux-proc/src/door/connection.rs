//! One connection of a tool: accepted, then led to an address of its host, then relayed.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_linger, set_tcp_nodelay, socket_error};
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};

use super::relay::{Lost, Pipes, Relay};
use super::run::Destination;
use super::service::Token;
use crate::poller::{Key, Poller};

/// From being accepted to being connected.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// One address gets so long if there is another to try.
const ATTEMPT: Duration = Duration::from_secs(2);
/// A connection on which nothing moves for so long is closed.
pub const IDLE: Duration = Duration::from_secs(600);

/// A socket, and what is watched for at it.
struct Watched {
    socket: OwnedFd,
    interest: EventFlags,
}

impl Watched {
    fn new(socket: OwnedFd) -> Self {
        Self { socket, interest: EventFlags::empty() }
    }

    /// Without interest it leaves epoll, which would go on telling that its other side is gone.
    fn want(&mut self, poller: &Poller<Token>, token: Token, interest: EventFlags) -> Result<(), Errno> {
        match (self.interest.is_empty(), interest.is_empty()) {
            _ if self.interest == interest => return Ok(()),
            (true, _) => poller.add(&self.socket, token, interest)?,
            (_, true) => poller.remove(&self.socket),
            _ => poller.modify(&self.socket, token, interest)?,
        }
        self.interest = interest;
        Ok(())
    }
}

/// What became of a step.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// It goes on when something happens.
    Waits,
    /// Both sides have ended it.
    Done,
    /// The tool has broken it off, as programs do that end.
    BrokenOff,
    Failed(&'static str),
}

/// How far it has got.
enum State {
    LookingUp,
    Dialling { host: Watched, rest: VecDeque<IpAddr>, until: Instant },
    Relaying { host: Watched, relay: Relay },
}

/// A tool's connection.
pub struct Connection {
    pub run: Key,
    pub destination: Destination,
    /// Its host's place in the run's report.
    pub place: usize,
    /// The alarm that is set for it.
    pub alarm: Instant,
    tool: Watched,
    state: State,
    give_up_at: Instant,
    last_moved: Instant,
}

impl Connection {
    /// Nothing is read from the tool before its host is there.
    pub fn new(run: Key, destination: Destination, place: usize, tool: OwnedFd) -> Self {
        let now = Instant::now();
        Self {
            run,
            destination,
            place,
            alarm: now,
            tool: Watched::new(tool),
            state: State::LookingUp,
            give_up_at: now + PATIENCE,
            last_moved: now,
        }
    }

    /// Connects to one of these addresses, and to no other.
    pub fn dial(&mut self, key: Key, mut rest: VecDeque<IpAddr>, poller: &Poller<Token>) -> Step {
        while let Some(address) = rest.pop_front() {
            let to = SocketAddr::new(address, self.destination.port);
            if let Ok(host) = begin_to_connect(to) {
                let mut host = Watched::new(host);
                if host.want(poller, Token::Host(key), EventFlags::OUT).is_ok() {
                    let alone = rest.is_empty();
                    let until =
                        if alone { self.give_up_at } else { self.give_up_at.min(Instant::now() + ATTEMPT) };
                    self.state = State::Dialling { host, rest, until };
                    return Step::Waits;
                }
            }
        }
        Step::Failed("no connection")
    }

    /// When this connection has to be looked at, whatever happens.
    pub fn deadline(&self) -> Instant {
        match &self.state {
            State::LookingUp => self.give_up_at,
            State::Dialling { until, .. } => *until,
            State::Relaying { .. } => self.last_moved + IDLE,
        }
    }

    /// The alarm rings, perhaps before the time of `deadline` has come.
    pub fn on_alarm(&mut self, key: Key, now: Instant, poller: &Poller<Token>) -> Step {
        if now < self.deadline() {
            return Step::Waits;
        }
        match &mut self.state {
            State::Relaying { .. } => Step::Failed("idle"),
            State::Dialling { rest, .. } if now < self.give_up_at => {
                let rest = std::mem::take(rest);
                self.dial(key, rest, poller)
            }
            State::LookingUp | State::Dialling { .. } => Step::Failed("timeout"),
        }
    }

    /// Something happened at one of its sockets.
    pub fn on_event(&mut self, key: Key, poller: &Poller<Token>, pipes: &mut Pipes) -> Step {
        if let State::Dialling { host, rest, .. } = &mut self.state {
            if !matches!(socket_error(&host.socket), Ok(Ok(()))) {
                let rest = std::mem::take(rest);
                return self.dial(key, rest, poller);
            }
            let State::Dialling { host, .. } = std::mem::replace(&mut self.state, State::LookingUp) else {
                return Step::Waits;
            };
            self.state = State::Relaying { host, relay: Relay::default() };
        }
        self.relay(key, poller, pipes)
    }

    fn relay(&mut self, key: Key, poller: &Poller<Token>, pipes: &mut Pipes) -> Step {
        let State::Relaying { host, relay } = &mut self.state else { return Step::Waits };
        let before = relay.moved();
        match relay.pump(self.tool.socket.as_fd(), host.socket.as_fd(), pipes) {
            Ok(()) => {}
            Err(Lost::Tool) => return Step::BrokenOff,
            Err(Lost::Host) => return Step::Failed("connection lost"),
        }
        if relay.moved() != before {
            self.last_moved = Instant::now();
        }
        if relay.is_done() {
            return Step::Done;
        }
        let (of_tool, of_host) = relay.interests();
        let watched = self.tool.want(poller, Token::Tool(key), of_tool);
        match watched.and_then(|()| host.want(poller, Token::Host(key), of_host)) {
            Ok(()) => Step::Waits,
            Err(_) => Step::Failed("no resources"),
        }
    }

    /// Bytes that went to the host, and to the tool.
    pub fn moved(&self) -> (u64, u64) {
        match &self.state {
            State::Relaying { relay, .. } => relay.moved(),
            State::LookingUp | State::Dialling { .. } => (0, 0),
        }
    }

    /// The run is over: what the tool has said still goes to its host.
    pub fn say_last(&mut self, pipes: &mut Pipes) {
        if let State::Relaying { host, relay } = &mut self.state {
            // What does not fit now is lost, as when a machine is switched off.
            let _ = relay.pump(self.tool.socket.as_fd(), host.socket.as_fd(), pipes);
        }
        reset_on_close(&self.tool.socket);
    }

    /// Closes it so that both sides see a failure, and not an end.
    pub fn reset(&self) {
        let host = match &self.state {
            State::Dialling { host, .. } | State::Relaying { host, .. } => Some(host),
            State::LookingUp => None,
        };
        for side in host.into_iter().chain([&self.tool]) {
            reset_on_close(&side.socket);
        }
    }
}

/// A socket that is closed from now on is reset.
pub fn reset_on_close(socket: &OwnedFd) {
    // It fails for what is no connection any more, and then there is nothing to reset.
    let _ = set_socket_linger(socket, Some(Duration::ZERO));
}

fn begin_to_connect(to: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    set_tcp_nodelay(&socket, true)?;
    match connect(&socket, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(errno) => Err(errno),
    }
}
