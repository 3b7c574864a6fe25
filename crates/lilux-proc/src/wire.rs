//! What a supervisor and its keepers say to each other, over a socket that keeps messages apart.
//!
//! `u32 length of the JSON part │ JSON │ packed command`. A command that does not fit a message follows as a file in
//! memory, passed as the last descriptor.

use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};

use rustix::io::Errno;
use rustix::net::RecvFlags;
use serde::{Deserialize, Serialize};

use crate::command::{Command, Shape};
use crate::confine::Confinement;
use crate::door::report::Network;
use crate::error::SpawnError;
use crate::observe::{ObserveRequest, Observed};
use crate::policy::Enforced;
use crate::protocol::{KillMethod, RunRequest, Usage};
use crate::sys::fd;
use crate::sys::wait::Ending;

/// More than this goes through a file in memory.
const INLINE: usize = 64 * 1024;
/// Holds any message.
pub const BUFFER: usize = 2 * INLINE;

/// What to start. The descriptors for 1, 2 and perhaps 3 travel with it; the one for 0 only with `stdin`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StartOrder {
    pub shape: Shape,
    pub stdin: bool,
    pub in_file: bool,
    pub notify: bool,
    pub timeout_ms: Option<u64>,
    /// The places of further descriptors, which travel with it after the streams; ascending.
    pub descriptors: Vec<RawFd>,
    /// What to apply to the tool; nothing for a run without a policy.
    pub confinement: Option<Box<Confinement>>,
    /// The run's channel to the door travels with it too, after all of these.
    pub door: bool,
    /// What to learn from the run.
    pub observe: Option<ObserveRequest>,
    pub role: Role,
    /// A call waits for what is parked.
    pub awaited: bool,
}

impl StartOrder {
    /// The numbers of the descriptors that travel with it, of which there are so many: streams, then further ones.
    pub fn places(&self, count: usize) -> Vec<RawFd> {
        let streams = count.saturating_sub(self.descriptors.len()) as RawFd;
        (0..streams).chain(self.descriptors.iter().copied()).collect()
    }
}

/// What is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    Tool,
    /// Others are forked from it.
    Zygote,
    /// It is forked from the keeper's zygote, not executed.
    Forked,
}

impl StartOrder {
    /// What a keeper must know of a request.
    pub fn new(
        command: &Command,
        request: &RunRequest,
        stdin: bool,
        confinement: Option<Box<Confinement>>,
    ) -> Self {
        let (shape, parked) = (command.shape(), request.park.as_ref());
        let (notify, observe) = (request.notify || parked.is_some(), request.observe.clone());
        let timeout_ms = parked.map_or(request.timeout_ms, |park| Some(park.limit_ms));
        let mut descriptors = request.sorted_descriptors();
        descriptors.extend(parked.map(|_| fd::CALL_PLACE));
        let (in_file, door) = (false, false);
        let role = match (request.prepare, request.zygote) {
            (true, _) => Role::Zygote,
            (false, Some(_)) => Role::Forked,
            (false, None) => Role::Tool,
        };
        let awaited = parked.is_some_and(|park| park.awaited);
        Self {
            shape,
            stdin,
            in_file,
            notify,
            timeout_ms,
            descriptors,
            confinement,
            door,
            observe,
            role,
            awaited,
        }
    }
}

/// From the supervisor to a keeper.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Order {
    Start(StartOrder),
    /// TERM, wait so long, KILL.
    Cancel {
        grace_ms: u64,
    },
    /// What was parked has got its call, and has so long for it from now on.
    Call {
        timeout_ms: Option<u64>,
    },
    /// Everything that was written has been read: kill what is left.
    Finish,
    /// A process of somebody else, not a run.
    KillPid {
        pid: i64,
        grace_ms: u64,
    },
}

/// Why a run was ended by its keeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    Timeout,
    Cancelled,
}

/// From a keeper to its supervisor.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Report {
    Started {
        pid: i32,
        enforced: Option<Enforced>,
        memory_kb: Option<u64>,
    },
    Failed {
        error: SpawnError,
    },
    /// The tool is gone; something that it started is not.
    Lingering {
        pid: i32,
        ending: Ending,
    },
    /// About what was forked from the zygote that the keeper looks after.
    OfForked(Box<Self>),
    /// Nothing of the run is left, but for `survivors`.
    Ended(Box<EndReport>),
    PidKilled {
        method: KillMethod,
    },
    PidRefused {
        code: String,
        errno: Option<i32>,
        message: String,
    },
}

