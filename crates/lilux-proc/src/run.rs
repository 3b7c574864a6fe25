//! One run as the supervisor sees it: descriptors, phase, and the result made of them.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::process::Pid;

use crate::capture::Kept;
use crate::channel::{Input, Output, Spool, input_pipe, output_pipe, own_input};
use crate::error::{RequestError, SpawnError};
use crate::policy::{Enforced, Policy, Tier};
use crate::poller::Key;
use crate::protocol::{
    CallRequest, Cleanup, Event, Kind, RunRequest, RunResult, Stdin, Stream, StreamCounts, StreamRequest,
    Usage,
};
use crate::sys::pidfd::poll_until;
use crate::sys::wait::Ending;
use crate::wire::{Cause, EndReport};

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It waits for its call.
    Parked,
    Running,
    /// The tool is gone; what it left behind may still write.
    Draining,
    /// The keeper has been told to finish, or has.
    Finishing,
}

/// What a zygote was started with.
pub struct Profile(Option<Policy>);

impl Profile {
    /// Everything in a cell of its own has its own view of the files. All else comes with the zygote.
    pub fn fits(&self, policy: Option<&Policy>, level: Option<Tier>) -> bool {
        match (&self.0, policy, level) {
            (Some(own), Some(policy), Some(Tier::Cell)) => {
                let of = |policy: &Policy| (policy.tier, policy.limits);
                of(own) == of(policy) && own.net == policy.net && own.devices == policy.devices
            }
            (own, policy, _) => own.as_ref() == policy,
        }
    }
}

/// The client's wish to see output as it comes.
pub struct Watch {
    pub credit: u64,
    pub interval: Duration,
    pub next_at: Instant,
    pub sequence: u64,
    pub alarm_set: bool,
    pub whole: bool,
}

impl Watch {
    fn new(request: &StreamRequest) -> Self {
        let interval = Duration::from_millis(request.interval_ms);
        Self {
            credit: request.credit,
            interval,
            next_at: Instant::now(),
            sequence: 0,
            alarm_set: false,
            whole: request.whole,
        }
    }
}

/// A run in flight.
pub struct Run {
    pub id: u64,
    pub keeper: Key,
    pub phase: Phase,
    pub outputs: [Option<Output>; 3],
    pub input: Option<Input>,
    /// Where the call of a parked process goes; open until it has come.
    parked: Option<OwnedFd>,
    /// Of a zygote: what everything that is forked from it may do.
    pub profile: Option<Profile>,
    /// Its pid, and what is enforced, once it was started.
    pub tool: Option<(i32, Option<Enforced>)>,
    /// The call, on its way.
    pub call: Option<Input>,
    pub watch: Option<Watch>,
    pub notify: bool,
    /// `started` has been sent, or was not asked for: it comes before any output.
    pub announced: bool,
    /// Until then, only the last event of the run is sent.
    pub quiet_until: Option<Instant>,
    /// Set when the client broke the rules: the run ends with this instead of a result.
    pub refusal: Option<RequestError>,
    /// `kill` requests that are answered when the run is gone.
    pub killers: Vec<u64>,
    /// When the keeper is given up on; the alarm that is set for it.
    pub overdue_at: Option<Instant>,
    /// The door that leads to its hosts.
    pub door: Option<Pid>,
    started: Instant,
}

/// The tool's ends of the pipes, to be passed to a keeper and closed here.
pub struct ToolEnds {
    stdin: Option<OwnedFd>,
    outputs: Vec<OwnedFd>,
    /// What the client passes on, in the order of their places.
    further: Vec<OwnedFd>,
    /// The door, for its keeper.
    pub door: Option<OwnedFd>,
}

impl ToolEnds {
    /// In the order of their places; the door comes last.
    pub fn borrowed(&self) -> Vec<BorrowedFd<'_>> {
        let streams = self.stdin.iter().chain(&self.outputs);
        streams.chain(&self.further).chain(&self.door).map(AsFd::as_fd).collect()
    }

    /// The tool gets a standard input of its own.
    pub fn has_stdin(&self) -> bool {
        self.stdin.is_some()
    }
}

impl Run {
    /// Opens everything that the run needs and that may not be there; nothing has been started yet.
    pub fn open(
        request: &RunRequest,
        payload: &[u8],
        passed: Vec<OwnedFd>,
    ) -> Result<(Self, ToolEnds), SpawnError> {
        let further = request.in_order(passed);
        let mut ends = ToolEnds { stdin: None, outputs: Vec::with_capacity(3), further, door: None };
        let mut outputs = [const { None }; 3];
        let streams = if request.result_fd { &Stream::ALL[..] } else { &Stream::ALL[..2] };
        for stream in streams {
            let spool = request.spool.as_ref().map(|spool| Spool::open(spool, *stream)).transpose()?;
            let (ours, theirs) = output_pipe(*stream)?;
            ends.outputs.push(theirs);
            outputs[*stream as usize] = Some(Output::new(ours, request, spool));
        }
        let (mut input, mut parked) = (None, None);
        if request.park.is_some() {
            let (theirs, ours) = input_pipe()?;
            ends.stdin = Some(theirs);
            input = Some(Input::new(ours, &[], false));
            let (theirs, ours) = input_pipe()?;
            ends.further.push(theirs);
            parked = Some(ours);
        }
        match request.stdin {
            Stdin::Null => {}
            Stdin::Own => ends.stdin = Some(own_input()?),
            Stdin::Data | Stdin::Pipe => {
                let (theirs, ours) = input_pipe()?;
                ends.stdin = Some(theirs);
                input = Some(Input::new(ours, payload, request.stdin == Stdin::Data));
            }
        }
        let run = Self {
            id: request.id,
            keeper: 0,
            phase: if parked.is_some() { Phase::Parked } else { Phase::Running },
            outputs,
            input,
            parked,
            profile: request.prepare.then(|| Profile(request.policy.clone())),
            tool: None,
            call: None,
            watch: request.stream.as_ref().map(Watch::new),
            notify: request.notify,
            announced: !request.notify,
            quiet_until: None,
            refusal: None,
            killers: Vec::new(),
            overdue_at: None,
            door: None,
            started: Instant::now(),
        };
        Ok((run, ends))
    }

