//! What happens to connections: looked up, dialled, relayed, ended.

use std::time::Instant;

use super::connection::Step;
use super::run::Addresses;
use super::service::{Alarm, Service};
use crate::poller::Key;

impl Service {
    /// Leads a new connection to its host: at once if the host's addresses are known.
    pub(super) fn lead(&mut self, key: Key) {
        let Some(connection) = self.connections.get(&key) else { return };
        let (run_key, host) = (connection.run, connection.destination.host.clone());
        let Some(run) = self.runs.get_mut(&run_key) else { return };
        if let Some(known) = run.known(&host) {
            return self.dial(key, known);
        }
        let waiting = run.waiting.entry(host.clone()).or_default();
        waiting.push(key);
        if waiting.len() == 1 {
            self.resolver.ask(run_key, host);
        }
        self.settle(key, Step::Waits);
    }

    pub(super) fn hear_resolver(&mut self) {
        for found in self.resolver.take() {
            let Some(run) = self.runs.get_mut(&found.run) else { continue };
            let waiting = run.waiting.remove(&found.name).unwrap_or_default();
            if !found.addresses.is_empty() {
                run.learn(&found.name, found.addresses);
            }
            for key in waiting {
                let known = self.runs.get(&found.run).and_then(|run| run.known(&found.name));
                match known {
                    Some(known) => self.dial(key, known),
                    None => self.settle(key, Step::Failed("not found")),
                }
            }
        }
    }

    fn dial(&mut self, key: Key, addresses: Addresses) {
        let Some(connection) = self.connections.get_mut(&key) else { return };
        let step = match addresses {
            Addresses::Allowed(addresses) => connection.dial(key, addresses.into(), &self.poller),
            Addresses::Refused(why) => Step::Failed(why),
        };
        self.settle(key, step);
    }

    pub(super) fn hear_connection(&mut self, key: Key) {
        let Some(connection) = self.connections.get_mut(&key) else { return };
        let step = connection.on_event(key, &self.poller, &mut self.pipes);
        self.settle(key, step);
    }

    pub(super) fn ring(&mut self, key: Key, now: Instant) {
        let Some(connection) = self.connections.get_mut(&key) else { return };
        let step = connection.on_alarm(key, now, &self.poller);
        self.settle(key, step);
    }

    fn settle(&mut self, key: Key, step: Step) {
        match step {
            Step::Waits => self.set_alarm(key),
            Step::Done => self.end(key, None),
            Step::BrokenOff => {
                if let Some(connection) = self.connections.get(&key) {
                    connection.reset();
                }
                self.end(key, None);
            }
            Step::Failed(why) => self.end(key, Some(why)),
        }
    }

    /// An alarm that is set for an earlier time stays: when it rings, it is set again.
    fn set_alarm(&mut self, key: Key) {
        let Some(connection) = self.connections.get_mut(&key) else { return };
        let (now, due) = (Instant::now(), connection.deadline());
        if connection.alarm > now && connection.alarm <= due {
            return;
        }
        self.timers.cancel(connection.alarm, Alarm::Connection(key));
        connection.alarm = self.timers.set(due.saturating_duration_since(now), Alarm::Connection(key));
    }

    /// Closes a connection; with a reason, both sides see that it was not theirs.
    pub(super) fn end(&mut self, key: Key, why: Option<&str>) {
        let Some(connection) = self.connections.remove(&key) else { return };
        self.timers.cancel(connection.alarm, Alarm::Connection(key));
        let Some(run) = self.runs.get_mut(&connection.run) else { return };
        run.connections.remove(&key);
        let (sent, received) = connection.moved();
        run.tally.moved(connection.place, sent, received);
        if let Some(why) = why {
            run.tally.failed(connection.place, why);
            connection.reset();
        }
    }
}
