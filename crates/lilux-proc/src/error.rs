//! Everything that can go wrong, as values with a stable code.
//!
//! ```text
//! SpawnError     the tool could not be started; the run ends as `spawn_failed` and carries it
//! RequestError   a request that cannot be carried out; ends that request only
//! FrameError     the stream of frames is broken; ends the supervisor
//! Fatal          this process cannot do its work at all
//! ```

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// Why a tool could not be started: what was attempted (`stage`), what the kernel said, and a sentence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct SpawnError {
    pub code: String,
    pub stage: String,
    pub errno: Option<i32>,
    pub message: String,
}

impl SpawnError {
    /// An error of the given stable code; the message is for people.
    pub fn new(code: &str, stage: &str, errno: Option<Errno>, message: impl Into<String>) -> Self {
        Self {
            code: code.to_owned(),
            stage: stage.to_owned(),
            errno: errno.map(Errno::raw_os_error),
            message: message.into(),
        }
    }

    /// A resource of this process ran out (descriptors, memory, processes) before anything was started.
    pub fn resources(stage: &str, errno: Errno) -> Self {
        Self::new(
            "resource_exhausted",
            stage,
            Some(errno),
            format!("out of system resources while preparing the run ({stage}): {errno}"),
        )
    }
}

/// A request that is refused, or that could not be finished.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RequestError {
    pub code: &'static str,
    pub stage: &'static str,
    pub errno: Option<i32>,
    pub message: String,
}

impl RequestError {
    /// A refusal that the kernel had no part in.
    pub fn new(code: &'static str, stage: &'static str, message: impl Into<String>) -> Self {
        Self { code, stage, errno: None, message: message.into() }
    }

    /// The same, with what the kernel said.
    pub fn with_errno(mut self, errno: Errno) -> Self {
        self.errno = Some(errno.raw_os_error());
        self
    }
}

/// The stream of frames cannot be trusted any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("a frame announces a {part} of {found} bytes; the limit is {limit}")]
    TooLarge { part: &'static str, found: u32, limit: usize },
    #[error("a frame's header is not a request: {0}")]
    Malformed(String),
    #[error("the stream ended in the middle of a frame, {missing} bytes short")]
    Truncated { missing: usize },
}

impl FrameError {
    /// The stable code that the client sees.
    pub fn code(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "frame_too_large",
            Self::Malformed(_) => "malformed_frame",
            Self::Truncated { .. } => "truncated_frame",
        }
    }
}

/// This process cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum Fatal {
    #[error("{what}: {source}")]
    System { what: &'static str, source: Errno },
    #[error(
        "standard {name} cannot be watched ({source}); connect a pipe or a socket, not a file or /dev/null"
    )]
    Unwatchable { name: &'static str, source: Errno },
    #[error("{0}")]
    Usage(String),
}

impl Fatal {
    /// For `map_err`: names what was being done.
    pub fn system(what: &'static str) -> impl FnOnce(Errno) -> Self {
        move |source| Self::System { what, source }
    }
}
