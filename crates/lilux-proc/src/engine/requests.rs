//! What a client may ask for.

use std::collections::hash_map::Entry;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::process::Pid;

use super::{Engine, Notice};
use crate::channel::Input;
use crate::command::Command;
use crate::confine::{Confinement, Facts};
use crate::error::{RequestError, SpawnError};
use crate::keeper::TIMEOUT_GRACE;
use crate::policy::Tier;
use crate::poller::{Alarm, Key, Token};
use crate::pool::{Job, Keeper};
use crate::process;
use crate::protocol::{
    CallRequest, CancelRequest, CreditRequest, Event, InputRequest, KillRequest, Request, RunRequest, Status,
    StatusRequest, Target, target,
};
use crate::run::{Outcome, Phase, Run};
use crate::wire::{Order, StartMessage, StartOrder};

impl Engine {
    /// Carries out one request; the answers come as notices.
    pub fn request(&mut self, request: Request, payload: &[u8], passed: Vec<OwnedFd>) {
        let id = request.id();
        let done = match request {
            Request::Run(request) => self.start(&request, payload, passed),
            Request::Call(request) => self.call(&request, payload),
            Request::Input(request) => self.input(&request, payload),
            Request::Cancel(request) => self.cancel(&request),
            Request::Credit(request) => self.credit(&request),
            Request::Kill(request) => self.check_free(id, "kill").and_then(|()| self.kill(&request)),
            Request::Status(request) => self.check_free(id, "status").and_then(|()| self.status(&request)),
            Request::Probe(_) => self.check_free(id, "probe").map(|()| self.probe(id)),
        };
        if let Err(error) = done {
            self.refuse(id, &error);
        }
    }

    /// Answers a request with an error.
    pub fn refuse(&mut self, id: u64, error: &RequestError) {
        self.notices.push(Notice::Event(Event::refusal(id, error)));
    }

    /// A second answer under the id of a run could not be told from the run's own.
    fn check_free(&self, id: u64, stage: &'static str) -> Result<(), RequestError> {
        if self.ids.contains_key(&id) {
            let message = format!("a run with id {id} is not finished yet");
            return Err(RequestError::new("duplicate_id", stage, message));
        }
        Ok(())
    }

    fn start(
        &mut self,
        request: &RunRequest,
        payload: &[u8],
        passed: Vec<OwnedFd>,
    ) -> Result<(), RequestError> {
        request.check(payload)?;
        if passed.len() != request.descriptors.len() {
            let (named, came) = (request.descriptors.len(), passed.len());
            let message = format!("the request names {named} descriptors; {came} came along");
            return Err(RequestError::new("invalid_request", "run", message));
        }
        self.check_free(request.id, "run")?;
        if let Err(error) = self.try_start(request, payload, passed) {
            self.close_failed(request, error);
        }
        Ok(())
    }

    fn try_start(
        &mut self,
        request: &RunRequest,
        payload: &[u8],
        passed: Vec<OwnedFd>,
    ) -> Result<(), SpawnError> {
        let command = Command::prepare(request)?;
        let confinement = self.confinement(request)?;
        let (mut run, mut ends) = Run::open(request, payload, passed)?;
        let is_brokered =
            |confinement: &Confinement| confinement.level == Tier::Walls && confinement.opening().is_some();
        if request.prepare && confinement.as_deref().is_some_and(is_brokered) {
            let message = "what is forked from a zygote has no broker of its own";
            return Err(SpawnError::new("zygote_unsupported", "fork", None, message));
        }
        let zygote = self.zygote_of(request, confinement.as_deref())?;
        let key = self.new_key();
        let resources = |errno| SpawnError::resources("keeper", errno);
        if request.park.is_none() {
            self.watch_run(key, &run).map_err(resources)?;
        }
        // A zygote's network is that of what it forks, which has the door.
        let reaching = confinement.as_deref().filter(|_| !request.prepare);
        ends.door = self.open_door(reaching).map_err(|errno| SpawnError::resources("door", errno))?;
        let mut order = StartOrder::new(&command, request, ends.has_stdin(), confinement);
        order.door = ends.door.is_some();
        run.door = self.door.pid().filter(|_| order.door);
        let message = StartMessage::new(&command, order).map_err(resources)?;
        run.keeper = match zygote {
            None => self.keepers.hire(&self.poller, Job::Run(key)).map_err(resources)?,
            Some(keeper) => keeper,
        };
        self.keepers.set_forked(run.keeper, zygote.map(|_| key));
        let keeper = self.keepers.get(run.keeper).ok_or_else(|| resources(rustix::io::Errno::CHILD))?;
        // If the keeper is dead this fails, its end of file follows, and the run ends as `keeper_lost`.
        let _ = message.send(&keeper.socket, &ends.borrowed());
        self.ids.insert(request.id, key);
        self.runs.insert(key, run);
        let parked = request.park.as_ref().map(|park| park.limit_ms);
        self.expect_end_of(key, parked.or(request.timeout_ms));
        if parked.is_none() {
            self.keep_quiet(key, request.quiet_ms);
            self.write_input(key);
        }
        Ok(())
    }

