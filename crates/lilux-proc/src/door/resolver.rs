//! Looks names up, in a few threads: the C library's way waits, and the door must not.
//!
//! The door is the only process here with threads. It never forks, so there is no child that could find a lock taken.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, ToSocketAddrs as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use crate::poller::Key;

const THREADS: usize = 8;
/// One run takes at most so many of them: names whose servers do not answer delay no other run.
const SHARE: usize = 4;
/// More addresses of a host are not tried.
const MAX_ADDRESSES: usize = 8;
const STACK: usize = 256 * 1024;

/// What became of a question.
pub struct Found {
    pub run: Key,
    pub name: String,
    /// Empty if there is no such name, or nobody could say.
    pub addresses: Vec<IpAddr>,
}

#[derive(Default)]
struct State {
    questions: VecDeque<(Key, String)>,
    in_flight: HashMap<Key, usize>,
    waiting: usize,
    found: Vec<Found>,
}

struct Shared {
    state: Mutex<State>,
    more: Condvar,
    wake: OwnedFd,
}

/// The threads, and what they are asked.
pub struct Resolver {
    shared: Arc<Shared>,
    threads: usize,
}

impl Resolver {
    /// Threads are started when they are needed.
    pub fn new() -> Result<Self, Errno> {
        use_built_in_sources();
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shared = Shared { state: Mutex::default(), more: Condvar::new(), wake };
        Ok(Self { shared: Arc::new(shared), threads: 0 })
    }

    /// Asks for the addresses of a name.
    pub fn ask(&mut self, run: Key, name: String) {
        let mut state = self.shared.lock();
        state.questions.push_back((run, name));
        let needed = state.waiting < state.questions.len() && self.threads < THREADS;
        drop(state);
        if needed && self.start_thread() {
            self.threads += 1;
        }
        if self.threads == 0 {
            self.fail_everything();
        }
        self.shared.more.notify_one();
    }

    fn start_thread(&self) -> bool {
        let shared = Arc::clone(&self.shared);
        let builder = std::thread::Builder::new().name("lilux-lookup".to_owned()).stack_size(STACK);
        builder.spawn(move || shared.work()).is_ok()
    }

    /// Without a single thread nobody would ever answer.
    fn fail_everything(&self) {
        let mut state = self.shared.lock();
        while let Some((run, name)) = state.questions.pop_front() {
            state.found.push(Found { run, name, addresses: Vec::new() });
        }
        self.shared.wake_up();
    }

    /// What has been found since the last call.
    pub fn take(&self) -> Vec<Found> {
        let mut count = [0; 8];
        // EAGAIN: somebody has taken everything already.
        let _ = rustix::io::read(&self.shared.wake, &mut count);
        std::mem::take(&mut self.shared.lock().found)
    }

    /// The run is over: its questions need no answer.
    pub fn forget(&self, run: Key) {
        self.shared.lock().questions.retain(|(its, _)| *its != run);
    }
}

impl AsFd for Resolver {
    /// Readable when there is something to take.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.wake.as_fd()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake_up(&self) {
        // It fails only when the counter is full, and then the loop has been woken up often enough.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    fn work(&self) {
        loop {
            let (run, name) = self.next();
            let addresses = look_up(&name);
            let mut state = self.lock();
            if let Some(count) = state.in_flight.get_mut(&run) {
                *count -= 1;
                if *count == 0 {
                    state.in_flight.remove(&run);
                }
            }
            state.found.push(Found { run, name, addresses });
            drop(state);
            self.wake_up();
        }
    }

    fn next(&self) -> (Key, String) {
        let mut state = self.lock();
        loop {
            let fair = |(run, _): &(Key, String)| state.in_flight.get(run).is_none_or(|count| *count < SHARE);
            if let Some(question) =
                state.questions.iter().position(fair).and_then(|place| state.questions.remove(place))
            {
                *state.in_flight.entry(question.0).or_default() += 1;
                return question;
            }
            state.waiting += 1;
            state = self.more.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
    }
}

fn look_up(name: &str) -> Vec<IpAddr> {
    let mut addresses: Vec<IpAddr> = Vec::new();
    // A name that is not there and a server that does not answer are the same to the tool: no connection.
    for found in (name, 0).to_socket_addrs().into_iter().flatten().map(|socket| socket.ip()) {
        if !addresses.contains(&found) {
            addresses.push(found);
        }
    }
    addresses.truncate(MAX_ADDRESSES);
    addresses
}

/// Tells glibc to use `/etc/hosts` and DNS only. Linked statically, it would load the other sources that this machine's
/// `nsswitch.conf` may name from shared libraries of another version than its own, and crash.
fn use_built_in_sources() {
    #[cfg(target_env = "gnu")]
    {
        unsafe extern "C" {
            fn __nss_configure_lookup(
                database: *const libc::c_char,
                services: *const libc::c_char,
            ) -> libc::c_int;
        }
        // SAFETY: two texts that end with a zero; no thread looks anything up yet.
        unsafe { __nss_configure_lookup(c"hosts".as_ptr(), c"files dns".as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::pidfd::poll_until;
    use rustix::event::{PollFd, PollFlags};
    use std::time::{Duration, Instant};

    #[test]
    fn names_of_the_hosts_file_are_found_and_others_are_not() {
        let mut resolver = Resolver::new().expect("a resolver");
        resolver.ask(1, "localhost".to_owned());
        resolver.ask(2, "no such name".to_owned());
        let until = Instant::now() + Duration::from_secs(30);
        let mut found = Vec::new();
        while found.len() < 2 {
            let mut watched = [PollFd::new(&resolver, PollFlags::IN)];
            assert_eq!(poll_until(&mut watched, Some(until)), Ok(1));
            found.extend(resolver.take());
        }
        found.sort_by_key(|found| found.run);
        assert!(found[0].addresses.iter().all(IpAddr::is_loopback) && !found[0].addresses.is_empty());
        assert!(found[1].addresses.is_empty());
    }

    #[test]
    fn nobody_waits_for_names_of_another_run_that_take_for_ever() {
        let shared = Shared {
            state: Mutex::default(),
            more: Condvar::new(),
            wake: eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd"),
        };
        let questions = (0..10).map(|number| (1, format!("{number}.slow"))).chain([(2, "fast".to_owned())]);
        shared.lock().questions.extend(questions);
        let taken: Vec<Key> = (0..=SHARE).map(|_| shared.next().0).collect();
        assert_eq!(taken, [1, 1, 1, 1, 2]);
    }
}
