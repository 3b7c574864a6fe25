//! The door process: one loop over everything that happens in the namespaces of all runs, and at their hosts.
//!
//! `errands` has what happens to connections. Nothing here waits: names are looked up in threads.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::epoll::{EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, send};

use super::brokered::Asker;
use super::channel::{BUFFER, Opening, Word};
use super::connection::{Connection, reset_on_close};
use super::fakes::Cursor;
use super::relay::Pipes;
use super::resolver::Resolver;
use super::run::{Run, local_address};
use crate::poller::{Key, Label, Poller, Timers};
use crate::sys::fd;

/// Connections of one run; the next waits in the kernel.
pub(super) const MAX_OF_RUN: usize = 256;
/// Connections that are accepted before others get their turn.
const ACCEPTS_IN_A_ROW: usize = 16;
/// After this time it is seen whether there is room again.
const PAUSE: Duration = Duration::from_millis(50);
/// Descriptors that are not those of connections.
const RESERVED: u64 = 256;
/// Two sockets, and up to two pipes.
const DESCRIPTORS_OF_CONNECTION: u64 = 6;

/// Whom an event concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    Supervisor,
    Resolver,
    Channel(Key),
    Names(Key),
    Listener(Key, u8),
    Tool(Key),
    Host(Key),
    Asker(Key),
}

impl Label for Token {
    fn encode(self) -> EventData {
        let (sort, index, key) = match self {
            Self::Supervisor => (0, 0, 0),
            Self::Resolver => (1, 0, 0),
            Self::Channel(key) => (2, 0, key),
            Self::Names(key) => (3, 0, key),
            Self::Listener(key, index) => (4, index, key),
            Self::Tool(key) => (5, 0, key),
            Self::Host(key) => (6, 0, key),
            Self::Asker(key) => (7, 0, key),
        };
        EventData::new_u64(sort << 40 | u64::from(index) << 32 | u64::from(key))
    }

    fn decode(data: EventData) -> Self {
        let (sort, index, key) = (data.u64() >> 40, (data.u64() >> 32) as u8, data.u64() as Key);
        match sort {
            0 => Self::Supervisor,
            1 => Self::Resolver,
            2 => Self::Channel(key),
            3 => Self::Names(key),
            4 => Self::Listener(key, index),
            5 => Self::Tool(key),
            6 => Self::Host(key),
            _ => Self::Asker(key),
        }
    }
}

/// What has to be looked at at a given time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Alarm {
    Connection(Key),
    /// A run may accept again.
    Resume(Key),
}

/// Everything that is going on.
pub struct Service {
    pub(super) poller: Poller<Token>,
    pub(super) timers: Timers<Alarm>,
    pub(super) resolver: Resolver,
    pub(super) pipes: Pipes,
    pub(super) runs: HashMap<Key, Run>,
    pub(super) connections: HashMap<Key, Connection>,
    pub(super) askers: HashMap<Key, Asker>,
    supervisor: OwnedFd,
    pub(super) cursor: Cursor,
    buffer: Vec<u8>,
    next_key: Key,
    pub(super) max_connections: usize,
}

/// The supervisor is gone.
struct Gone;

impl Service {
    /// `supervisor` is the socket through which runs are opened.
    pub fn new(supervisor: OwnedFd, descriptors: Option<u64>) -> Result<Self, Errno> {
        let (poller, resolver) = (Poller::new()?, Resolver::new()?);
        poller.add(&supervisor, Token::Supervisor, EventFlags::IN)?;
        poller.add(&resolver, Token::Resolver, EventFlags::IN)?;
        let room = descriptors.unwrap_or(u64::from(u32::MAX)).saturating_sub(RESERVED);
        Ok(Self {
            poller,
            timers: Timers::default(),
            resolver,
            pipes: Pipes::default(),
            runs: HashMap::new(),
            connections: HashMap::new(),
            askers: HashMap::new(),
            supervisor,
            cursor: Cursor::default(),
            buffer: vec![0; BUFFER],
            next_key: 0,
            max_connections: usize::try_from(room / DESCRIPTORS_OF_CONNECTION).unwrap_or(usize::MAX).max(1),
        })
    }

