//! Learning what a tool needs: the calls that name files, programs and addresses are looked at before they are made.
//!
//! ```text
//! tool ── call ──> kernel: waits ── notice ──> keeper: reads the names, answers "go on"
//! ```
//!
//! Nothing is decided here. The tool can change what a call names after it has been read, so what is learned is a
//! proposal for a person, and no boundary. The keeper reads, because the tool is its descendant (Yama allows no other).

mod calls;
mod paths;

use std::collections::HashSet;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

pub use calls::LAUNCH;

use crate::confine::compile;
use crate::error::RequestError;
use crate::notify::{self, Mailbox, Post, Tells, Waiting};
use crate::text::OsText;
use calls::Sight;

/// Different facts of one run.
const MAX_FACTS: usize = 512;
/// Of their text, as it stands in a message.
const MAX_BYTES: usize = 32 * 1024;
const MAX_IGNORED: usize = 64;
const MAX_IGNORED_BYTES: usize = 8 * 1024;
/// Calls that are answered before the rest of the keeper's work gets its turn.
const CALLS_IN_A_ROW: usize = 64;

/// What is to be learned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct ObserveRequest {
    /// What is read or written below these paths is no fact.
    pub ignore: Vec<OsText>,
}

impl ObserveRequest {
    /// Refuses more than fits a message to a keeper.
    pub fn check(&self) -> Result<(), RequestError> {
        let bytes: usize = self.ignore.iter().map(|path| path.0.len()).sum();
        if self.ignore.len() > MAX_IGNORED || bytes > MAX_IGNORED_BYTES {
            let message = format!(
                "`observe`: at most {MAX_IGNORED} paths to ignore, with {MAX_IGNORED_BYTES} bytes together"
            );
            return Err(RequestError::new("invalid_request", "run", message));
        }
        Ok(())
    }
}

/// What a call did, or tried to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FactKind {
    Read,
    Write,
    Exec,
    Connect,
}

/// A path without links, or an address with its port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fact {
    pub kind: FactKind,
    pub what: String,
}

/// Everything that was learned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observed {
    pub facts: Vec<Fact>,
    /// Calls that may have said more, and could not be read or kept.
    pub lost: u64,
}

/// Facts in the order in which they were seen, each once.
struct Collection {
    ignore: Vec<Vec<u8>>,
    known: HashSet<Fact>,
    observed: Observed,
    bytes: usize,
}

impl Collection {
    fn new(request: &ObserveRequest) -> Self {
        let ignore = request.ignore.iter().map(|path| path.0.clone()).collect();
        Self { ignore, known: HashSet::new(), observed: Observed::default(), bytes: 0 }
    }

    fn take(&mut self, sight: &Sight) {
        let Sight::Seen(kind, what) = sight else {
            self.observed.lost += 1;
            return;
        };
        if self.is_ignored(*kind, what) {
            return;
        }
        let fact = Fact { kind: *kind, what: String::from_utf8_lossy(what).into_owned() };
        if self.known.contains(&fact) {
            return;
        }
        let size = serde_json::to_string(&fact).map_or(usize::MAX, |text| text.len() + 1);
        if self.known.len() >= MAX_FACTS || size > MAX_BYTES - self.bytes {
            self.observed.lost += 1;
            return;
        }
        self.bytes += size;
        self.known.insert(fact.clone());
        self.observed.facts.push(fact);
    }

    fn is_ignored(&self, kind: FactKind, what: &[u8]) -> bool {
        match kind {
            FactKind::Read if paths::is_of_system(what) => true,
            FactKind::Read | FactKind::Write if paths::is_common_device(what) => true,
            FactKind::Read | FactKind::Write => self.ignore.iter().any(|top| paths::is_below(what, top)),
            FactKind::Exec | FactKind::Connect => false,
        }
    }
}

/// The keeper's half: it answers every call, and keeps what it named.
pub struct Observer {
    mailbox: Option<Mailbox>,
    listener: Option<OwnedFd>,
    collection: Collection,
}

/// Both halves, before the tool is there.
pub fn prepare(request: &ObserveRequest) -> Result<(Observer, Post), Errno> {
    let (mailbox, post) = notify::post(compile(&calls::table()), Tells::AsOftenAsItIsMade)?;
    let collection = Collection::new(request);
    Ok((Observer { mailbox: Some(mailbox), listener: None, collection }, post))
}

impl Observer {
    /// The tool has been started, and has sent where its calls are told.
    pub fn begin(&mut self) -> Result<(), Errno> {
        self.listener = Some(self.mailbox.take().ok_or(Errno::BADF)?.open()?);
        Ok(())
    }

    /// Where calls are told, as long as somebody is left who can make any.
    pub fn listener(&self) -> Option<&OwnedFd> {
        self.listener.as_ref()
    }

    /// Reads and answers the calls that wait.
    pub fn answer(&mut self) {
        for _ in 0..CALLS_IN_A_ROW {
            let Some(listener) = &self.listener else { return };
            match notify::waiting(listener) {
                Waiting::Nothing => return,
                Waiting::Over => self.listener = None,
                Waiting::Call => {
                    let Ok(notice) = notify::receive(listener) else { continue };
                    let sights = calls::look(&notice);
                    // A number may mean another process by now: then nothing was learned from its memory.
                    if notify::is_valid(listener, notice.id) {
                        sights.iter().for_each(|sight| self.collection.take(sight));
                    }
                    notify::go_on(listener, notice.id);
                }
            }
        }
    }

    /// Everything that was learned.
    pub fn finish(self) -> Observed {
        self.collection.observed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(kind: FactKind, what: &str) -> Sight {
        Sight::Seen(kind, what.as_bytes().to_vec())
    }

    #[test]
    fn facts_are_kept_once_and_within_bounds() {
        let mut collection = Collection::new(&ObserveRequest::default());
        for number in 0..MAX_FACTS + 10 {
            collection.take(&seen(FactKind::Read, &format!("/home/ada/{number}")));
            collection.take(&seen(FactKind::Read, "/home/ada/0"));
        }
        assert_eq!((collection.observed.facts.len(), collection.observed.lost), (MAX_FACTS, 10));
        let mut collection = Collection::new(&ObserveRequest::default());
        for number in 0..1000 {
            collection.take(&seen(FactKind::Write, &format!("/{number}/{}", "\u{1}".repeat(4000))));
        }
        let text = serde_json::to_string(&collection.observed).expect("JSON");
        assert!(text.len() < MAX_BYTES + 100 && collection.observed.lost > 990, "{}", text.len());
    }

    #[test]
    fn what_every_tool_reads_is_no_fact_and_what_is_ignored_neither() {
        let request = ObserveRequest { ignore: vec!["/run/copy".into()] };
        let mut collection = Collection::new(&request);
        for path in ["/usr/lib/x", "/etc/hosts", "/proc/self/maps", "/run/copy", "/run/copy/tool.py"] {
            collection.take(&seen(FactKind::Read, path));
        }
        collection.take(&seen(FactKind::Write, "/run/copy/a"));
        assert_eq!(collection.observed, Observed::default());
        for sight in [
            seen(FactKind::Write, "/usr/lib/x"),
            seen(FactKind::Exec, "/usr/bin/git"),
            seen(FactKind::Read, "/run/copyright"),
        ] {
            collection.take(&sight);
        }
        collection.take(&Sight::Unreadable);
        assert_eq!((collection.observed.facts.len(), collection.observed.lost), (3, 1));
    }
}
