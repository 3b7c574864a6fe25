//! The warden: the first process of `lilux-proc serve`. It only waits.
//!
//! It is the last subreaper of all: when the supervisor ends, by itself or not, everything that is left arrives here and
//! is killed. It also watches the process that started it, because a child of that one may hold the client's socket open
//! after it has died. In the other direction, the supervisor sees the warden's end as the end of a pipe that only the
//! warden holds.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, getppid};

use crate::error::Fatal;
use crate::switches::Guard;
use crate::sys::children::Children;
use crate::sys::pidfd::{ProcessHandle, poll_until};
use crate::sys::signals::{self, SignalQueue};
use crate::sys::wait::{self, Ending, Reap};
use crate::sys::{self, fd};

const KILL_DEADLINE: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Splits this process in two and returns, in the supervisor, the pipe whose end means that the warden is dead.
pub fn split() -> Result<OwnedFd, Fatal> {
    let parent = getppid().filter(|pid| !pid.is_init()).and_then(|pid| ProcessHandle::open(pid).ok());
    signals::block_all().map_err(Fatal::system("signals"))?;
    sys::become_guardian(c"lilux-warden", Guard::Warden).map_err(Fatal::system("guardian"))?;
    let (lifeline, held) = pipe_with(PipeFlags::CLOEXEC).map_err(Fatal::system("pipe"))?;
    match sys::fork().map_err(Fatal::system("fork"))? {
        None => {
            drop((held, parent));
            Ok(lifeline)
        }
        Some(serve) => {
            drop(lifeline);
            let code = Warden::new(serve, parent).map_or(1, |warden| warden.wait());
            drop(held);
            sys::exit_now(code)
        }
    }
}

struct Warden {
    serve: Pid,
    parent: Option<ProcessHandle>,
    signals: SignalQueue,
    children: Children,
}

impl Warden {
    fn new(serve: Pid, parent: Option<ProcessHandle>) -> Result<Self, Errno> {
        fd::let_go_of_client()?;
        let signals = SignalQueue::of(&[Signal::CHILD, Signal::TERM, Signal::INT, Signal::HUP])?;
        Ok(Self { serve, parent, signals, children: Children::open() })
    }

    /// Until the supervisor is gone; then until everybody is.
    fn wait(&self) -> i32 {
        loop {
            if let Ok(Some(ending)) = wait::peek(self.serve) {
                self.kill_what_is_left();
                return match ending {
                    Ending::Code(code) => code,
                    Ending::Signal(signal) => 128 + signal,
                };
            }
            if self.must_end() {
                // The supervisor would end by itself at its client's end of file. Not relying on it is the point of a warden.
                let _ = rustix::process::kill_process(self.serve, Signal::KILL);
            }
            self.kill_others();
        }
    }

    /// Waits for news; true when it is time to end.
    fn must_end(&self) -> bool {
        let mut watched = vec![PollFd::new(&self.signals, PollFlags::IN)];
        watched.extend(self.parent.iter().map(|parent| PollFd::new(parent, PollFlags::IN)));
        if poll_until(&mut watched, None).is_err() {
            return true;
        }
        let orphaned = watched.get(1).is_some_and(|parent| !parent.revents().is_empty());
        let mut told = false;
        while let Some(signal) = self.signals.take() {
            told |= signal != Signal::CHILD.as_raw();
        }
        (orphaned && Guard::ParentWatch.is_on()) || told
    }

    fn others(&self) -> impl Iterator<Item = Pid> {
        self.children.list().unwrap_or_default().into_iter().filter(|pid| *pid != self.serve)
    }

    /// Nobody but the supervisor should be here. Who is, has escaped from it.
    fn kill_others(&self) {
        for pid in self.others() {
            // A child of ours that has not been reaped: the number is its own. If it had ended, it is reaped here.
            let _ = rustix::process::kill_process(pid, Signal::KILL);
            let _ = wait::reap(Some(pid));
        }
    }

    fn kill_what_is_left(&self) {
        if !Guard::Warden.is_on() {
            return;
        }
        let mut deadline = Instant::now() + KILL_DEADLINE;
        while !matches!(wait::reap(None), Ok(Reap::NoChildren)) && Instant::now() < deadline {
            for pid in self.others() {
                // A child of ours that has not been reaped: the number is its own.
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
            while let Ok(Reap::One(_)) = wait::reap(None) {
                // A storm of processes takes its time. Only when nobody dies any more is there nothing left to do.
                deadline = Instant::now() + KILL_DEADLINE;
            }
            let mut watched = [PollFd::new(&self.signals, PollFlags::IN)];
            // A failing poll only means looking again sooner; the deadline bounds it.
            let _ = poll_until(&mut watched, Some(Instant::now() + LOOK_AGAIN));
            self.signals.drain(Signal::CHILD);
        }
    }
}