/// How it ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EndReport {
    pub pid: i32,
    pub ending: Ending,
    pub cause: Option<Cause>,
    pub forced: bool,
    /// How many processes the tool had left running, when it had ended by itself.
    pub left_running: usize,
    pub usage: Usage,
    pub survivors: Vec<i32>,
    pub enforced: Option<Enforced>,
    pub network: Option<Network>,
    pub observed: Option<Observed>,
    /// The keeper can't be used again, and is on its way out.
    pub unfit: bool,
}

/// An order to start something, with what it needs.
pub struct StartMessage {
    bytes: Vec<u8>,
    file: Option<OwnedFd>,
}

impl StartMessage {
    /// Everything but the descriptors.
    pub fn new(command: &Command, mut order: StartOrder) -> Result<Self, Errno> {
        let packed = command.pack();
        order.in_file = packed.len() > INLINE;
        let file = if order.in_file { Some(fd::memory_file(&packed)?) } else { None };
        let mut bytes = encode(&Order::Start(order));
        if file.is_none() {
            bytes.extend_from_slice(&packed);
        }
        Ok(Self { bytes, file })
    }

    /// `descriptors` become 0 (only with `stdin`), 1, 2 and perhaps 3, then those of the order; with `door`, the last is
    /// the run's channel.
    pub fn send(&self, socket: &OwnedFd, descriptors: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        let passed: Vec<BorrowedFd<'_>> =
            descriptors.iter().copied().chain(self.file.as_ref().map(AsFd::as_fd)).collect();
        fd::send(socket, &[IoSlice::new(&self.bytes)], &passed)
    }
}

fn encode(message: &impl Serialize) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, message).expect("messages hold nothing that JSON cannot");
    let length = (bytes.len() - 4) as u32;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    bytes
}

fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Option<(T, &'a [u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (json, packed) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    Some((serde_json::from_slice(json).ok()?, packed))
}

/// Sends a message that needs no descriptors.
pub fn send(socket: &OwnedFd, message: &impl Serialize) -> Result<(), Errno> {
    fd::send(socket, &[IoSlice::new(&encode(message))], &[])
}

/// What `receive` found.
pub enum Received<T> {
    Message(T),
    Nothing,
    EndOfFile,
}

/// The next report of a keeper, without waiting.
pub fn receive_report(socket: &OwnedFd, buffer: &mut [u8]) -> Received<Report> {
    match fd::receive(socket, buffer, RecvFlags::DONTWAIT) {
        Ok((0, _)) => Received::EndOfFile,
        Ok((count, _)) => {
            decode(&buffer[..count]).map_or(Received::EndOfFile, |(report, _)| Received::Message(report))
        }
        Err(Errno::AGAIN | Errno::INTR) => Received::Nothing,
        Err(_) => Received::EndOfFile,
    }
}

/// An order as a keeper gets it.
pub struct ReceivedOrder {
    pub order: Order,
    pub command: Option<Command>,
    pub descriptors: Vec<OwnedFd>,
}

/// The next order of the supervisor. An order that makes no sense counts as the end: a keeper never guesses.
pub fn receive_order(socket: &OwnedFd, buffer: &mut [u8], flags: RecvFlags) -> Received<ReceivedOrder> {
    match fd::receive(socket, buffer, flags) {
        Ok((0, _)) => Received::EndOfFile,
        Ok((count, descriptors)) => {
            read_order(&buffer[..count], descriptors).map_or(Received::EndOfFile, Received::Message)
        }
        Err(Errno::AGAIN | Errno::INTR) => Received::Nothing,
        Err(_) => Received::EndOfFile,
    }
}

fn read_order(bytes: &[u8], mut descriptors: Vec<OwnedFd>) -> Option<ReceivedOrder> {
    let (order, packed) = decode::<Order>(bytes)?;
    let command = match &order {
        Order::Start(start) if start.in_file => {
            let file = descriptors.pop()?;
            Some(Command::unpack(&start.shape, &fd::read_memory_file(&file).ok()?)?)
        }
        Order::Start(start) => Some(Command::unpack(&start.shape, packed)?),
        _ => None,
    };
    Some(ReceivedOrder { order, command, descriptors })
}
