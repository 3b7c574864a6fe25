//! What a run in walls has at the door: its keeper passes in the sockets of what it has made for the tool.

use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use super::connection::reset_on_close;
use super::service::{MAX_OF_RUN, Service, Token};
use crate::poller::Key;
use crate::sys::fd;

/// Sockets of one run that names are asked through at the same time; further ones are closed, and the tool sees that.
const MAX_ASKERS: usize = 64;

/// A process in walls that asks for names.
pub struct Asker {
    pub run: Key,
    socket: OwnedFd,
}

impl Service {
    pub(super) fn add_asker(&mut self, run: Key, socket: OwnedFd) -> Result<(), Errno> {
        let key = self.new_key();
        let Some(its) = self.runs.get_mut(&run).filter(|its| its.askers.len() < MAX_ASKERS) else {
            return Ok(());
        };
        self.poller.add(&socket, Token::Asker(key), EventFlags::IN)?;
        its.askers.insert(key);
        self.askers.insert(key, Asker { run, socket });
        Ok(())
    }

    pub(super) fn hear_asker(&mut self, key: Key) {
        let Some(asker) = self.askers.get(&key) else { return };
        let Some(run) = self.runs.get_mut(&asker.run) else { return };
        if run.answer_asker(&asker.socket, &mut self.cursor).is_err() {
            run.askers.remove(&key);
            self.askers.remove(&key);
        }
    }

    /// Nobody can be made to wait in the kernel, as in a cell: with too many, the next is broken off.
    pub(super) fn admit_from_walls(&mut self, key: Key, tool: OwnedFd, to: SocketAddrV4) {
        let Some(run) = self.runs.get(&key) else { return };
        let full = run.connections.len() >= MAX_OF_RUN || self.connections.len() >= self.max_connections;
        if full || fd::set_nonblocking(&tool).is_err() {
            return reset_on_close(&tool);
        }
        self.lead_to(key, tool, to.into());
    }
}
