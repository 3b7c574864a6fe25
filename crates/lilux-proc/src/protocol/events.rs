//! What the supervisor says: events, and the result of a run.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

use super::{CAPABILITIES, PROTOCOL};
use crate::confine::Facts;
use crate::door::report::Network;
use crate::error::{Fatal, FrameError, RequestError, SpawnError};
use crate::observe::Observed;
use crate::policy::Enforced;

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
    /// It was parked and has never got a call.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub parked: bool,
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
        /// As in the result; nothing when the request had no policy.
        #[serde(skip_serializing_if = "Option::is_none")]
        enforced: Option<Enforced>,
    },
    /// It waits for its call, or to be forked.
    Parked {
        id: u64,
        pid: i32,
        #[serde(skip_serializing_if = "Option::is_none")]
        enforced: Option<Enforced>,
        /// What a zygote takes of the memory, in KiB, when it was last measured: its own, or that of the one it comes from.
        #[serde(skip_serializing_if = "Option::is_none")]
        memory_kb: Option<u64>,
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
