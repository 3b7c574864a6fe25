//! The broker: in walls, how a run reaches the hosts that it is allowed, by name.
//!
//! ```text
//! tool ── connect ──> kernel: waits ── notice ──> keeper: copies the address, takes the socket, connects it to the door
//! tool ── socket(UDP) ──> kernel: waits ── notice ──> keeper: gives it a socket whose other end is the door's DNS server
//! ```
//!
//! There is no network namespace, so the filter lets the tool make no connection itself. What the tool has in its memory is
//! copied once, judged and used; the kernel never looks at it again. The keeper does it, because the tool is its descendant.

mod judge;
mod meeting;
mod probe;

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::event::epoll::{EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::sockopt::{socket_domain, socket_protocol, socket_type};
use rustix::net::{AddressFamily, SocketType, ipproto};

use crate::door::entrance::Entrance;
use crate::notify::{self, Mailbox, Notice, memory};
use crate::poller::{Key, Label, Poller};
use crate::sys::fd;
use judge::{Judgement, Kind, judge};
use meeting::{Begun, Meeting, disconnect};

pub use probe::try_out;

/// The kernel refuses longer addresses.
const MAX_ADDRESS: usize = 128;
/// Events that are dealt with before the rest of the keeper's work gets its turn.
const ROUNDS: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Token {
    Calls,
    Meeting(Key),
}

impl Label for Token {
    fn encode(self) -> EventData {
        EventData::new_u64(match self {
            Self::Calls => u64::MAX,
            Self::Meeting(key) => u64::from(key),
        })
    }

    fn decode(data: EventData) -> Self {
        Key::try_from(data.u64()).map_or(Self::Calls, Self::Meeting)
    }
}

/// One run's broker.
pub struct Broker {
    /// As long as somebody is left who can make a call.
    listener: Option<OwnedFd>,
    poller: Poller<Token>,
    meetings: BTreeMap<Key, Meeting>,
    next: Key,
}

impl Broker {
    /// The tool has been started, and has sent where its calls are told.
    pub fn begin(mailbox: Mailbox) -> Result<Self, Errno> {
        let (listener, poller) = (mailbox.open()?, Poller::new()?);
        poller.add(&listener, Token::Calls, EventFlags::IN)?;
        Ok(Self { listener: Some(listener), poller, meetings: BTreeMap::new(), next: 0 })
    }

    /// When a connection that is being made has failed.
    pub fn deadline(&self) -> Option<Instant> {
        self.meetings.values().map(|meeting| meeting.until).min()
    }

    /// Answers the calls that wait, and goes on with connections that are being made.
    pub fn answer(&mut self, door: &mut Entrance) {
        for _ in 0..ROUNDS {
            let events = self.poller.wait(Some(Instant::now())).unwrap_or_default();
            if events.is_empty() {
                break;
            }
            for (token, what) in events {
                match token {
                    Token::Calls if what.contains(EventFlags::IN) => self.hear(door),
                    Token::Calls => self.listener = None,
                    Token::Meeting(key) => self.meet(key, door),
                }
            }
        }
        self.give_up(Instant::now());
    }

    fn hear(&mut self, door: &mut Entrance) {
        let Some(notice) = self.listener.as_ref().and_then(|listener| notify::receive(listener).ok()) else {
            return; // the caller has gone
        };
        match libc::c_long::from(notice.number) {
            libc::SYS_socket => self.give_names(&notice, door),
            libc::SYS_connect => self.connect(&notice, door),
            _ => self.say(notice.id, Err(Errno::PERM)),
        }
    }

    fn say(&self, call: u64, outcome: Result<(), Errno>) {
        if let Some(listener) = &self.listener {
            notify::answer(listener, call, outcome);
        }
    }

    /// A socket for UDP could send to any address with each packet. The tool gets one that keeps packets apart, too, and has
    /// one peer for good.
    fn give_names(&self, notice: &Notice, door: &mut Entrance) {
        let flags = notice.arguments[1] as i32;
        let given = fd::message_pair().and_then(|(tools, doors)| {
            if flags & libc::SOCK_NONBLOCK != 0 {
                fd::set_nonblocking(&tools)?;
            }
            door.pass_names(doors.as_fd())?;
            let listener = self.listener.as_ref().ok_or(Errno::NETDOWN)?;
            notify::give(listener, notice.id, &tools, flags & libc::SOCK_CLOEXEC != 0)
        });
        if let Err(errno) = given {
            self.say(notice.id, Err(errno));
        }
    }

    fn connect(&mut self, notice: &Notice, door: &mut Entrance) {
        let outcome = self.look(notice).and_then(|(socket, address)| {
            match judge(kind_of(&socket), &address, door.ports()) {
                Judgement::Nothing => Ok(true),
                Judgement::Disconnect => disconnect(&socket).map(|()| true),
                Judgement::Refuse(errno) => Err(errno),
                Judgement::Lead(to) => match Meeting::begin(&socket, to, notice.id)? {
                    Begun::AlreadyDone => Ok(true),
                    Begun::Meets(meeting) => self.add(meeting, door),
                },
            }
        });
        match outcome {
            Ok(true) => self.say(notice.id, Ok(())),
            Ok(false) => {}
            Err(errno) => self.say(notice.id, Err(errno)),
        }
    }

    /// The socket and a copy of the address. A caller that cannot be looked into gets nowhere.
    fn look(&self, notice: &Notice) -> Result<(OwnedFd, Vec<u8>), Errno> {
        let [number, address, length, ..] = notice.arguments;
        let length = usize::try_from(length as i32).ok().filter(|length| *length <= MAX_ADDRESS);
        let mut copy = vec![0; length.ok_or(Errno::INVAL)?];
        let count = memory::read(notice.thread, address, &mut copy).map_err(as_seen_by_tool)?;
        if count != copy.len() {
            return Err(Errno::FAULT);
        }
        let socket = notify::take(notice.thread, number as i32).map_err(as_seen_by_tool)?;
        let listener = self.listener.as_ref().ok_or(Errno::ACCESS)?;
        // Otherwise the number may have meant another process.
        if notify::is_valid(listener, notice.id) { Ok((socket, copy)) } else { Err(Errno::SRCH) }
    }

    /// Whether the call is to be answered at once: with an error then, because sockets that do not wait hear so.
    fn add(&mut self, meeting: Meeting, door: &mut Entrance) -> Result<bool, Errno> {
        let (key, waits) = (self.next, meeting.waiting.is_some());
        self.next = self.next.wrapping_add(1);
        self.poller.add(&meeting, Token::Meeting(key), EventFlags::IN)?;
        self.meetings.insert(key, meeting);
        self.meet(key, door);
        if waits { Ok(false) } else { Err(Errno::INPROGRESS) }
    }

    fn meet(&mut self, key: Key, door: &mut Entrance) {
        let Some(met) = self.meetings.get(&key).and_then(Meeting::met) else { return };
        let Some(meeting) = self.meetings.remove(&key) else { return };
        let passed = door.pass_connection(meeting.to, met.as_fd());
        if let Some(call) = meeting.waiting {
            self.say(call, passed.map_err(|_| Errno::CONNREFUSED));
        }
    }

    fn give_up(&mut self, now: Instant) {
        let over: Vec<Key> =
            self.meetings.iter().filter(|(_, meeting)| meeting.until <= now).map(|(key, _)| *key).collect();
        for meeting in over.into_iter().filter_map(|key| self.meetings.remove(&key)).collect::<Vec<_>>() {
            if let Some(call) = meeting.waiting {
                self.say(call, Err(Errno::TIMEDOUT));
            }
        }
    }
}

impl AsFd for Broker {
    /// Readable when there is something to answer.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poller.as_fd()
    }
}

/// What the tool has done wrong itself, it hears; the rest is ours.
fn as_seen_by_tool(errno: Errno) -> Errno {
    if matches!(errno, Errno::FAULT | Errno::BADF) { errno } else { Errno::ACCESS }
}

fn kind_of(socket: &OwnedFd) -> Kind {
    match (socket_domain(socket), socket_type(socket)) {
        (Ok(AddressFamily::UNIX), Ok(SocketType::SEQPACKET)) => Kind::Names,
        (Ok(AddressFamily::INET | AddressFamily::INET6), Ok(SocketType::STREAM))
            if socket_protocol(socket) == Ok(Some(ipproto::TCP)) =>
        {
            Kind::Tcp
        }
        _ => Kind::Other,
    }
}
