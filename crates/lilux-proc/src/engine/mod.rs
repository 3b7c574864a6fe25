//! The heart of both faces: one thread, one epoll, any number of runs.
//!
//! `requests` holds what a client may ask, `reports` what keepers answer, `sweep` what happens when a keeper was killed.
//! Nothing here writes to a client; what it should hear is collected as notices.

mod reports;
mod requests;
mod sweep;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpid};

use crate::capture::Kept;
use crate::channel::ReadOutcome;
use crate::confine::Facts;
use crate::door::Door;
use crate::error::Fatal;
use crate::poller::{Alarm, Key, Poller, Timers, Token};
use crate::pool::Pool;
use crate::protocol::{Event, RunResult, Stream};
use crate::run::{Phase, Run};
use crate::sys::children::Children;
use crate::sys::launch::Limits;
use crate::sys::region;
use crate::sys::signals::{self, SignalQueue};
use crate::sys::wait::{self, Reap};
use crate::wire::{self, Order};
use sweep::Sweep;

const SCRATCH: usize = 64 * 1024;
/// How long what a finished tool left behind may go on writing.
const DRAIN: Duration = Duration::from_millis(500);
/// How often one stream is read before the others get their turn.
const READS_IN_A_ROW: usize = 4;
/// How often idle keepers and unused memory are looked at, while there are any.
const TRIM_EVERY: Duration = Duration::from_secs(1);
/// A dismissed keeper kills its tree within 5 s, or hands it to us.
const GOODBYE: Duration = Duration::from_secs(6);

/// Something that the client should hear.
pub enum Notice {
    Event(Event),
    Output { event: Event, bytes: Vec<u8> },
    Closed { id: u64, result: Box<RunResult>, kept: Box<[Option<Kept>; 3]> },
}

/// What happened that is not the engine's own business.
#[derive(Default)]
pub struct Turn {
    pub faces: Vec<(Key, EventFlags)>,
    /// Somebody asked this process to end.
    pub stop: bool,
}

/// Everything that is going on: runs, keepers, timers, and what is to be said about them.
pub struct Engine {
    poller: Poller,
    signals: SignalQueue,
    children: Children,
    keepers: Pool,
    door: Door,
    runs: HashMap<Key, Run>,
    ids: HashMap<u64, Key>,
    timers: Timers,
    regions: region::Pool,
    scratch: Vec<u8>,
    letters: Vec<u8>,
    notices: Vec<Notice>,
    sweep: Option<Sweep>,
    next_key: Key,
    trim_set: bool,
    warden: i32,
    facts: Option<Facts>,
    /// Keepers whose groups have not been looked for yet.
    gone: Vec<Pid>,
}

