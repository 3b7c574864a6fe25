//! What this machine can enforce is found out by doing it: a whole cell is made, up to the point where a tool would start.
//!
//! To ask for namespaces is not enough: some systems grant them and refuse what is done inside.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Signal, WaitOptions, geteuid};

use super::capabilities;
use super::facts::{CellKind, Facts};
use super::group::Groups;
use super::landlock::Abi;
use super::syscalls::{Shape, Sockets, table};
use super::{Confinement, Plan, compile};
use crate::broker;
use crate::policy::{Policy, Proc, Tier};
use crate::sys::launch::{Limits, Places, Program, Stage, launch};
use crate::sys::pidfd::poll_until;
use crate::sys::{self, signals};
use crate::wire::Role;

/// A machine on which it takes so long has something that gets in the way of cells.
const PATIENCE: Duration = Duration::from_secs(5);

const UNTRIED: &str = "it was not tried out";

impl Facts {
    /// Tries it out, in a process that nothing of is left.
    pub fn gather() -> Self {
        ask().unwrap_or_else(|| Self {
            no_cell: Some("the process that tried it out did not answer".to_owned()),
            ..Self::without_trying()
        })
    }

    fn without_trying() -> Self {
        let action = libc::SECCOMP_RET_ERRNO;
        // SAFETY: the kernel reads one number.
        let answer =
            unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0, &raw const action) };
        let facts = Self { landlock: Abi::of_kernel(), seccomp: answer == 0, ..Self::default() };
        Self { no_groups: Some(UNTRIED.to_owned()), ..facts.without_broker(UNTRIED) }
    }
}

fn ask() -> Option<Facts> {
    let (answers, said) = pipe_with(PipeFlags::CLOEXEC).ok()?;
    let Some(child) = sys::fork().ok()? else {
        drop(answers);
        let facts = serde_json::to_vec(&try_out()).unwrap_or_default();
        let told = std::fs::File::from(said).write_all(&facts);
        sys::exit_now(i32::from(told.is_err()));
    };
    drop(said);
    let mut watched = [PollFd::new(&answers, PollFlags::IN)];
    if poll_until(&mut watched, Some(Instant::now() + PATIENCE)).unwrap_or(0) == 0 {
        // Our own unreaped child: the number cannot mean anybody else.
        let _ = rustix::process::kill_process(child, Signal::KILL);
    }
    let mut text = Vec::new();
    let read = std::fs::File::from(answers).read_to_end(&mut text);
    let _ = rustix::process::waitpid(Some(child), WaitOptions::empty());
    read.ok().and_then(|_| serde_json::from_slice(&text).ok())
}

fn try_out() -> Facts {
    let mut facts = match Groups::find() {
        Ok(groups) => Facts { groups: Some(groups), no_groups: None, ..Facts::without_trying() },
        Err(why) => Facts { no_groups: Some(why), ..Facts::without_trying() },
    };
    if signals::block_all().is_err() || !facts.seccomp {
        facts.no_cell = Some("there are no seccomp filters here".to_owned());
        return facts;
    }
    facts.landlock = match attempt(&facts, Tier::Walls) {
        Ok(()) => facts.landlock,
        Err(_) => Abi::default(),
    };
    facts = with_broker(facts);
    let administrator = capabilities::is_administrator().then_some(CellKind::Administrator);
    let mut reason = None;
    for kind in administrator.into_iter().chain([CellKind::UserNamespace]) {
        for proc in [Proc::Private, Proc::Shared] {
            let tried = Facts { cell: Some(kind), proc, ..facts.clone() };
            match attempt(&tried, Tier::Cell) {
                Ok(()) => return tried,
                Err(why) => reason = reason.or(Some(why)),
            }
        }
    }
    Facts { no_cell: reason, ..facts }
}

/// Tried out with the filter that tools get in walls.
fn with_broker(facts: Facts) -> Facts {
    let shape = Shape { cell: false, sockets: Sockets::Brokered, root: geteuid().is_root(), enters: false };
    match broker::try_out(compile(&table(shape))) {
        Ok(()) => Facts { broker: true, no_broker: None, ..facts },
        Err(why) => facts.without_broker(&why),
    }
}

/// Everything but the start of a program.
fn attempt(facts: &Facts, level: Tier) -> Result<(), String> {
    if level == Tier::Walls && facts.landlock == Abi::default() {
        return Err("there is no Landlock here".to_owned());
    }
    let policy = Policy { tier: level, ..Policy::default() };
    let confinement = Confinement { policy, level, facts: facts.clone(), reason: None };
    let limits = Limits { descriptors: sys::descriptor_limit() };
    let mut namespaces = None;
    let plan =
        Plan::make(&confinement, limits, &mut namespaces, None, Role::Tool).map_err(|error| error.message)?;
    let program = Program {
        candidates: &[],
        arguments: &[std::ptr::null()],
        environment: &[std::ptr::null()],
        directory: None,
        descriptors: Places::default(),
        restriction: &plan,
    };
    match launch(&program) {
        Err(failure) if failure.stage == Stage::Execute => Ok(()),
        Err(failure) => Err(match failure.stage {
            Stage::Restrict(what) => format!("{what}: {}", failure.errno),
            other => format!("{other:?}: {}", failure.errno),
        }),
        Ok(_) => Err("a program was started that was not named".to_owned()),
    }
}
