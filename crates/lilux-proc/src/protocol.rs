//! The wire between a client and `lilux-proc serve`. This file defines it on the Rust side; `docs/protocol.md` is its text.
//!
//! `frames` cuts the stream into these messages. Nothing here does any I/O.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

use crate::confine::Facts;
use crate::door::report::Network;
use crate::error::{Fatal, FrameError, RequestError, SpawnError};
use crate::observe::{ObserveRequest, Observed};
use crate::policy::{Enforced, Policy};
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
    #[serde(default)]
    pub policy: Option<Policy>,
    /// Tell what the tool named: files, programs, addresses.
    #[serde(default)]
    pub observe: Option<ObserveRequest>,
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
            policy: None,
            observe: None,
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

/// One of the tool's captured descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    Stdout,
    Stderr,
    Result,
}

impl Stream {
    /// In the order of the descriptors 1, 2, 3.
    pub const ALL: [Self; 3] = [Self::Stdout, Self::Stderr, Self::Result];

    /// As on the wire.
    pub fn name(self) -> &'static str {
        ["stdout", "stderr", "result"][self as usize]
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Exited,
    Signaled,
    Timeout,
    Cancelled,
    SpawnFailed,
}

/// What the tool and its reaped children used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    pub user_ms: f64,
    pub system_ms: f64,
    pub max_rss_kb: i64,
}

/// What became of the bytes of one stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StreamCounts {
    pub kept: u64,
    pub head: u64,
    pub total: u64,
    pub omitted: u64,
    pub spooled: u64,
    pub lost: u64,
    /// Of all bytes of the stream, including those left out; only if the request asked for `digests`.
    pub sha256: Option<Sha256Sum>,
}

/// A digest, in hexadecimal on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sha256Sum(pub [u8; 32]);

impl Serialize for Sha256Sum {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for Sha256Sum {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

/// Whether everything that the run started is gone, and how many processes were ended that the tool had left running.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cleanup {
    pub state: CleanupState,
    pub pids: Vec<i32>,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub ended: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// `incomplete` names survivors beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CleanupState {
    Complete,
    Incomplete,
}

impl Cleanup {
    /// Complete, when there are no survivors.
    pub fn of(survivors: Vec<i32>, ended: usize) -> Self {
        let state = if survivors.is_empty() { CleanupState::Complete } else { CleanupState::Incomplete };
        Self { state, pids: survivors, ended }
    }
}

/// The result of a run; the bytes of its streams travel beside it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunResult {
    pub kind: Kind,
    pub pid: Option<i32>,
    pub return_code: i32,
    pub signal: Option<i32>,
    pub duration_ms: f64,
    pub usage: Usage,
    pub stdout: StreamCounts,
    pub stderr: StreamCounts,
    pub result: Option<StreamCounts>,
    pub truncated: bool,
    pub cleanup: Cleanup,
    pub error: Option<SpawnError>,
    /// Of the policy of the request; nothing when there was none, or nothing was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enforced: Option<Enforced>,
    /// What the tool did at the door; nothing when there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// What the tool named; nothing unless the request asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed: Option<Observed>,
}

/// Every event that the supervisor sends; a payload travels beside it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    Hello {
        protocol: u32,
        version: &'static str,
        capabilities: &'static [&'static str],
    },
    Started {
        id: u64,
        pid: i32,
    },
    Output {
        id: u64,
        stream: Stream,
        seq: u64,
        skipped: u64,
    },
    Credit {
        id: u64,
        bytes: u64,
    },
    Exited {
        id: u64,
        return_code: i32,
        signal: Option<i32>,
    },
    Captured {
        id: u64,
        stream: Stream,
    },
    Closed {
        id: u64,
        result: Box<RunResult>,
    },
    Killed {
        id: u64,
        pid: Option<i64>,
        method: KillMethod,
    },
    Status {
        id: u64,
        #[serde(flatten)]
        status: Status,
    },
    Probed {
        id: u64,
        facts: Facts,
    },
    Error {
        id: Option<u64>,
        code: String,
        stage: String,
        errno: Option<i32>,
        message: String,
    },
}

/// What it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KillMethod {
    Terminated,
    Killed,
    AlreadyDead,
}

/// The answer to `status`, by what was asked about.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Status {
    Pid { pid: i64, alive: bool },
    Run { run: u64, state: &'static str },
    Supervisor { pid: i32, warden: i32, runs: usize, keepers: usize, idle_keepers: usize },
}

impl Event {
    /// The first event of all.
    pub fn hello() -> Self {
        let version = env!("CARGO_PKG_VERSION");
        Self::Hello { protocol: PROTOCOL, version, capabilities: CAPABILITIES }
    }

    /// Ends one request.
    pub fn refusal(id: u64, error: &RequestError) -> Self {
        Self::Error {
            id: Some(id),
            code: error.code.to_owned(),
            stage: error.stage.to_owned(),
            errno: error.errno,
            message: error.message.clone(),
        }
    }

    /// Nothing can be served at all.
    pub fn unusable(error: &Fatal) -> Self {
        Self::Error {
            id: None,
            code: "stdin_unsupported".to_owned(),
            stage: "start".to_owned(),
            errno: None,
            message: error.to_string(),
        }
    }

    /// Ends the connection.
    pub fn broken(error: &FrameError) -> Self {
        Self::Error {
            id: None,
            code: error.code().to_owned(),
            stage: "frame".to_owned(),
            errno: None,
            message: error.to_string(),
        }
    }
}

impl Request {
    /// The id that the client chose.
    pub fn id(&self) -> u64 {
        match self {
            Self::Run(request) => request.id,
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