    /// Until the supervisor is gone.
    pub fn run(&mut self) -> Result<(), Errno> {
        loop {
            for (token, _) in self.poller.wait(self.timers.next())? {
                match token {
                    Token::Supervisor => {
                        if self.hear_supervisor().is_err() {
                            return Ok(());
                        }
                    }
                    Token::Resolver => self.hear_resolver(),
                    Token::Channel(run) => self.hear_keeper(run),
                    Token::Names(run) => self.answer_names(run),
                    Token::Listener(run, index) => self.accept(run, usize::from(index)),
                    Token::Tool(key) | Token::Host(key) => self.hear_connection(key),
                    Token::Asker(key) => self.hear_asker(key),
                }
            }
            let now = Instant::now();
            while let Some(alarm) = self.timers.take(now) {
                match alarm {
                    Alarm::Connection(key) => self.ring(key, now),
                    Alarm::Resume(run) => self.resume(run),
                }
            }
        }
    }

    pub(super) fn new_key(&mut self) -> Key {
        self.next_key = self.next_key.wrapping_add(1);
        self.next_key
    }

    fn hear_supervisor(&mut self) -> Result<(), Gone> {
        loop {
            let (count, passed) = match fd::receive(&self.supervisor, &mut self.buffer, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Err(Gone),
                Ok(received) => received,
                Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
                Err(_) => return Err(Gone),
            };
            // An opening that makes no sense is dropped together with its channel, and its keeper sees that.
            let opening = serde_json::from_slice::<Opening>(&self.buffer[..count]);
            let opening = opening.ok().filter(|opening| opening.check().is_ok());
            if let (Some(opening), Some(channel)) = (opening, passed.into_iter().next()) {
                self.open(opening, channel);
            }
        }
    }

    fn open(&mut self, opening: Opening, channel: OwnedFd) {
        let key = self.new_key();
        if self.poller.add(&channel, Token::Channel(key), EventFlags::IN).is_ok() {
            self.runs.insert(key, Run::new(opening, channel));
        }
    }

