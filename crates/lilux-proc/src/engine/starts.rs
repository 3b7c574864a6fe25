//! Starts are paced.
//!
//! Starting a program is work for the processors: loading it, linking it, and most of what a short program does at all. More
//! starts at a time than the processors can do make none of them faster, and take the processors from everybody else, first
//! of all from the client. So only a few for each processor are under way at a time, and the others wait for their turn.
//!
//! A start is over when its run is, or after a few milliseconds: by then a program that runs for longer is there, and however
//! many of those run at a time is nobody's business here. Whoever asks something of a run that still waits has it started first.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use super::Engine;
use crate::poller::{Alarm, Key};
use crate::protocol::RunRequest;

/// So many starts for each processor are under way at a time.
const PER_PROCESSOR: usize = 4;
/// How long a start takes at the most.
const STARTED: Duration = Duration::from_millis(5);

/// A run that was asked for and not started yet.
pub(super) struct Waiting {
    pub request: Box<RunRequest>,
    pub payload: Vec<u8>,
}

/// Who is being started, and who waits for it.
pub(super) struct Starts {
    limit: usize,
    /// In the order in which they began.
    under_way: VecDeque<(Instant, Key)>,
    /// By key, which is the order in which they came.
    waiting: BTreeMap<Key, Waiting>,
    alarm_set: bool,
}

impl Starts {
    pub fn new() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self::with_limit(PER_PROCESSOR * processors)
    }

    fn with_limit(limit: usize) -> Self {
        Self { limit, under_way: VecDeque::new(), waiting: BTreeMap::new(), alarm_set: false }
    }

    pub fn push(&mut self, key: Key, waiting: Waiting) {
        self.waiting.insert(key, waiting);
    }

    pub fn is_waiting(&self, key: Key) -> bool {
        self.waiting.contains_key(&key)
    }

    /// How many have not been started.
    pub fn count_waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Nobody is to be started any more.
    pub fn clear(&mut self) {
        self.waiting.clear();
    }

    /// Takes out a run that waits, whoever's turn it is.
    pub fn take(&mut self, key: Key, now: Instant) -> Option<Waiting> {
        let waiting = self.waiting.remove(&key)?;
        self.under_way.push_back((now, key));
        Some(waiting)
    }

    /// Takes out the run whose turn it is, if it is anybody's.
    fn next(&mut self, now: Instant) -> Option<(Key, Waiting)> {
        while self.under_way.front().is_some_and(|(since, _)| now.duration_since(*since) >= STARTED) {
            self.under_way.pop_front();
        }
        if self.under_way.len() >= self.limit {
            return None;
        }
        let key = *self.waiting.first_key_value()?.0;
        self.take(key, now).map(|waiting| (key, waiting))
    }

    /// The run is over.
    pub fn ended(&mut self, key: Key) {
        self.under_way.retain(|(_, other)| *other != key);
    }

    /// When the next start is over, if somebody waits for that and no alarm is set for it.
    fn alarm(&mut self, now: Instant) -> Option<Duration> {
        if self.alarm_set || self.waiting.is_empty() {
            return None;
        }
        let (since, _) = self.under_way.front()?;
        self.alarm_set = true;
        Some((*since + STARTED).saturating_duration_since(now))
    }
}

impl Engine {
    /// Starts whoever's turn it is.
    pub(super) fn start_waiting(&mut self) {
        if self.starts.waiting.is_empty() {
            return;
        }
        let now = Instant::now();
        while let Some((key, waiting)) = self.starts.next(now) {
            self.start(key, &waiting);
        }
        if let Some(after) = self.starts.alarm(now) {
            self.timers.set(after, Alarm::Start);
        }
    }

    /// A start that was under way is over by now.
    pub(super) fn ring_start(&mut self) {
        self.starts.alarm_set = false;
        self.start_waiting();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting() -> Waiting {
        Waiting { request: Box::default(), payload: Vec::new() }
    }

    /// The keys of everybody who may be started now.
    fn started(starts: &mut Starts, now: Instant) -> Vec<Key> {
        std::iter::from_fn(|| starts.next(now).map(|(key, _)| key)).collect()
    }

    #[test]
    fn only_so_many_are_started_at_a_time_and_in_the_order_in_which_they_came() {
        let (mut starts, now) = (Starts::with_limit(2), Instant::now());
        for key in 1..=5 {
            starts.push(key, waiting());
        }
        assert_eq!(started(&mut starts, now), [1, 2]);
        assert_eq!(starts.alarm(now), Some(STARTED));
        starts.ended(1);
        assert_eq!(started(&mut starts, now), [3]);
        assert_eq!(started(&mut starts, now + STARTED), [4, 5]);
        assert_eq!(starts.count_waiting(), 0);
    }

    #[test]
    fn who_is_asked_after_is_started_first() {
        let (mut starts, now) = (Starts::with_limit(1), Instant::now());
        for key in 1..=3 {
            starts.push(key, waiting());
        }
        assert_eq!(started(&mut starts, now), [1]);
        assert!(starts.take(3, now).is_some() && !starts.is_waiting(3));
        starts.ended(1);
        assert!(started(&mut starts, now).is_empty(), "3 is being started");
        starts.ended(3);
        assert_eq!(started(&mut starts, now), [2]);
    }
}