impl Engine {
    /// Turns this process into a guardian of others; from now on signals are read, not delivered.
    pub fn new(limits: Limits) -> Result<Self, Fatal> {
        signals::block_all().map_err(Fatal::system("signals"))?;
        let wanted = [Signal::CHILD, Signal::TERM, Signal::INT, Signal::HUP];
        let signals = SignalQueue::of(&wanted).map_err(Fatal::system("signals"))?;
        let poller = Poller::new().map_err(Fatal::system("epoll"))?;
        poller.add(&signals, Token::Signals, EventFlags::IN).map_err(Fatal::system("epoll"))?;
        Ok(Self {
            poller,
            signals,
            children: Children::open(),
            keepers: Pool::new(limits),
            door: Door::new(limits),
            runs: HashMap::new(),
            ids: HashMap::new(),
            timers: Timers::default(),
            regions: region::Pool::default(),
            scratch: vec![0; SCRATCH],
            letters: vec![0; wire::BUFFER],
            notices: Vec::new(),
            sweep: None,
            next_key: 0,
            trim_set: false,
            warden: rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get()),
            facts: None,
            gone: Vec::new(),
        })
    }

    /// Has a keeper ready, so that the first run need not wait for one.
    pub fn warm_up(&mut self) -> Result<(), Fatal> {
        self.keepers.warm_up(&self.poller).map_err(Fatal::system("fork"))
    }

    /// For what a face watches itself, as `Token::Face`.
    pub fn poller(&self) -> &Poller {
        &self.poller
    }

    /// What has happened since the last call, in order.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// Waits for something to happen and deals with it.
    pub fn turn(&mut self) -> Result<Turn, Fatal> {
        let mut turn = Turn::default();
        let events = self.poller.wait(self.timers.next()).map_err(Fatal::system("epoll"))?;
        for (token, flags) in events {
            match token {
                Token::Output(key, stream) => self.read_output(key, stream),
                Token::Keeper(key) => self.hear_keeper(key),
                Token::Input(key) => self.serve_input(key, flags),
                Token::Call(key) => self.write_call(key),
                Token::Signals => turn.stop |= self.read_signals(),
                Token::Face(key) => turn.faces.push((key, flags)),
            }
        }
        let now = Instant::now();
        while let Some(alarm) = self.timers.take(now) {
            self.ring(alarm, now);
        }
        Ok(turn)
    }

    fn ring(&mut self, alarm: Alarm, now: Instant) {
        match alarm {
            Alarm::Drained(key) => self.finish_run(key),
            Alarm::Stream(key) => {
                if let Some(watch) = self.runs.get_mut(&key).and_then(|run| run.watch.as_mut()) {
                    watch.alarm_set = false;
                }
                self.send_output(key);
            }
            Alarm::Quiet(key) => {
                if let Some(run) = self.runs.get_mut(&key) {
                    run.quiet_until = None;
                }
                self.announce(key);
                self.send_output(key);
            }
            Alarm::Overdue(key) => self.give_up_on_keeper(key),
            Alarm::Sweep => self.sweep_once(),
            Alarm::Trim => {
                self.trim_set = false;
                self.keepers.trim(&self.poller, now);
                if self.runs.is_empty() {
                    self.regions.trim();
                    crate::sys::give_back_memory();
                }
                self.plan_trim();
            }
        }
    }

    fn plan_trim(&mut self) {
        if !self.trim_set && (self.keepers.has_spare() || self.regions.holds_memory()) {
            self.trim_set = true;
            self.timers.set(TRIM_EVERY, Alarm::Trim);
        }
    }

    /// True when one of them asks this process to end.
    fn read_signals(&mut self) -> bool {
        let mut stop = false;
        while let Some(signal) = self.signals.take() {
            stop |= signal != Signal::CHILD.as_raw();
        }
        self.reap();
        stop
    }

    fn reap(&mut self) {
        while let Ok(Reap::One(reaped)) = wait::reap(None) {
            self.door.reaped(reaped.pid);
            if let Some(key) = self.keepers.reaped(reaped.pid) {
                self.gone.push(reaped.pid);
                self.lose_keeper(key);
            }
        }
        if self.sweep.is_some() {
            self.sweep_once();
        } else {
            self.remove_groups();
        }
    }

    fn read_output(&mut self, key: Key, stream: Stream) {
        let Some(run) = self.runs.get_mut(&key) else { return };
        let waits = run.must_wait(stream, SCRATCH);
        let Some(output) = run.outputs[stream as usize].as_mut() else { return };
        if waits {
            // Removed rather than modified: a pipe whose writer is gone would say so again and again.
            if let Some(pipe) = output.pipe.as_ref() {
                self.poller.remove(pipe);
                output.held = true;
            }
            return;
        }
        for _ in 0..if output.whole { 1 } else { READS_IN_A_ROW } {
            match output.read(&self.regions, &mut self.scratch) {
                ReadOutcome::Some => {}
                ReadOutcome::Nothing => break,
                ReadOutcome::EndOfFile => {
                    if let Some(pipe) = output.pipe.take() {
                        self.poller.remove(pipe);
                    }
                    break;
                }
            }
        }
        self.send_output(key);
        self.finish_if_drained(key);
    }

    fn finish_if_drained(&mut self, key: Key) {
        let drained = |run: &Run| run.phase == Phase::Draining && run.is_drained();
        if self.runs.get(&key).is_some_and(drained) {
            self.finish_run(key);
        }
    }

    /// Everything has been read, or the time for it is over: the keeper may kill what is left.
    fn finish_run(&mut self, key: Key) {
        let Some(run) = self.runs.get_mut(&key).filter(|run| run.phase == Phase::Draining) else { return };
        run.phase = Phase::Finishing;
        let keeper = run.keeper;
        self.order(keeper, &Order::Finish);
        self.expect_end(key, Duration::ZERO);
    }

    /// By then the keeper must have ended the run: TERM, grace, KILL and its deadline all included.
    fn expect_end(&mut self, key: Key, within: Duration) {
        let Some(run) = self.runs.get_mut(&key) else { return };
        let due = Instant::now() + within + GOODBYE;
        if run.overdue_at.is_some_and(|earlier| earlier <= due) {
            return;
        }
        if let Some(later) = run.overdue_at {
            self.timers.cancel(later, Alarm::Overdue(key));
        }
        run.overdue_at = Some(self.timers.set(within + GOODBYE, Alarm::Overdue(key)));
    }

    fn order(&self, keeper: Key, order: &Order) {
        if let Some(keeper) = self.keepers.get(keeper) {
            // A keeper that cannot be told is dead; its end of file says so, and that is dealt with there.
            let _ = wire::send(&keeper.socket, order);
        }
    }

    fn serve_input(&mut self, key: Key, flags: EventFlags) {
        let gone = flags.intersects(EventFlags::ERR | EventFlags::HUP);
        let input = self.runs.get_mut(&key).and_then(|run| run.input.as_mut());
        if let Some(pipe) = input.filter(|_| gone).and_then(|input| input.pipe.take()) {
            // The tool has closed its end. Kept open, ours would say so again and again.
            self.poller.remove(pipe);
        }
        self.write_input(key);
    }

    fn write_input(&mut self, key: Key) {
        let Some(run) = self.runs.get_mut(&key) else { return };
        let Some(input) = run.input.as_mut() else { return };
        let (before, id) = (input.pipe.is_some(), run.id);
        let more = input.write();
        if let Some(bytes) = input.credit() {
            self.notices.push(Notice::Event(Event::Credit { id, bytes }));
        }
        // A pipe that is closed has left epoll with its last descriptor; nothing else holds our end.
        if let (true, Some(pipe)) = (before, &input.pipe) {
            let interest = if more { EventFlags::OUT } else { EventFlags::empty() };
            let _ = self.poller.modify(pipe, Token::Input(key), interest);
        }
    }

    /// Hands over what is left of the call; a process that does not want to read it has its pipe closed.
    fn write_call(&mut self, key: Key) {
        let Some(call) = self.runs.get_mut(&key).and_then(|run| run.call.as_mut()) else { return };
        call.write();
    }

    /// Sends what a watching client may have by now, or plans to.
    fn send_output(&mut self, key: Key) {
        self.send_pending(key);
        self.resume_reading(key);
    }

    /// Looks again at streams that were held back for want of credit.
    fn resume_reading(&mut self, key: Key) {
        let Some(run) = self.runs.get_mut(&key) else { return };
        for stream in Stream::ALL {
            if run.must_wait(stream, SCRATCH) {
                continue;
            }
            let Some(output) = run.outputs[stream as usize].as_mut().filter(|output| output.held) else {
                continue;
            };
            output.held = false;
            let token = Token::Output(key, stream);
            let added = output.pipe.as_ref().map(|pipe| self.poller.add(pipe, token, EventFlags::IN));
            if let Some(Err(_)) = added {
                output.pipe = None; // it can be watched no more, and ends here
            }
        }
    }

    fn send_pending(&mut self, key: Key) {
        let Some(run) = self.runs.get_mut(&key) else { return };
        let Some(watch) = run.watch.as_mut() else { return };
        let now = Instant::now();
        let waiting = run.outputs.iter().flatten().any(|output| output.has_pending());
        if !waiting || watch.credit == 0 || !run.announced || run.quiet_until.is_some() {
            return;
        }
        if now < watch.next_at {
            if !watch.alarm_set {
                watch.alarm_set = true;
                self.timers.set(watch.next_at - now, Alarm::Stream(key));
            }
            return;
        }
        watch.next_at = now + watch.interval;
        self.flush_output(key);
    }

    fn flush_output(&mut self, key: Key) {
        let Some(run) = self.runs.get_mut(&key).filter(|run| run.quiet_until.is_none()) else { return };
        let Some(watch) = run.watch.as_mut() else { return };
        for stream in Stream::ALL {
            let Some(pending) =
                run.outputs[stream as usize].as_mut().and_then(|output| output.pending.as_mut())
            else {
                continue;
            };
            if pending.bytes.is_empty() || watch.credit == 0 {
                continue;
            }
            let most = usize::try_from(watch.credit).unwrap_or(usize::MAX);
            let (bytes, skipped) = pending.take(most);
            watch.credit -= bytes.len() as u64;
            let event = Event::Output { id: run.id, stream, seq: watch.sequence, skipped };
            watch.sequence += 1;
            self.notices.push(Notice::Output { event, bytes });
        }
    }

    /// Ends every run with SIGKILL and waits until everybody is gone.
    pub fn shut_down(&mut self) {
        self.runs.clear();
        self.keepers.dismiss_all(&self.poller);
        self.door.close();
        let deadline = Instant::now() + GOODBYE;
        loop {
            while let Ok(Reap::One(reaped)) = wait::reap(None) {
                self.keepers.reaped(reaped.pid);
            }
            let escaped = self.kill_escapees();
            let now = Instant::now();
            if (self.keepers.is_empty() && !escaped) || now >= deadline {
                return;
            }
            // A failing wait only means looking again sooner; the deadline bounds it.
            let _ = self.poller.wait(Some(deadline.min(now + sweep::LOOK_AGAIN)));
            self.signals.drain(Signal::CHILD);
        }
    }

    fn new_key(&mut self) -> Key {
        self.next_key = self.next_key.wrapping_add(1);
        self.next_key
    }

    fn own_pid() -> i32 {
        getpid().as_raw_nonzero().get()
    }

    fn watch_run(&self, key: Key, run: &Run) -> Result<(), Errno> {
        for stream in Stream::ALL {
            if let Some(pipe) = run.outputs[stream as usize].as_ref().and_then(|output| output.pipe.as_ref())
            {
                self.poller.add(pipe, Token::Output(key, stream), EventFlags::IN)?;
            }
        }
        if let Some(pipe) = run.input.as_ref().and_then(|input| input.pipe.as_ref()) {
            self.poller.add(pipe, Token::Input(key), EventFlags::OUT)?;
        }
        Ok(())
    }
}