    fn hear_keeper(&mut self, key: Key) {
        let Some(run) = self.runs.get_mut(&key) else { return };
        match fd::receive(&run.channel, &mut self.buffer, RecvFlags::DONTWAIT) {
            Ok((count, passed)) if count > 0 => {
                let word = Word::decode(&self.buffer[..count]);
                if self.take_over(key, word, passed).is_err() {
                    self.close(key);
                }
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            _ => self.close(key),
        }
    }

    fn take_over(&mut self, key: Key, word: Option<Word>, mut passed: Vec<OwnedFd>) -> Result<(), Errno> {
        let Some(run) = self.runs.get_mut(&key) else { return Ok(()) };
        match (word, passed.pop()) {
            (Some(Word::Listeners), last) => {
                passed.extend(last);
                run.take_over(passed);
                self.watch_listeners(key)
            }
            (Some(Word::Walls), _) => {
                run.serve_in_walls();
                Ok(())
            }
            (Some(Word::Names), Some(socket)) => self.add_asker(key, socket),
            (Some(Word::Connection(to)), Some(socket)) => {
                self.admit_from_walls(key, socket, to);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn watch_listeners(&self, key: Key) -> Result<(), Errno> {
        let Some(run) = self.runs.get(&key) else { return Ok(()) };
        if let Some(names) = &run.names {
            self.poller.add(names, Token::Names(key), EventFlags::IN)?;
        }
        for (index, listener) in run.listeners.iter().enumerate() {
            self.poller.add(&listener.socket, Token::Listener(key, index as u8), EventFlags::IN)?;
        }
        Ok(())
    }

    /// The run is over. Its listeners and connections are closed before its keeper hears so.
    fn close(&mut self, key: Key) {
        // What was asked until then counts.
        self.answer_names(key);
        let Some(run) = self.runs.get(&key) else { return };
        let connections: Vec<Key> = run.connections.iter().copied().collect();
        for connection in connections {
            if let Some(connection) = self.connections.get_mut(&connection) {
                connection.say_last(&mut self.pipes);
            }
            self.end(connection, None);
        }
        self.askers.retain(|_, asker| asker.run != key);
        self.resolver.forget(key);
        let Some(Run { channel, names, listeners, tally, .. }) = self.runs.remove(&key) else { return };
        drop((names, listeners));
        // There is nothing in it that JSON cannot hold. A keeper that is gone needs no report.
        let report = serde_json::to_vec(&tally.finish()).unwrap_or_default();
        let _ = send(&channel, &report, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        self.poller.remove(&channel);
    }

    fn answer_names(&mut self, key: Key) {
        if let Some(run) = self.runs.get_mut(&key) {
            run.answer_names(&mut self.cursor);
        }
    }

    fn accept(&mut self, key: Key, index: usize) {
        for _ in 0..ACCEPTS_IN_A_ROW {
            let Some(run) = self.runs.get(&key) else { return };
            let Some(listener) = run.listeners.get(index) else { return };
            if run.connections.len() >= MAX_OF_RUN || self.connections.len() >= self.max_connections {
                return self.pause(key);
            }
            match accept_with(&listener.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(tool) => self.admit(key, tool),
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(_) => return self.pause(key), // no descriptors or no memory: there may be some later
            }
        }
    }

    fn admit(&mut self, key: Key, tool: OwnedFd) {
        match local_address(&tool) {
            Ok(local) => self.lead_to(key, tool, local),
            Err(_) => reset_on_close(&tool),
        }
    }

    /// Leads a connection to what stands behind the fake address that the tool wants to reach.
    pub(super) fn lead_to(&mut self, key: Key, tool: OwnedFd, to: SocketAddr) {
        let Some(run) = self.runs.get_mut(&key) else { return };
        let Some(destination) = run.destination(to) else {
            run.tally.stray();
            return reset_on_close(&tool);
        };
        let place = run.tally.connection(&destination.host, destination.port);
        // Without it small pieces would wait for others.
        let _ = rustix::net::sockopt::set_tcp_nodelay(&tool, true);
        let connection = self.new_key();
        if let Some(run) = self.runs.get_mut(&key) {
            run.connections.insert(connection);
        }
        self.connections.insert(connection, Connection::new(key, destination, place, tool));
        self.lead(connection);
    }

    /// Stops accepting for a moment.
    fn pause(&mut self, key: Key) {
        let Some(run) = self.runs.get_mut(&key).filter(|run| !run.paused) else { return };
        run.paused = true;
        for listener in &run.listeners {
            self.poller.remove(&listener.socket);
        }
        self.timers.set(PAUSE, Alarm::Resume(key));
    }

    fn resume(&mut self, key: Key) {
        let Some(run) = self.runs.get_mut(&key).filter(|run| run.paused) else { return };
        run.paused = false;
        for (index, listener) in run.listeners.iter().enumerate() {
            // If it fails, nobody is accepted there, and what connects waits until the run ends.
            let _ = self.poller.add(&listener.socket, Token::Listener(key, index as u8), EventFlags::IN);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive_the_kernel() {
        let mut tokens = vec![Token::Supervisor, Token::Resolver];
        for key in [0, 1, Key::MAX] {
            tokens.extend([Token::Channel(key), Token::Names(key), Token::Tool(key), Token::Host(key)]);
            tokens.push(Token::Asker(key));
            tokens.extend([0, 7, u8::MAX].map(|index| Token::Listener(key, index)));
        }
        for token in tokens {
            assert_eq!(Token::decode(token.encode()), token);
        }
    }
}
