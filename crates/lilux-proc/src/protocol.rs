//! The wire between a client and `lilux-proc serve`. This file defines it on the Rust side; `docs/protocol.md` is its text.
//!
//! `frames` cuts the stream into these messages. Nothing here does any I/O.

mod events;

use std::collections::BTreeMap;
use std::os::fd::{OwnedFd, RawFd};

use serde::{Deserialize, Serialize};

pub use events::*;

use crate::error::RequestError;
use crate::observe::ObserveRequest;
use crate::policy::Policy;
use crate::sys::fd::FURTHER_PLACES;
use crate::text::OsText;

/// Raised when an old client could misunderstand.
pub const PROTOCOL: u32 = 1;
/// What a client may count on.
pub const CAPABILITIES: &[&str] = &[
    "run",
    "input",
    "cancel",
    "credit",
    "kill",
    "status",
    "spool",
    "result_fd",
    "digests",
    "policy",
    "probe",
    "observe",
    "descriptors",
    "park",
];
/// A larger header is refused unread.
pub const MAX_HEADER: usize = 8 * 1024 * 1024;
/// Larger data travels in several frames.
pub const MAX_PAYLOAD: usize = 64 * 1024;
/// Bytes of standard input that a client may have in flight for one run.
pub const INPUT_WINDOW: usize = 256 * 1024;
/// Bytes kept of each stream.
pub const DEFAULT_MAX_OUTPUT: u64 = 1024 * 1024;
const OUTPUT_LIMITS: std::ops::RangeInclusive<u64> = 1024..=64 * 1024 * 1024;
const MAX_TIMEOUT_MS: u64 = 365 * 24 * 3600 * 1000;

/// Where the tool's standard input comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stdin {
    #[default]
    Null,
    Data,
    Pipe,
    /// The supervisor's own; only the command line can say so.
    #[serde(skip)]
    Own,
}

/// A directory that takes streams which outgrow their cap.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpoolRequest {
    pub dir: OsText,
    #[serde(default = "default_spool_bytes")]
    pub max_bytes: u64,
}

fn default_spool_bytes() -> u64 {
    64 * 1024 * 1024
}

/// The client wants `output` events, and can take so many bytes of them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamRequest {
    pub credit: u64,
    /// Shortest time between two events; 0 sends whatever comes as it comes.
    #[serde(default = "default_stream_interval")]
    pub interval_ms: u64,
    /// Leave nothing out: without credit the tool is not read from, and waits.
    #[serde(default)]
    pub whole: bool,
}

fn default_stream_interval() -> u64 {
    100
}

/// What to run, as the client said it. `Command::prepare` turns it into something that can be started.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRequest {
    pub id: u64,
    pub command: OsText,
    #[serde(default)]
    pub args: Vec<OsText>,
    #[serde(default)]
    pub cwd: Option<OsText>,
    #[serde(default)]
    pub env: BTreeMap<String, OsText>,
    #[serde(default)]
    pub search_path: Option<OsText>,
    #[serde(default)]
    pub stdin: Stdin,
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    #[serde(default = "default_max_output")]
    pub max_output: u64,
    #[serde(default)]
    pub result_fd: bool,
    /// Hash every byte of every stream; it takes longer than reading them.
    #[serde(default)]
    pub digests: bool,
    #[serde(default)]
    pub spool: Option<SpoolRequest>,
    #[serde(default)]
    pub stream: Option<StreamRequest>,
    #[serde(default)]
    pub notify: bool,
    /// Send no event but the last one before the run has lasted so long.
    #[serde(default)]
    pub quiet_ms: u64,
    #[serde(default)]
    pub policy: Option<Policy>,
    /// Tell what the tool named: files, programs, addresses.
    #[serde(default)]
    pub observe: Option<ObserveRequest>,
    /// The numbers that the descriptors have in the tool which came along with this request.
    #[serde(default)]
    pub descriptors: Vec<RawFd>,
    /// Start it now; what it is to do follows in a `call`.
    #[serde(default)]
    pub park: Option<ParkRequest>,
    /// It waits for no call: it is a zygote, which others are forked from.
    #[serde(default)]
    pub prepare: bool,
    /// The id of the zygote that it is forked from. Nothing else is started, so the command counts for nothing.
    #[serde(default)]
    pub zygote: Option<u64>,
}

/// How a process waits for its call.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParkRequest {
    /// It is ended when it has waited so long.
    #[serde(default = "default_park_limit")]
    pub limit_ms: u64,
    /// A call waits for it: nothing is done first that makes only a later call faster.
    #[serde(default)]
    pub awaited: bool,
}

fn default_park_limit() -> u64 {
    600_000
}

