//! The keepers: forked when needed, used again while they are warm, sent home when idle.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::process::Pid;

use crate::keeper;
use crate::poller::{Key, Poller, Token};
use crate::sys::launch::Limits;
use crate::sys::{self, fd};

/// Idle keepers beyond these go home after `IDLE`.
const WARM: usize = 2;
/// A keeper that has been idle so long may go home. Agents call in bursts, with pauses of seconds between them: a burst of
/// short programs would take noticeably longer if keepers had to be forked for it again.
const IDLE: Duration = Duration::from_secs(10);

/// What a keeper is busy with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Job {
    Run(Key),
    KillPid { request: u64, pid: i64 },
}

/// One keeper and what it is doing.
pub struct Keeper {
    pub socket: OwnedFd,
    pub job: Option<Job>,
    /// What is forked from the zygote that is its job.
    pub forked: Option<Key>,
    idle_since: Instant,
}

/// All of them.
pub struct Pool {
    keepers: HashMap<Key, Keeper>,
    idle: Vec<Key>,
    /// Everybody who was forked here and not reaped yet.
    pids: HashMap<Pid, Key>,
    next_key: Key,
    limits: Limits,
}

impl Pool {
    /// Nobody is forked before somebody is needed.
    pub fn new(limits: Limits) -> Self {
        Self { keepers: HashMap::new(), idle: Vec::new(), pids: HashMap::new(), next_key: 0, limits }
    }

    /// A keeper for this job: the one that was busy last, or a new one.
    pub fn hire(&mut self, poller: &Poller, job: Job) -> Result<Key, Errno> {
        let key = match self.idle.pop() {
            Some(key) => key,
            None => self.fork(poller)?,
        };
        self.keepers.entry(key).and_modify(|keeper| keeper.job = Some(job));
        Ok(key)
    }

    /// Has one ready before it is needed.
    pub fn warm_up(&mut self, poller: &Poller) -> Result<(), Errno> {
        let key = self.fork(poller)?;
        self.idle.push(key);
        Ok(())
    }

    fn fork(&mut self, poller: &Poller) -> Result<Key, Errno> {
        let (ours, theirs) = fd::message_pair()?;
        let Some(pid) = sys::fork()? else {
            keeper::main(theirs, self.limits);
        };
        let key = self.next_key;
        self.next_key = self.next_key.wrapping_add(1);
        self.pids.insert(pid, key);
        // From here on a failure closes our end, and the keeper goes home by itself.
        poller.add(&ours, Token::Keeper(key), EventFlags::IN)?;
        let keeper = Keeper { socket: ours, job: None, forked: None, idle_since: Instant::now() };
        self.keepers.insert(key, keeper);
        Ok(key)
    }

    /// A keeper that was not dismissed.
    pub fn get(&self, key: Key) -> Option<&Keeper> {
        self.keepers.get(&key)
    }

    /// Something is forked from the zygote of this keeper, or that is over.
    pub fn set_forked(&mut self, key: Key, forked: Option<Key>) {
        if let Some(keeper) = self.keepers.get_mut(&key) {
            keeper.forked = forked;
        }
    }

    /// The job is done and the keeper fit for the next.
    pub fn release(&mut self, key: Key) {
        if let Some(keeper) = self.keepers.get_mut(&key) {
            keeper.job = None;
            keeper.idle_since = Instant::now();
            self.idle.push(key);
        }
    }

    /// Closes the socket, which makes the keeper kill whatever it has and go.
    pub fn dismiss(&mut self, key: Key, poller: &Poller) -> Option<Keeper> {
        self.idle.retain(|idle| *idle != key);
        let keeper = self.keepers.remove(&key)?;
        poller.remove(&keeper.socket);
        Some(keeper)
    }

    /// As `dismiss`, for everybody.
    pub fn dismiss_all(&mut self, poller: &Poller) {
        let keys: Vec<Key> = self.keepers.keys().copied().collect();
        for key in keys {
            self.dismiss(key, poller);
        }
    }

    /// Sends the longest idle ones home.
    pub fn trim(&mut self, poller: &Poller, now: Instant) {
        let spare = self.idle.len().saturating_sub(WARM);
        let expired = |key: &&Key| {
            self.keepers.get(*key).is_some_and(|keeper| now.duration_since(keeper.idle_since) >= IDLE)
        };
        let home: Vec<Key> = self.idle.iter().take(spare).filter(expired).copied().collect();
        for key in home {
            self.dismiss(key, poller);
        }
    }

    /// SIGKILL; its end of file is what follows.
    pub fn kill(&self, key: Key) {
        for (pid, _) in self.pids.iter().filter(|(_, its)| **its == key) {
            // Our own unreaped child: the number cannot mean anybody else.
            let _ = rustix::process::kill_process(*pid, rustix::process::Signal::KILL);
        }
    }

    /// There is something to trim, now or in a while.
    pub fn has_spare(&self) -> bool {
        self.idle.len() > WARM
    }

    /// A child was reaped; the keeper that it was, if it was one.
    pub fn reaped(&mut self, pid: Pid) -> Option<Key> {
        self.pids.remove(&pid)
    }

    /// This child is one of us, dismissed or not.
    pub fn is_keeper(&self, pid: Pid) -> bool {
        self.pids.contains_key(&pid)
    }

    /// Somebody was dismissed and has not been reaped yet.
    pub fn has_dismissed(&self) -> bool {
        self.pids.len() > self.keepers.len()
    }

    /// Everybody is gone, dismissed and reaped.
    pub fn is_empty(&self) -> bool {
        self.pids.is_empty()
    }

    /// All keepers and, of those, the idle ones.
    pub fn counts(&self) -> (usize, usize) {
        (self.pids.len(), self.idle.len())
    }
}