    /// Whether nobody is left who could read the call: what was parked has ended, and its keeper has not said so yet.
    pub fn is_deserted(&self) -> bool {
        let Some(pipe) = &self.parked else { return false };
        let mut watched = [PollFd::new(pipe, PollFlags::empty())];
        poll_until(&mut watched, Some(Instant::now())).is_ok()
            && watched[0].revents().contains(PollFlags::ERR)
    }

    /// Hands a parked process its call. What it has written before counts as its own.
    pub fn begin_call(&mut self, request: &CallRequest, payload: &[u8]) -> Result<(), SpawnError> {
        let run = request.as_run();
        let spools = Stream::ALL.map(|stream| run.spool.as_ref().map(|spool| Spool::open(spool, stream)));
        for (stream, spool) in Stream::ALL.into_iter().zip(spools) {
            let (spool, output) = (spool.transpose()?, &mut self.outputs[stream as usize]);
            if let Some(pipe) = output.as_mut().and_then(|output| output.pipe.take()) {
                *output = Some(Output::new(pipe, &run, spool));
            }
        }
        let pipe = self.input.take().and_then(|input| input.pipe).filter(|_| run.stdin != Stdin::Null);
        self.input = pipe.map(|pipe| Input::new(pipe, payload, run.stdin == Stdin::Data));
        self.call = self.parked.take().map(|pipe| Input::new(pipe, &request.message(), true));
        self.watch = run.stream.as_ref().map(Watch::new);
        (self.notify, self.announced) = (run.notify, !run.notify);
        (self.phase, self.started) = (Phase::Running, Instant::now());
        Ok(())
    }

    /// The client wants all of this stream, and cannot take another read of it now.
    pub fn must_wait(&self, stream: Stream, read: usize) -> bool {
        let output = self.outputs[stream as usize].as_ref();
        self.watch.as_ref().is_some_and(|watch| {
            watch.whole && (watch.credit < read as u64 || output.is_some_and(Output::has_pending))
        })
    }

    /// Every stream has been read to its end.
    pub fn is_drained(&self) -> bool {
        self.outputs.iter().flatten().all(|output| output.pipe.is_none())
    }

    /// Ends the run: its result, and the bytes beside it.
    pub fn close(self, outcome: Outcome) -> (RunResult, [Option<Kept>; 3]) {
        let kept = self.outputs.map(|output| output.map(Output::finish));
        let counts = |stream: Stream| kept[stream as usize].as_ref().map(|kept| kept.counts);
        let result = RunResult {
            duration_ms: self.started.elapsed().as_secs_f64() * 1e3,
            stdout: counts(Stream::Stdout).unwrap_or_default(),
            stderr: counts(Stream::Stderr).unwrap_or_default(),
            result: counts(Stream::Result),
            truncated: kept.iter().flatten().any(|kept| kept.counts.omitted > 0),
            parked: self.parked.is_some(),
            ..RunResult::from(outcome)
        };
        (result, kept)
    }
}

/// How a run came to its end.
pub enum Outcome {
    Ended(Box<EndReport>),
    Failed(SpawnError),
}

impl From<Outcome> for RunResult {
    /// Everything but the streams.
    fn from(outcome: Outcome) -> Self {
        let blank = Self {
            kind: Kind::SpawnFailed,
            pid: None,
            return_code: -1,
            signal: None,
            duration_ms: 0.0,
            usage: Usage::default(),
            stdout: StreamCounts::default(),
            stderr: StreamCounts::default(),
            result: None,
            truncated: false,
            cleanup: Cleanup::of(Vec::new(), 0),
            error: None,
            enforced: None,
            network: None,
            observed: None,
            parked: false,
        };
        match outcome {
            Outcome::Failed(error) => Self { error: Some(error), ..blank },
            Outcome::Ended(end) => {
                let (return_code, signal) = codes(end.ending);
                let kind = match (end.cause, end.ending) {
                    (Some(Cause::Timeout), _) => Kind::Timeout,
                    (Some(Cause::Cancelled), _) => Kind::Cancelled,
                    (None, Ending::Code(_)) => Kind::Exited,
                    (None, Ending::Signal(_)) => Kind::Signaled,
                };
                let return_code = if kind == Kind::Timeout { -1 } else { return_code };
                let cleanup = Cleanup::of(end.survivors, end.left_running);
                let (pid, usage, enforced) = (Some(end.pid), end.usage, end.enforced);
                let (network, observed) = (end.network, end.observed);
                Self { kind, pid, return_code, signal, usage, cleanup, enforced, network, observed, ..blank }
            }
        }
    }
}

/// `(return code, signal)`: −N stands for signal N.
fn codes(ending: Ending) -> (i32, Option<i32>) {
    match ending {
        Ending::Code(code) => (code, None),
        Ending::Signal(signal) => (-signal, Some(signal)),
    }
}

/// The event that says how the tool itself ended.
pub fn exited(id: u64, ending: Ending) -> Event {
    let (return_code, signal) = codes(ending);
    Event::Exited { id, return_code, signal }
}