    /// The keeper of the zygote that this is to be forked from.
    fn zygote_of(
        &mut self,
        request: &RunRequest,
        confinement: Option<&Confinement>,
    ) -> Result<Option<Key>, SpawnError> {
        let Some(id) = request.zygote else { return Ok(None) };
        let refuse = |code, message: &str| Err(SpawnError::new(code, "fork", None, message));
        let Some((_, zygote)) = self.live(id) else {
            return refuse("zygote_lost", "the zygote has ended");
        };
        let Some(profile) = zygote.profile.as_ref().filter(|_| zygote.tool.is_some()) else {
            return refuse("zygote_lost", "that run is no zygote, or not ready");
        };
        if !profile.fits(request.policy.as_ref(), confinement.map(|confinement| confinement.level)) {
            return refuse("zygote_profile", "the zygote was started for another policy");
        }
        let keeper = zygote.keeper;
        match self.keepers.get(keeper) {
            Some(Keeper { forked: None, .. }) => Ok(Some(keeper)),
            _ => refuse("zygote_busy", "what was forked from it before has not ended"),
        }
    }

    fn expect_end_of(&mut self, key: Key, timeout_ms: Option<u64>) {
        if let Some(limit) = timeout_ms {
            self.expect_end(key, Duration::from_millis(limit) + TIMEOUT_GRACE);
        }
    }

    /// What was parked begins its one call. One that cannot have it is of no use any more.
    fn call(&mut self, request: &CallRequest, payload: &[u8]) -> Result<(), RequestError> {
        let Some((key, run)) = self.live(request.id) else {
            request.as_run().check(payload)?;
            let message = "nothing is parked under this id";
            return Err(RequestError::new("not_parked", "call", message));
        };
        if run.is_deserted() {
            // Nothing of the call is done, and its end will say so.
            self.end_soon(key, 0);
            return Ok(());
        }
        if let Err(error) = begun(run, request, payload) {
            self.refuse_call(key, error);
            return Ok(());
        }
        let keeper = run.keeper;
        self.keep_quiet(key, request.quiet_ms);
        self.announce(key);
        if let Err(errno) = self.watch_call(key) {
            self.refuse_call(
                key,
                RequestError::new("resource_exhausted", "call", "no room to watch it").with_errno(errno),
            );
            return Ok(());
        }
        self.order(keeper, &Order::Call { timeout_ms: request.timeout_ms });
        self.forget_end(key);
        self.expect_end_of(key, request.timeout_ms);
        self.write_input(key);
        Ok(())
    }

    /// One terminal event an id: the process is ended first, and this is what it ends with.
    fn refuse_call(&mut self, key: Key, error: RequestError) {
        if let Some(run) = self.runs.get_mut(&key) {
            run.refusal = Some(error);
            self.end_soon(key, 0);
        }
    }

    /// Writes the call as far as its pipe takes it, and looks at what the process writes from now on.
    fn watch_call(&mut self, key: Key) -> Result<(), Errno> {
        let Some(run) = self.runs.get_mut(&key) else { return Ok(()) };
        let more = run.call.as_mut().is_some_and(Input::write);
        let run = &self.runs[&key];
        if let Some(pipe) = run.call.as_ref().and_then(|call| call.pipe.as_ref()).filter(|_| more) {
            self.poller.add(pipe, Token::Call(key), EventFlags::OUT)?;
        }
        self.watch_run(key, run)
    }