fn default_max_output() -> u64 {
    DEFAULT_MAX_OUTPUT
}

impl Default for RunRequest {
    fn default() -> Self {
        Self {
            id: 0,
            command: OsText::default(),
            args: Vec::new(),
            cwd: None,
            env: BTreeMap::new(),
            search_path: None,
            stdin: Stdin::Null,
            timeout_ms: None,
            max_output: DEFAULT_MAX_OUTPUT,
            result_fd: false,
            digests: false,
            spool: None,
            stream: None,
            notify: false,
            quiet_ms: 0,
            policy: None,
            observe: None,
            descriptors: Vec::new(),
            park: None,
            prepare: false,
            zygote: None,
        }
    }
}

impl RunRequest {
    /// Refuses numbers outside their documented limits, and input for a tool that was to have none.
    pub fn check(&self, payload: &[u8]) -> Result<(), RequestError> {
        let refuse = |message: String| Err(RequestError::new("invalid_request", "run", message));
        if self.stdin == Stdin::Null && !payload.is_empty() {
            return refuse("the payload is standard input; say so with `stdin`".to_owned());
        }
        if !OUTPUT_LIMITS.contains(&self.max_output) {
            let (low, high) = (OUTPUT_LIMITS.start(), OUTPUT_LIMITS.end());
            return refuse(format!("max_output must be {low} to {high} bytes, not {}", self.max_output));
        }
        self.check_descriptors()?;
        match &self.park {
            Some(park) => self.check_parked(park)?,
            None if self.prepare || self.zygote.is_some() => {
                return refuse("a zygote, and what is forked from one, is parked: give `park`".to_owned());
            }
            None => {}
        }
        self.policy.as_ref().map_or(Ok(()), Policy::check)?;
        self.observe.as_ref().map_or(Ok(()), ObserveRequest::check)?;
        match self.timeout_ms {
            Some(limit) if !(1..=MAX_TIMEOUT_MS).contains(&limit) => {
                refuse(format!("timeout_ms must be 1 to {MAX_TIMEOUT_MS}, not {limit}"))
            }
            _ => Ok(()),
        }
    }
}

impl RunRequest {
    /// Where the further descriptors go, ascending.
    pub fn sorted_descriptors(&self) -> Vec<RawFd> {
        let mut places = self.descriptors.clone();
        places.sort_unstable();
        places
    }

    /// What came along with the request, in the order of `sorted_descriptors`.
    pub fn in_order(&self, passed: Vec<OwnedFd>) -> Vec<OwnedFd> {
        let mut placed: Vec<(RawFd, OwnedFd)> = self.descriptors.iter().copied().zip(passed).collect();
        placed.sort_unstable_by_key(|(place, _)| *place);
        placed.into_iter().map(|(_, descriptor)| descriptor).collect()
    }

    /// Everything that belongs to the call comes with the call.
    fn check_parked(&self, park: &ParkRequest) -> Result<(), RequestError> {
        let refuse = |message: String| Err(RequestError::new("invalid_request", "park", message));
        let early = [
            (self.stdin != Stdin::Null, "stdin"),
            (self.timeout_ms.is_some(), "timeout_ms"),
            (self.stream.is_some(), "stream"),
            (self.spool.is_some(), "spool"),
            (self.observe.is_some(), "observe"),
        ];
        if self.prepare && (self.zygote.is_some() || self.result_fd || !self.descriptors.is_empty()) {
            return refuse("a zygote is started, not forked, and has no descriptors of a run".to_owned());
        }
        if let Some((_, name)) = early.into_iter().find(|(given, _)| *given) {
            return refuse(format!("a parked process gets its `{name}` with its call, not before"));
        }
        if !(1..=MAX_TIMEOUT_MS).contains(&park.limit_ms) {
            return refuse(format!("limit_ms must be 1 to {MAX_TIMEOUT_MS}, not {}", park.limit_ms));
        }
        Ok(())
    }

    fn check_descriptors(&self) -> Result<(), RequestError> {
        let places = self.sorted_descriptors();
        let taken = self.result_fd && places.first() == Some(FURTHER_PLACES.start());
        let twice = places.windows(2).any(|pair| pair[0] == pair[1]);
        if taken || twice || !places.iter().all(|place| FURTHER_PLACES.contains(place)) {
            let (low, high) = (FURTHER_PLACES.start(), FURTHER_PLACES.end());
            let message = format!(
                "descriptors must be different numbers from {low} to {high} that are not the result's, not {places:?}"
            );
            return Err(RequestError::new("invalid_request", "run", message));
        }
        Ok(())
    }
}

