//! The wire between a client and `lilux-proc serve`. This file defines it on the Rust side; `docs/protocol.md` is its text.
//!
//! Frames are cut and requests parsed here, from bytes, without any I/O.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::{Fatal, FrameError, RequestError, SpawnError};
use crate::text::OsText;

pub const PROTOCOL: u32 = 1;
pub const CAPABILITIES: [&str; 8] =
    ["run", "input", "cancel", "credit", "kill", "status", "spool", "result_fd"];
pub const MAX_HEADER: usize = 8 * 1024 * 1024;
pub const MAX_PAYLOAD: usize = 64 * 1024;
/// Bytes of standard input that a client may have in flight for one run.
pub const INPUT_WINDOW: usize = 256 * 1024;
pub const DEFAULT_MAX_OUTPUT: u64 = 1024 * 1024;
const OUTPUT_LIMITS: std::ops::RangeInclusive<u64> = 1024..=64 * 1024 * 1024;
const MAX_TIMEOUT_MS: u64 = 365 * 24 * 3600 * 1000;
const PREFIX: usize = 8;

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
}

fn default_stream_interval() -> u64 {
    100
}

/// What to run, as the client said it. `Command::prepare` turns it into something that can be started.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRequest {
    #[serde(default)]
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
    #[serde(default)]
    pub spool: Option<SpoolRequest>,
    #[serde(default)]
    pub stream: Option<StreamRequest>,
    #[serde(default)]
    pub notify: bool,
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
            spool: None,
            stream: None,
            notify: false,
        }
    }
}

impl RunRequest {
    /// Refuses numbers outside their documented limits.
    pub fn check(&self) -> Result<(), RequestError> {
        let refuse = |message: String| Err(RequestError::new("invalid_request", "run", message));
        if !OUTPUT_LIMITS.contains(&self.max_output) {
            let (low, high) = (OUTPUT_LIMITS.start(), OUTPUT_LIMITS.end());
            return refuse(format!("max_output must be {low} to {high} bytes, not {}", self.max_output));
        }
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
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputRequest {
    pub id: u64,
    #[serde(default)]
    pub eof: bool,
}

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

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreditRequest {
    pub id: u64,
    pub bytes: u64,
}

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

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatusRequest {
    pub id: u64,
    #[serde(default)]
    pub run: Option<u64>,
    #[serde(default)]
    pub pid: Option<i64>,
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
    pub const ALL: [Self; 3] = [Self::Stdout, Self::Stderr, Self::Result];

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
}

/// Whether everything that the run started is gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cleanup {
    pub state: CleanupState,
    pub pids: Vec<i32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CleanupState {
    Complete,
    Incomplete,
}

impl Cleanup {
    pub fn of(survivors: Vec<i32>) -> Self {
        let state = if survivors.is_empty() { CleanupState::Complete } else { CleanupState::Incomplete };
        Self { state, pids: survivors }
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
}

/// Every event that the supervisor sends; a payload travels beside it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    Hello {
        protocol: u32,
        version: &'static str,
        capabilities: [&'static str; 8],
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
    Error {
        id: Option<u64>,
        code: String,
        stage: String,
        errno: Option<i32>,
        message: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KillMethod {
    Terminated,
    Killed,
    AlreadyDead,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Status {
    Pid { pid: i64, alive: bool },
    Run { run: u64, state: &'static str },
    Supervisor { pid: i32, warden: i32, runs: usize, keepers: usize, idle_keepers: usize },
}

impl Event {
    pub fn hello() -> Self {
        let version = env!("CARGO_PKG_VERSION");
        Self::Hello { protocol: PROTOCOL, version, capabilities: CAPABILITIES }
    }

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

/// A frame's header as sent, ready to be followed by its payload.
pub fn encode_head(event: &Event, payload_length: usize) -> Vec<u8> {
    debug_assert!(payload_length <= MAX_PAYLOAD);
    let mut frame = vec![0; PREFIX];
    serde_json::to_writer(&mut frame, event).expect("events hold nothing that JSON cannot");
    let header_length = (frame.len() - PREFIX) as u32;
    frame[..4].copy_from_slice(&header_length.to_be_bytes());
    frame[4..PREFIX].copy_from_slice(&(payload_length as u32).to_be_bytes());
    frame
}

/// A request with its payload, or why that one request is refused.
#[derive(Debug, PartialEq, Eq)]
pub struct Incoming {
    pub id: u64,
    pub request: Result<Request, RequestError>,
    pub payload: Vec<u8>,
}

#[derive(Deserialize)]
struct Envelope {
    id: u64,
}

fn parse(header: &[u8], payload: &[u8]) -> Result<Incoming, FrameError> {
    let payload = payload.to_vec();
    match serde_json::from_slice::<Request>(header) {
        Ok(request) => Ok(Incoming { id: request.id(), request: Ok(request), payload }),
        Err(error) => {
            // Without an id there is nobody to answer, so the frame itself counts as broken.
            let envelope: Envelope =
                serde_json::from_slice(header).map_err(|_| FrameError::Malformed(error.to_string()))?;
            let refusal = RequestError::new("invalid_request", "request", error.to_string());
            Ok(Incoming { id: envelope.id, request: Err(refusal), payload })
        }
    }
}

impl Request {
    pub fn id(&self) -> u64 {
        match self {
            Self::Run(request) => request.id,
            Self::Input(request) => request.id,
            Self::Cancel(request) => request.id,
            Self::Credit(request) => request.id,
            Self::Kill(request) => request.id,
            Self::Status(request) => request.id,
        }
    }
}

/// Cuts a stream of bytes into requests.
#[derive(Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    start: usize,
}

impl Decoder {
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.start);
        self.start = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame, if there is one.
    pub fn next(&mut self) -> Result<Option<Incoming>, FrameError> {
        let waiting = &self.buffer[self.start..];
        let Some((header_length, payload_length)) = lengths(waiting)? else {
            return Ok(None);
        };
        let (payload_start, end) = (PREFIX + header_length, PREFIX + header_length + payload_length);
        if waiting.len() < end {
            return Ok(None);
        }
        let incoming = parse(&waiting[PREFIX..payload_start], &waiting[payload_start..end]);
        self.start += end;
        self.release();
        incoming.map(Some)
    }

    /// To be called at end of file: an unfinished frame is an error.
    pub fn finish(&self) -> Result<(), FrameError> {
        let waiting = &self.buffer[self.start..];
        let missing = match lengths(waiting)? {
            _ if waiting.is_empty() => return Ok(()),
            None => PREFIX - waiting.len(),
            Some((header, payload)) => PREFIX + header + payload - waiting.len(),
        };
        Err(FrameError::Truncated { missing })
    }

    /// One huge request must not leave its memory behind for good.
    fn release(&mut self) {
        if self.start == self.buffer.len() && self.buffer.capacity() > 1024 * 1024 {
            self.buffer = Vec::new();
            self.start = 0;
        }
    }
}

fn lengths(waiting: &[u8]) -> Result<Option<(usize, usize)>, FrameError> {
    let Some((prefix, _)) = waiting.split_first_chunk::<PREFIX>() else {
        return Ok(None);
    };
    let [a, b, c, d, e, f, g, h] = *prefix;
    let (header, payload) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
    for (part, found, limit) in [("header", header, MAX_HEADER), ("payload", payload, MAX_PAYLOAD)] {
        if found as usize > limit {
            return Err(FrameError::TooLarge { part, found, limit });
        }
    }
    Ok(Some((header as usize, payload as usize)))
}