    /// Most runs are over before anybody would look on: nothing is sent of them but their end.
    pub(super) fn keep_quiet(&mut self, key: Key, for_ms: u64) {
        if let Some(run) = self.runs.get_mut(&key).filter(|_| for_ms > 0) {
            run.quiet_until = Some(self.timers.set(Duration::from_millis(for_ms), Alarm::Quiet(key)));
        }
    }

    /// `started`, unless the run is still to be quiet.
    pub(super) fn announce(&mut self, key: Key) {
        let wanted = |run: &&mut Run| run.notify && run.quiet_until.is_none();
        let Some(run) = self.runs.get_mut(&key).filter(wanted) else { return };
        if let Some((pid, enforced)) = run.tool.clone() {
            run.announced = true;
            self.notices.push(Notice::Event(Event::Started { id: run.id, pid, enforced }));
        }
    }

    /// What this machine can enforce is found out when it is first asked for.
    fn facts(&mut self) -> &Facts {
        self.facts.get_or_insert_with(Facts::gather)
    }

    fn probe(&mut self, id: u64) {
        let facts = self.facts().clone();
        self.notices.push(Notice::Event(Event::Probed { id, facts }));
    }

    fn confinement(&mut self, request: &RunRequest) -> Result<Option<Box<Confinement>>, SpawnError> {
        let Some(policy) = &request.policy else { return Ok(None) };
        let facts = match &request.observe {
            Some(_) => &self.facts().clone().without_broker("what is observed has no broker"),
            None => self.facts(),
        };
        Confinement::decide(policy, facts).map(Box::new).map(Some)
    }

    fn open_door(&mut self, confinement: Option<&Confinement>) -> Result<Option<OwnedFd>, Errno> {
        confinement.and_then(Confinement::opening).map(|_| self.door.open()).transpose()
    }

    fn close_failed(&mut self, request: &RunRequest, error: SpawnError) {
        let result = Box::new(Outcome::Failed(error).into());
        self.notices.push(Notice::Closed { id: request.id, result, kept: Box::new([None, None, None]) });
    }

    /// Requests for a run that has just ended have crossed its last event on the wire: they mean nothing any more.
    fn live(&mut self, id: u64) -> Option<(Key, &mut Run)> {
        let key = *self.ids.get(&id)?;
        self.runs.get_mut(&key).map(|run| (key, run))
    }

    fn input(&mut self, request: &InputRequest, payload: &[u8]) -> Result<(), RequestError> {
        let Some((key, run)) = self.live(request.id) else { return Ok(()) };
        let pushed = match run.input.as_mut() {
            Some(input) => input.push(payload, request.eof),
            None => Err(RequestError::new("invalid_request", "input", "this run was started without input")),
        };
        match pushed {
            Ok(()) => self.write_input(key),
            Err(error) => {
                // One terminal event an id: the run is ended first, and this is what it ends with.
                run.refusal = Some(error);
                self.end_soon(key, 0);
            }
        }
        Ok(())
    }

    fn cancel(&mut self, request: &CancelRequest) -> Result<(), RequestError> {
        if let Some((key, _)) = self.live(request.id) {
            self.end_soon(key, request.grace_ms);
        }
        Ok(())
    }

    fn end_soon(&mut self, key: Key, grace_ms: u64) {
        let Some(run) = self.runs.get(&key) else { return };
        let keeper = run.keeper;
        if self.keepers.get(keeper).is_some_and(|keeper| keeper.forked.is_some_and(|forked| forked != key)) {
            // It looks after what was forked from this zygote, and hears of nothing else. Both end with it.
            self.keepers.kill(keeper);
            return;
        }
        self.order(keeper, &Order::Cancel { grace_ms });
        self.expect_end(key, Duration::from_millis(grace_ms));
    }

    fn credit(&mut self, request: &CreditRequest) -> Result<(), RequestError> {
        let Some((key, run)) = self.live(request.id) else { return Ok(()) };
        if let Some(watch) = run.watch.as_mut() {
            watch.credit = watch.credit.saturating_add(request.bytes);
        }
        self.send_output(key);
        Ok(())
    }

