//! `lilux-proc exec`: one run, one JSON object.
//!
//! The same engine as behind `serve`, with this process as its only client. A termination signal, or a reader of our
//! output that goes away, cancels the run with the usual grace.

use rustix::event::epoll::EventFlags;
use rustix::stdio::stdout;
use serde::Serialize;

use crate::capture::Kept;
use crate::door::report::Network;
use crate::engine::{Engine, Notice};
use crate::error::{Fatal, SpawnError};
use crate::observe::Observed;
use crate::policy::Enforced;
use crate::poller::Token;
use crate::protocol::{
    CancelRequest, Cleanup, Event, Kind, Request, RunRequest, RunResult, StreamCounts, Usage,
};
use crate::switches::Guard;
use crate::sys;
use crate::sys::launch::Limits;

const OWN_OUTPUT: u32 = 0;
/// The id of the only run there is.
pub const RUN: u64 = 1;
const CANCEL_GRACE_MS: u64 = 500;

/// What is printed.
#[derive(Debug, Serialize)]
pub struct Answer {
    success: bool,
    kind: Kind,
    return_code: i32,
    signal: Option<i32>,
    pid: Option<i32>,
    stdout: String,
    stderr: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<String>,
    encoding: Encodings,
    truncated: bool,
    duration_ms: f64,
    usage: Usage,
    output: Counts,
    cleanup: Cleanup,
    error: Option<SpawnError>,
    #[serde(skip_serializing_if = "Option::is_none")]
    enforced: Option<Enforced>,
    #[serde(skip_serializing_if = "Option::is_none")]
    network: Option<Network>,
    #[serde(skip_serializing_if = "Option::is_none")]
    observed: Option<Observed>,
}

/// `utf-8`, or `lossy` where bytes had to be replaced.
#[derive(Debug, Serialize)]
struct Encodings {
    stdout: &'static str,
    stderr: &'static str,
}

#[derive(Debug, Serialize)]
struct Counts {
    stdout: StreamCounts,
    stderr: StreamCounts,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<StreamCounts>,
}

/// Runs it to its end. `input` is the tool's whole standard input, if the request says `data`.
pub fn run(mut request: RunRequest, input: &[u8]) -> Result<Answer, Fatal> {
    request.id = RUN;
    let timeout_ms = request.timeout_ms;
    sys::check_kernel()?;
    let limits = Limits { descriptors: sys::raise_descriptor_limit() };
    sys::become_guardian(c"lilux-exec", Guard::ServeSubreaper).map_err(Fatal::system("guardian"))?;
    let mut engine = Engine::new(limits)?;
    // The keeper gets ready while the pipes are made.
    engine.warm_up()?;
    engine.request(Request::Run(Box::new(request)), input, Vec::new());
    let (result, kept) = wait(&mut engine)?;
    // Waits for the keeper: under a process 1 that never reaps, it would stay a zombie.
    engine.shut_down();
    Ok(answer(result, kept, timeout_ms))
}

type Ended = (RunResult, [Option<Kept>; 3]);

fn wait(engine: &mut Engine) -> Result<Ended, Fatal> {
    // Pipes and terminals say when their reader goes. A file has no reader, and epoll refuses it: then there is nothing to see.
    let watched = engine.poller().add(stdout(), Token::Face(OWN_OUTPUT), EventFlags::empty()).is_ok();
    loop {
        for notice in engine.take_notices() {
            match notice {
                Notice::Closed { result, kept, .. } => return Ok((*result, *kept)),
                Notice::Event(Event::Error { message, .. }) => return Err(Fatal::Usage(message)),
                Notice::Event(_) | Notice::Output { .. } => {}
            }
        }
        let turn = engine.turn()?;
        let gone = turn.faces.iter().any(|(_, flags)| flags.intersects(EventFlags::ERR | EventFlags::HUP));
        if gone && watched {
            engine.poller().remove(stdout());
        }
        if gone || turn.stop {
            let cancel = CancelRequest { id: RUN, grace_ms: CANCEL_GRACE_MS };
            engine.request(Request::Cancel(cancel), &[], Vec::new());
        }
    }
}

fn answer(result: RunResult, kept: [Option<Kept>; 3], timeout_ms: Option<u64>) -> Answer {
    let [stdout, stderr, third] =
        kept.map(|kept| kept.map_or((String::new(), "utf-8"), |kept| text_of(&kept)));
    let mut errors = stderr.0;
    if let Some(sentence) = explanation(&result, timeout_ms) {
        if !errors.is_empty() && !errors.ends_with('\n') {
            errors.push('\n');
        }
        errors.push_str(&sentence);
    }
    Answer {
        success: result.kind == Kind::Exited && result.return_code == 0,
        kind: result.kind,
        return_code: result.return_code,
        signal: result.signal,
        pid: result.pid,
        stdout: stdout.0,
        stderr: errors,
        result: result.result.map(|_| third.0),
        encoding: Encodings { stdout: stdout.1, stderr: stderr.1 },
        truncated: result.truncated,
        duration_ms: result.duration_ms,
        usage: result.usage,
        output: Counts { stdout: result.stdout, stderr: result.stderr, result: result.result },
        cleanup: result.cleanup,
        error: result.error,
        enforced: result.enforced,
        network: result.network,
        observed: result.observed,
    }
}

/// What the tool could not say itself.
fn explanation(result: &RunResult, timeout_ms: Option<u64>) -> Option<String> {
    match (result.kind, &result.error, timeout_ms) {
        (Kind::SpawnFailed, Some(error), _) => Some(format!("Failed to spawn: {error}")),
        (Kind::Timeout, _, Some(limit)) => {
            Some(format!("Command timed out after {} seconds", limit as f64 / 1e3))
        }
        _ => None,
    }
}

/// Decoded once, with a visible mark where something was left out.
fn text_of(kept: &Kept) -> (String, &'static str) {
    let region: &[u8] = kept.region.as_deref().map_or(&[], |region| region);
    let mut bytes = Vec::new();
    for (index, piece) in kept.pieces.iter().enumerate() {
        if index == 1 {
            bytes.extend_from_slice(format!("\n[… {} bytes omitted …]\n", kept.counts.omitted).as_bytes());
        }
        bytes.extend_from_slice(&region[piece.clone()]);
    }
    match String::from_utf8(bytes) {
        Ok(text) => (text, "utf-8"),
        Err(error) => (String::from_utf8_lossy(error.as_bytes()).into_owned(), "lossy"),
    }
}