/// The call of a parked process: what it is to do, and everything that is not known before.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallRequest {
    pub id: u64,
    #[serde(default)]
    pub args: Vec<OsText>,
    #[serde(default)]
    pub cwd: Option<OsText>,
    #[serde(default)]
    pub env: BTreeMap<String, OsText>,
    #[serde(default)]
    pub stdin: Stdin,
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    #[serde(default = "default_max_output")]
    pub max_output: u64,
    #[serde(default)]
    pub digests: bool,
    #[serde(default)]
    pub spool: Option<SpoolRequest>,
    #[serde(default)]
    pub stream: Option<StreamRequest>,
    #[serde(default)]
    pub notify: bool,
    /// Send no event but the last one before the run has lasted so long.
    #[serde(default)]
    pub quiet_ms: u64,
}

/// What a parked process reads, up to the end of file.
#[derive(Serialize)]
struct CallMessage<'a> {
    args: &'a [OsText],
    cwd: Option<&'a OsText>,
    env: &'a BTreeMap<String, OsText>,
    stdin: bool,
}

impl CallRequest {
    /// What the parked process is told.
    pub fn message(&self) -> Vec<u8> {
        let (cwd, stdin) = (self.cwd.as_ref(), self.stdin != Stdin::Null);
        let message = CallMessage { args: &self.args, cwd, env: &self.env, stdin };
        serde_json::to_vec(&message).expect("texts and a flag are JSON")
    }

    /// What the supervisor itself does about it, as for a run that is only started now.
    pub fn as_run(&self) -> RunRequest {
        RunRequest {
            id: self.id,
            stdin: self.stdin,
            timeout_ms: self.timeout_ms,
            max_output: self.max_output,
            digests: self.digests,
            spool: self.spool.clone(),
            stream: self.stream.clone(),
            notify: self.notify,
            quiet_ms: self.quiet_ms,
            ..RunRequest::default()
        }
    }
}

/// A pid or a run, or neither (`status` of the supervisor itself).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Pid(i64),
    Run(u64),
    Supervisor,
}

/// Every request a client can make.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Request {
    Run(Box<RunRequest>),
    Call(Box<CallRequest>),
    Input(InputRequest),
    Cancel(CancelRequest),
    Credit(CreditRequest),
    Kill(KillRequest),
    Status(StatusRequest),
    Probe(ProbeRequest),
}

/// The next piece of standard input; it travels as payload.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputRequest {
    pub id: u64,
    #[serde(default)]
    pub eof: bool,
}

/// End a run: TERM, grace, KILL.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CancelRequest {
    pub id: u64,
    #[serde(default = "default_cancel_grace")]
    pub grace_ms: u64,
}

fn default_cancel_grace() -> u64 {
    500
}

/// The client can take so much more output.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreditRequest {
    pub id: u64,
    pub bytes: u64,
}

/// End a run, or a process that is nobody's run.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KillRequest {
    pub id: u64,
    #[serde(default)]
    pub run: Option<u64>,
    #[serde(default)]
    pub pid: Option<i64>,
    #[serde(default = "default_kill_grace")]
    pub grace_ms: u64,
}

fn default_kill_grace() -> u64 {
    3000
}

/// Ask about a run, a process, or the supervisor.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatusRequest {
    pub id: u64,
    #[serde(default)]
    pub run: Option<u64>,
    #[serde(default)]
    pub pid: Option<i64>,
}

/// Ask what can be enforced here.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbeRequest {
    pub id: u64,
}

/// The one thing that `run` and `pid` together name.
pub fn target(run: Option<u64>, pid: Option<i64>) -> Result<Target, RequestError> {
    match (run, pid) {
        (None, None) => Ok(Target::Supervisor),
        (Some(run), None) => Ok(Target::Run(run)),
        (None, Some(pid)) => Ok(Target::Pid(pid)),
        (Some(_), Some(_)) => {
            Err(RequestError::new("invalid_request", "target", "give `run` or `pid`, not both"))
        }
    }
}

impl Request {
    /// How many descriptors travel with it.
    pub fn descriptors(&self) -> usize {
        match self {
            Self::Run(request) => request.descriptors.len(),
            _ => 0,
        }
    }

    /// The id that the client chose.
    pub fn id(&self) -> u64 {
        match self {
            Self::Run(request) => request.id,
            Self::Call(request) => request.id,
            Self::Input(request) => request.id,
            Self::Cancel(request) => request.id,
            Self::Credit(request) => request.id,
            Self::Kill(request) => request.id,
            Self::Status(request) => request.id,
            Self::Probe(request) => request.id,
        }
    }
}

#[cfg(test)]
mod tests;