    fn kill(&mut self, request: &KillRequest) -> Result<(), RequestError> {
        match target(request.run, request.pid)? {
            Target::Supervisor => {
                Err(RequestError::new("invalid_request", "kill", "give the `run` or the `pid` to kill"))
            }
            Target::Run(run) => {
                self.kill_run(request, run);
                Ok(())
            }
            Target::Pid(pid) => self.kill_pid(request, pid),
        }
    }

    fn kill_run(&mut self, request: &KillRequest, run: u64) {
        match self.live(run) {
            Some((key, run)) => {
                run.killers.push(request.id);
                self.end_soon(key, request.grace_ms);
            }
            None => {
                let method = crate::protocol::KillMethod::AlreadyDead;
                self.notices.push(Notice::Event(Event::Killed { id: request.id, pid: None, method }));
            }
        }
    }

    /// Killing a stranger takes waiting, which is a keeper's work.
    fn kill_pid(&mut self, request: &KillRequest, pid: i64) -> Result<(), RequestError> {
        if self.is_one_of_us(pid) {
            let message = format!("process {pid} belongs to this supervisor; end its runs instead");
            return Err(RequestError::new("not_permitted", "kill", message));
        }
        let refused = |errno| RequestError::new("internal", "kill", "no keeper to do it").with_errno(errno);
        let job = Job::KillPid { request: request.id, pid };
        let keeper = self.keepers.hire(&self.poller, job).map_err(refused)?;
        self.order(keeper, &Order::KillPid { pid, grace_ms: request.grace_ms });
        Ok(())
    }

    fn is_one_of_us(&self, pid: i64) -> bool {
        let number = i32::try_from(pid).unwrap_or_default();
        let child = Pid::from_raw(number.max(0)).is_some_and(|pid| self.is_ours(pid));
        child || number == Self::own_pid() || number == self.warden
    }

    fn status(&mut self, request: &StatusRequest) -> Result<(), RequestError> {
        let status = match target(request.run, request.pid)? {
            Target::Pid(pid) => Status::Pid { pid, alive: process::is_alive(pid)? },
            Target::Run(run) => Status::Run { run, state: self.state_of(run) },
            Target::Supervisor => {
                let (keepers, idle_keepers) = self.keepers.counts();
                let (pid, warden, runs) = (Self::own_pid(), self.warden, self.runs.len());
                Status::Supervisor { pid, warden, runs, keepers, idle_keepers }
            }
        };
        self.notices.push(Notice::Event(Event::Status { id: request.id, status }));
        Ok(())
    }

    fn state_of(&mut self, id: u64) -> &'static str {
        match self.live(id).map(|(_, run)| run.phase) {
            None => "unknown",
            Some(Phase::Parked) => "parked",
            Some(Phase::Running) => "running",
            Some(Phase::Draining | Phase::Finishing) => "draining",
        }
    }

    /// Nobody waits for its end any more, or not until then.
    fn forget_end(&mut self, key: Key) {
        if let Some(when) = self.runs.get_mut(&key).and_then(|run| run.overdue_at.take()) {
            self.timers.cancel(when, Alarm::Overdue(key));
        }
    }

    /// Forgets a run and the id it went by.
    pub(super) fn take_run(&mut self, key: Key) -> Option<Run> {
        self.forget_end(key);
        let run = self.runs.remove(&key)?;
        if let Entry::Occupied(entry) = self.ids.entry(run.id) {
            entry.remove();
        }
        if let Some(when) = run.quiet_until {
            self.timers.cancel(when, Alarm::Quiet(key));
        }
        for pipe in run.outputs.iter().flatten().filter_map(|output| output.pipe.as_ref()) {
            self.poller.remove(pipe);
        }
        Some(run)
    }
}

/// Hands the call over, if it can be one.
fn begun(run: &mut Run, request: &CallRequest, payload: &[u8]) -> Result<(), RequestError> {
    request.as_run().check(payload)?;
    if run.phase != Phase::Parked || run.profile.is_some() {
        return Err(RequestError::new("not_parked", "call", "this run has its call already, or is over"));
    }
    let failed = |SpawnError { errno, message, .. }| RequestError {
        code: "spool_failed",
        stage: "call",
        errno,
        message,
    };
    run.begin_call(request, payload).map_err(failed)
}
