//! What a run did at the door: connections, bytes, and what was refused.

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

/// Hosts, and refused names, that a report names; what is more is counted together.
const MAX_NAMED: usize = 64;
/// Stands for all hosts that are not named.
const OTHERS: &str = "*";

/// Said when a run ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// Names were answered in the run's namespace, and these ports were listened at: what the door confirms, or its
    /// keeper of a run that has not come to the door.
    pub served: bool,
    pub ports: Vec<u16>,
    pub hosts: Vec<HostTraffic>,
    /// Names that were asked for and are not allowed, with how often.
    pub refused: Vec<(String, u64)>,
    /// Questions for further such names.
    pub refused_beyond: u64,
    /// Connections to addresses that stand for no allowed host.
    pub strays: u64,
    /// Where every host may be reached: names that were looked up, and the addresses that stood for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<(String, Ipv4Addr)>,
}

impl Network {
    /// Nothing has asked for a name, or has connected.
    pub fn unused(served: bool, ports: &[u16]) -> Self {
        Self { served, ports: if served { ports.to_vec() } else { Vec::new() }, ..Self::default() }
    }
}

/// One host, at one port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostTraffic {
    pub host: String,
    pub port: u16,
    pub connections: u64,
    pub sent: u64,
    pub received: u64,
    /// Why connections failed, with how often.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failed: BTreeMap<String, u64>,
}

/// Collects a report.
#[derive(Default)]
pub struct Tally {
    report: Network,
    places: HashMap<(String, u16), usize>,
    refused: HashMap<String, usize>,
}

impl Tally {
    /// Names are answered, and these ports are listened at.
    pub fn serves(&mut self, ports: Vec<u16>) {
        self.report.served = true;
        self.report.ports = ports;
    }

    /// Somebody connected to a host; what else happens is told under the number that is returned.
    pub fn connection(&mut self, host: &str, port: u16) -> usize {
        let named = (host.to_owned(), port);
        let key = if self.places.len() < MAX_NAMED || self.places.contains_key(&named) {
            named
        } else {
            (OTHERS.to_owned(), 0)
        };
        let hosts = &mut self.report.hosts;
        let place = *self.places.entry(key.clone()).or_insert_with(|| {
            let (host, port) = key;
            hosts.push(HostTraffic { host, port, ..HostTraffic::default() });
            hosts.len() - 1
        });
        hosts[place].connections += 1;
        place
    }

    /// So many bytes went to the host, and came from it.
    pub fn moved(&mut self, place: usize, sent: u64, received: u64) {
        let host = &mut self.report.hosts[place];
        host.sent += sent;
        host.received += received;
    }

    /// A connection did not come about, or broke.
    pub fn failed(&mut self, place: usize, why: &str) {
        *self.report.hosts[place].failed.entry(why.to_owned()).or_default() += 1;
    }

    /// A name has been looked up, and this address stands for it.
    pub fn named(&mut self, name: &str, address: Ipv4Addr) {
        let names = &mut self.report.names;
        if names.len() < MAX_NAMED && !names.iter().any(|(known, _)| known == name) {
            names.push((name.to_owned(), address));
        }
    }

    /// Somebody asked for a name that is not allowed.
    pub fn refused(&mut self, name: String) {
        if let Some(place) = self.refused.get(&name) {
            self.report.refused[*place].1 += 1;
        } else if self.refused.len() < MAX_NAMED {
            self.refused.insert(name.clone(), self.report.refused.len());
            self.report.refused.push((name, 1));
        } else {
            self.report.refused_beyond += 1;
        }
    }

    /// Somebody connected to an address that stands for nothing.
    pub fn stray(&mut self) {
        self.report.strays += 1;
    }

    /// Everything that was told.
    pub fn finish(self) -> Network {
        self.report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_names_so_many_and_counts_the_rest() {
        let mut tally = Tally::default();
        for number in 0..100 {
            tally.refused(format!("{number}.example"));
            tally.refused("0.example".to_owned());
            let place = tally.connection(&format!("{number}.example"), 443);
            tally.moved(place, 1, 2);
            tally.failed(place, "loopback");
        }
        let report = tally.finish();
        assert_eq!((report.refused.len(), report.refused_beyond), (MAX_NAMED, 36));
        assert_eq!(report.refused[0], ("0.example".to_owned(), 101));
        let last = report.hosts.last().expect("a host");
        assert_eq!((report.hosts.len(), last.host.as_str(), last.connections), (MAX_NAMED + 1, OTHERS, 36));
        assert_eq!((last.sent, last.received, last.failed["loopback"]), (36, 72, 36));
    }

    #[test]
    fn the_longest_report_fits_a_message() {
        let mut tally = Tally::default();
        for number in 0..1000 {
            let name = format!("{number:0>253}");
            tally.refused(name.clone());
            tally.named(&name, Ipv4Addr::BROADCAST);
            let place = tally.connection(&name, 65535);
            tally.failed(place, "a service of the cloud that hosts this machine");
            tally.moved(place, u64::MAX / 2000, u64::MAX / 2000);
        }
        let bytes = serde_json::to_vec(&tally.finish()).expect("JSON");
        assert!(bytes.len() < super::super::channel::BUFFER, "{}", bytes.len());
    }
}
