//! The last phase before `execve`: limits, capabilities, Landlock and seccomp, in this order.

use std::os::fd::RawFd;
use std::rc::Rc;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::capabilities::{self, Capabilities};
use super::filter::Instruction;
use super::group::Group;
use super::landlock::Ruleset;
use crate::notify::{Mailbox, Post};
use crate::sys::last_errno;
use crate::sys::launch::{Limits, Refused, Restriction as _};

/// Everything that was prepared for one tool.
#[derive(Debug)]
pub struct Seal {
    pub limits: Limits,
    pub resources: Vec<(Resource, u64)>,
    /// What limits all of its processes together.
    pub group: Option<Group>,
    /// Nothing in it for a run that is not confined.
    pub confinement: Option<Walls>,
    /// What tells of its calls, if somebody wants to learn from them.
    pub post: Option<Post>,
}

/// What confines it.
#[derive(Debug)]
pub struct Walls {
    pub keep: Option<Capabilities>,
    /// What a zygote has instead.
    pub hold: Option<Capabilities>,
    pub ruleset: Option<Ruleset>,
    pub filter: Option<Filter>,
}

/// What decides about system calls.
#[derive(Debug)]
pub enum Filter {
    Silent(Rc<[Instruction]>),
    /// Some calls are reported, and the holder of the mailbox answers them.
    Telling(Post, Option<Mailbox>),
}

impl Filter {
    fn descriptor(&self) -> Option<RawFd> {
        match self {
            Self::Silent(_) => None,
            Self::Telling(post, _) => Some(post.descriptor()),
        }
    }

    fn load(&self) -> Result<(), Errno> {
        match self {
            Self::Silent(program) => load(program),
            Self::Telling(post, _) => post.install(),
        }
    }
}

impl Seal {
    pub fn descriptors(&self) -> [Option<RawFd>; 3] {
        let ruleset = self.confinement.as_ref().and_then(|walls| walls.ruleset.as_ref());
        let filter = self.confinement.as_ref().and_then(|walls| walls.filter.as_ref());
        // A process has one listener at most.
        let post = self.post.as_ref().map(Post::descriptor).or(filter.and_then(Filter::descriptor));
        [ruleset.map(Ruleset::raw), post, self.group.as_ref().map(Group::raw)]
    }

    pub fn apply(&self) -> Result<(), Refused> {
        self.limits.seal()?;
        self.group.as_ref().map_or(Ok(()), Group::enter).map_err(Refused::at("group"))?;
        for (resource, most) in &self.resources {
            lower(*resource, *most).map_err(Refused::at("limit"))?;
        }
        if let Some(post) = &self.post {
            capabilities::gain_nothing_more().map_err(Refused::at("no_new_privs"))?;
            post.install().map_err(Refused::at("observe"))?;
        }
        self.confinement.as_ref().map_or(Ok(()), Walls::enter)
    }
}

impl Walls {
    fn enter(&self) -> Result<(), Refused> {
        match (self.hold, self.keep) {
            (Some(hold), _) => hold.hold().map_err(Refused::at("capabilities"))?,
            (None, Some(keep)) => keep.keep().map_err(Refused::at("capabilities"))?,
            (None, None) => {}
        }
        capabilities::gain_nothing_more().map_err(Refused::at("no_new_privs"))?;
        if let Some(ruleset) = &self.ruleset {
            ruleset.enter().map_err(Refused::at("landlock"))?;
        }
        if let Some(filter) = &self.filter {
            filter.load().map_err(Refused::at("seccomp"))?;
        }
        Ok(())
    }
}

/// A limit that is lower already stays.
fn lower(resource: Resource, most: u64) -> Result<(), Errno> {
    let now = getrlimit(resource);
    let least = |limit: Option<u64>| Some(limit.map_or(most, |limit| limit.min(most)));
    setrlimit(resource, Rlimit { current: least(now.current), maximum: least(now.maximum) })
}

fn load(filter: &[Instruction]) -> Result<(), Errno> {
    let program =
        libc::sock_fprog { len: filter.len() as libc::c_ushort, filter: filter.as_ptr().cast_mut() };
    // SAFETY: the program is as long as said; the kernel copies it.
    let answer =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program) };
    if answer < 0 { Err(last_errno()) } else { Ok(()) }
}
