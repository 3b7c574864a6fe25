//! `lilux-proc spawn`: starts a process that is meant to outlive whoever asked for it.
//!
//! No subreaper stands above it, it leads a session of its own, and its standard input is `/dev/null`.

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

use crate::command::Command;
use crate::error::{Fatal, SpawnError};
use crate::protocol::RunRequest;
use crate::sys::launch::{Limits, Places};
use crate::sys::{self, fd, signals};
use crate::text::OsText;

/// What to start, and where its output goes: appended to `log`, or nowhere.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpawnRequest {
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
    pub log: Option<OsText>,
}

/// What is printed.
#[derive(Debug, Serialize)]
pub struct Answer {
    success: bool,
    pid: Option<i32>,
    error: Option<SpawnError>,
}

/// Starts it; that it could not be started is an answer too.
pub fn run(request: SpawnRequest) -> Result<Answer, Fatal> {
    sys::check_kernel()?;
    signals::block_all().map_err(Fatal::system("signals"))?;
    Ok(match start(request) {
        Ok(pid) => Answer { success: true, pid: Some(pid), error: None },
        Err(error) => Answer { success: false, pid: None, error: Some(error) },
    })
}

fn start(request: SpawnRequest) -> Result<i32, SpawnError> {
    let log = request.log.clone();
    let command = Command::prepare(&RunRequest {
        command: request.command,
        args: request.args,
        cwd: request.cwd,
        env: request.env,
        search_path: request.search_path,
        ..RunRequest::default()
    })?;
    let resources = |errno| SpawnError::resources("spawn", errno);
    let input = fd::open_null().and_then(fd::above_fixed_places).map_err(resources)?;
    let output = match log {
        Some(path) => open_log(&path)?,
        None => fd::open_null().and_then(fd::above_fixed_places).map_err(resources)?,
    };
    let limits = Limits { descriptors: sys::descriptor_limit() };
    let first = &[input.as_raw_fd(), output.as_raw_fd(), output.as_raw_fd()];
    let pid = command.start(Places { first, further: &[] }, &limits)?.leader;
    Ok(pid.as_raw_nonzero().get())
}

fn open_log(path: &OsText) -> Result<OwnedFd, SpawnError> {
    // Opening a FIFO would wait for a reader, perhaps for ever; without one it is refused instead.
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let opened = rustix::fs::open(path.0.as_slice(), flags, Mode::RUSR | Mode::WUSR);
    let blocking = opened.and_then(|log| {
        rustix::fs::fcntl_setfl(&log, OFlags::APPEND)?;
        fd::above_fixed_places(log)
    });
    blocking.map_err(|errno| {
        let message = format!("log file {}: {errno}", path.shown());
        SpawnError::new("log_failed", "log", Some(errno), message)
    })
}
