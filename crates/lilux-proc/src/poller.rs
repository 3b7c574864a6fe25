//! One epoll, and what its events mean.

use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

use crate::protocol::Stream;
use crate::sys::pidfd::timespec;

/// Nobody minds being woken once a day; longer waits take a system call that Linux has since 5.11 only.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 3600);

/// Keys of runs and keepers are never used twice, so an event that comes late finds nobody.
pub type Key = u32;

/// Whom an event concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    Signals,
    Keeper(Key),
    Output(Key, Stream),
    Input(Key),
    /// The call of a parked process, which did not fit its pipe at once.
    Call(Key),
    /// Something that the face of this program (serve, exec) watches for itself.
    Face(Key),
}

/// Something that can travel through epoll as a number.
pub trait Label: Sized {
    /// Its number.
    fn encode(self) -> EventData;
    /// What has this number.
    fn decode(data: EventData) -> Self;
}

impl Label for Token {
    fn encode(self) -> EventData {
        let (sort, key) = match self {
            Self::Signals => (0, 0),
            Self::Keeper(key) => (1, key),
            Self::Input(key) => (2, key),
            Self::Face(key) => (3, key),
            Self::Call(key) => (4, key),
            Self::Output(key, stream) => (5 + stream as u64, key),
        };
        EventData::new_u64(sort << 32 | u64::from(key))
    }

    fn decode(data: EventData) -> Self {
        let (sort, key) = (data.u64() >> 32, data.u64() as Key);
        match sort {
            0 => Self::Signals,
            1 => Self::Keeper(key),
            2 => Self::Input(key),
            3 => Self::Face(key),
            4 => Self::Call(key),
            _ => Self::Output(key, Stream::ALL[(sort as usize - 5).min(2)]),
        }
    }
}

/// What this process waits for.
pub struct Poller<L = Token> {
    epoll: OwnedFd,
    labels: PhantomData<L>,
}

impl<L: Label> Poller<L> {
    /// Watches nothing yet.
    pub fn new() -> Result<Self, Errno> {
        Ok(Self { epoll: epoll::create(CreateFlags::CLOEXEC)?, labels: PhantomData })
    }

    /// Starts watching.
    pub fn add(&self, descriptor: impl AsFd, token: L, interest: EventFlags) -> Result<(), Errno> {
        epoll::add(&self.epoll, descriptor, token.encode(), interest)
    }

    /// Changes what is watched for.
    pub fn modify(&self, descriptor: impl AsFd, token: L, interest: EventFlags) -> Result<(), Errno> {
        epoll::modify(&self.epoll, descriptor, token.encode(), interest)
    }

    /// Explicit, although closing would do: a fork in progress may still hold the same file.
    pub fn remove(&self, descriptor: impl AsFd) {
        // It fails only for what was never added, and then there is nothing to remove.
        let _ = epoll::delete(&self.epoll, descriptor);
    }

    /// Waits for events, or until the given time.
    pub fn wait(&self, until: Option<Instant>) -> Result<Vec<(L, EventFlags)>, Errno> {
        let mut space = [MaybeUninit::<Event>::uninit(); 64];
        let left =
            until.map(|until| timespec(until.saturating_duration_since(Instant::now()).min(LONGEST_WAIT)));
        match epoll::wait(&self.epoll, &mut space, left.as_ref()) {
            Ok((events, _)) => Ok(events.iter().map(|event| (L::decode(event.data), event.flags)).collect()),
            Err(Errno::INTR) => Ok(Vec::new()),
            Err(errno) => Err(errno),
        }
    }
}

impl<L> AsFd for Poller<L> {
    /// Readable when there are events.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

/// Points in time at which something has to be looked at.
pub struct Timers<A = Alarm> {
    due: BTreeSet<(Instant, A)>,
}

impl<A> Default for Timers<A> {
    fn default() -> Self {
        Self { due: BTreeSet::new() }
    }
}

/// What to look at. Whoever is meant may be gone by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Alarm {
    /// The time for reading what survivors still write is over.
    Drained(Key),
    /// The keeper should have ended the run long ago.
    Overdue(Key),
    /// Output has been held back and may be sent now.
    Stream(Key),
    /// Somebody may look on by now.
    Quiet(Key),
    /// Escapees were killed; see whether they are gone.
    Sweep,
    /// Idle keepers and memory may be given back.
    Trim,
}

impl<A: Copy + Ord> Timers<A> {
    /// Returns the time it will ring, which `cancel` asks for.
    pub fn set(&mut self, after: Duration, alarm: A) -> Instant {
        let when = Instant::now() + after;
        self.due.insert((when, alarm));
        when
    }

    /// Takes an alarm back; what `set` returned says which.
    pub fn cancel(&mut self, when: Instant, alarm: A) {
        self.due.remove(&(when, alarm));
    }

    /// The time of the first alarm.
    pub fn next(&self) -> Option<Instant> {
        self.due.first().map(|(when, _)| *when)
    }

    /// Takes out one alarm that is due.
    pub fn take(&mut self, now: Instant) -> Option<A> {
        let first = *self.due.first()?;
        if first.0 > now {
            return None;
        }
        self.due.remove(&first);
        Some(first.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive_the_kernel() {
        let keys = [0, 1, Key::MAX];
        for key in keys {
            let mut tokens = vec![Token::Keeper(key), Token::Input(key), Token::Call(key)];
            tokens.extend([Token::Face(key), Token::Signals]);
            tokens.extend(Stream::ALL.map(|stream| Token::Output(key, stream)));
            for token in tokens {
                assert_eq!(Token::decode(token.encode()), token);
            }
        }
    }

    #[test]
    fn alarms_come_in_order_and_not_early() {
        let mut timers = Timers::default();
        timers.set(Duration::from_secs(3600), Alarm::Trim);
        timers.set(Duration::ZERO, Alarm::Sweep);
        let now = Instant::now();
        assert_eq!(timers.take(now), Some(Alarm::Sweep));
        assert_eq!(timers.take(now), None);
        assert!(timers.next().is_some_and(|next| next > now));
    }
}
