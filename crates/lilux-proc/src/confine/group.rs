//! A control group around one run: how many processes it has, and how much memory they take together.
//!
//! Groups (of version 2) are made beside or in the one of the supervisor, where their controllers have been delegated to its
//! user. Nothing is mounted and no controller is switched on. A group is removed when nobody of its run is left. Of a keeper
//! that was killed, the supervisor removes it; of a supervisor that was killed with it, the next one that starts there.

use std::fs;
use std::io::Write as _;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, getpid};
use serde::{Deserialize, Serialize};

use crate::sys;

/// What can be limited: its name in a policy, its controller, its file, and enough for a look at whether it can be set.
const LIMITS: [(&str, &str, &str, u64); 2] =
    [("processes", "pids", "pids.max", 1 << 16), ("memory", "memory", "memory.max", 1 << 40)];
/// So that a run neither goes on in swap nor is ended in parts. Not every kernel has both.
const WITH_MEMORY: [(&str, u64); 2] = [("memory.swap.max", 0), ("memory.oom.group", 1)];
const MEMBERS: &str = "cgroup.procs";
const DELEGATED: &str = "cgroup.subtree_control";
/// What has been empty for so long was left behind: a tool goes into its group as soon as that is made.
const LEFT: Duration = Duration::from_secs(60);

/// Where groups can be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Groups {
    pub directory: PathBuf,
    /// What they can limit: `processes`, `memory`.
    pub limits: Vec<String>,
}

impl Groups {
    /// Tries it out, as a run would use it. An error says why not.
    pub fn find() -> Result<Self, String> {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let mut reason = "control groups of version 2 are not mounted here".to_owned();
        for directory in candidates(&own, &mounts) {
            remove(&directory, |name| name.made + LEFT < since_start());
            match Self::try_out(directory) {
                Ok(groups) => return Ok(groups),
                Err(why) => reason = why,
            }
        }
        Err(reason)
    }

    /// When nobody of it is alive: what a keeper that was killed has left.
    pub fn remove_of(&self, keepers: &[Pid]) {
        remove(&self.directory, |name| {
            keepers.iter().any(|keeper| keeper.as_raw_nonzero().get() == name.keeper)
        });
    }

    pub fn can_limit(&self, name: &str) -> bool {
        self.limits.iter().any(|limit| limit == name)
    }

    fn try_out(directory: PathBuf) -> Result<Self, String> {
        let wanted = delegated(&directory);
        let place = directory.display();
        if wanted.is_empty() {
            return Err(format!("{place}/{DELEGATED} names neither pids nor memory"));
        }
        let group = Group::make(&directory, &wanted)
            .map_err(|errno| format!("no group can be made in {place}: {errno}"))?;
        match enter_and_leave(&group) {
            Ok(()) => {
                Ok(Self { limits: wanted.into_iter().map(|(name, _)| name.to_owned()).collect(), directory })
            }
            Err(errno) => Err(format!("no process can be moved to a group in {place}: {errno}")),
        }
    }
}

fn delegated(directory: &Path) -> Vec<(&'static str, u64)> {
    let text = fs::read_to_string(directory.join(DELEGATED)).unwrap_or_default();
    let is_named = |controller: &str| text.split_whitespace().any(|word| word == controller);
    let found = LIMITS.iter().filter(|(_, controller, ..)| is_named(controller));
    found.map(|(name, _, _, enough)| (*name, *enough)).collect()
}

/// In a process of its own, because nobody can leave to where it may not come from.
fn enter_and_leave(group: &Group) -> Result<(), Errno> {
    let Some(child) = sys::fork()? else {
        sys::exit_now(group.enter().err().map_or(0, Errno::raw_os_error));
    };
    let ended = rustix::process::waitpid(Some(child), WaitOptions::empty())?;
    match ended.and_then(|(_, status)| status.exit_status()) {
        Some(0) => Ok(()),
        code => Err(code.map_or(Errno::CHILD, Errno::from_raw_os_error)),
    }
}

/// The group of this process, and the one that it is in: a group with members has no controllers for others in it.
fn candidates(own: &str, mounts: &str) -> Vec<PathBuf> {
    let Some(own) = own.lines().find_map(|line| line.strip_prefix("0::")) else { return Vec::new() };
    let mut places = mounts.lines().filter_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let mut fields = place.split(' ').skip(3);
        let (root, at) = (Path::new(fields.next()?), Path::new(fields.next()?));
        let inside = Path::new(own).strip_prefix(root).ok().filter(|_| kind.starts_with("cgroup2 "))?;
        // Without the slash that an empty path would leave at the end.
        Some((at.to_owned(), at.join(inside).components().collect::<PathBuf>()))
    });
    // The last one is on top of others.
    let Some((top, inside)) = places.next_back() else { return Vec::new() };
    let above = inside.parent().filter(|above| above.starts_with(&top)).map(Path::to_owned);
    std::iter::once(inside).chain(above).collect()
}

/// Whose group it is, and when it was made. Another container may have the same numbers of processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Name {
    keeper: i32,
    /// Since the machine started, which nobody can set.
    made: Duration,
}

impl Name {
    fn new() -> Self {
        Self { keeper: getpid().as_raw_nonzero().get(), made: since_start() }
    }

    fn encode(self) -> String {
        format!("lilux-{}-{}", self.keeper, self.made.as_nanos())
    }

    fn decode(text: &str) -> Option<Self> {
        let (keeper, made) = text.strip_prefix("lilux-")?.split_once('-')?;
        let name = Self { keeper: keeper.parse().ok()?, made: Duration::from_nanos(made.parse().ok()?) };
        Some(name).filter(|name| name.encode() == text)
    }
}

fn since_start() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::try_from(now).unwrap_or_default()
}

/// Those of a kind that are in a directory. The kernel removes none that somebody is in.
fn remove(directory: &Path, is_left: impl Fn(Name) -> bool) {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let is_left =
        |entry: &fs::DirEntry| entry.file_name().to_str().and_then(Name::decode).is_some_and(&is_left);
    for group in entries.filter(is_left) {
        let _ = fs::remove_dir(group.path());
    }
}

/// The group of one run.
#[derive(Debug)]
pub struct Group {
    members: OwnedFd,
    /// After the members: nobody is in it any more.
    _made: Made,
}

/// A group's directory.
#[derive(Debug)]
struct Made(PathBuf);

impl Drop for Made {
    fn drop(&mut self) {
        // Somebody who can't be killed may be left in it: then it stays, and so does its limit.
        let _ = fs::remove_dir(&self.0);
    }
}

impl Group {
    /// Nobody is in it yet.
    pub fn make(directory: &Path, limits: &[(&str, u64)]) -> Result<Self, Errno> {
        let path = directory.join(Name::new().encode());
        rustix::fs::mkdir(&path, Mode::from_raw_mode(0o755))?;
        Self::limited(Made(path), limits)
    }

    fn limited(made: Made, limits: &[(&str, u64)]) -> Result<Self, Errno> {
        for (name, limit) in limits {
            let file = LIMITS.iter().find(|(known, ..)| known == name).map(|(_, _, file, _)| *file);
            set(&made.0.join(file.ok_or(Errno::INVAL)?), *limit)?;
            let further = WITH_MEMORY.iter().filter(|_| *name == "memory");
            for (file, value) in further {
                match set(&made.0.join(file), *value) {
                    Err(Errno::NOENT) => {}
                    done => done?,
                }
            }
        }
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let members = rustix::fs::open(made.0.join(MEMBERS), flags, Mode::empty())?;
        Ok(Self { members: sys::fd::above_fixed_places(members)?, _made: made })
    }

    /// The calling process goes into it. Only a system call.
    pub fn enter(&self) -> Result<(), Errno> {
        rustix::io::write(&self.members, b"0").map(drop)
    }

    /// Has to be open still when it is entered.
    pub fn raw(&self) -> RawFd {
        self.members.as_raw_fd()
    }
}

fn set(file: &Path, value: u64) -> Result<(), Errno> {
    let opened = fs::OpenOptions::new().write(true).open(file);
    let written = opened.and_then(|mut file| file.write_all(value.to_string().as_bytes()));
    written.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n";

    #[test]
    fn groups_are_looked_for_where_this_process_is_and_above() {
        let paths = |texts: &[&str]| texts.iter().map(PathBuf::from).collect::<Vec<_>>();
        let service = "0::/user.slice/user@1000.service/app.slice/a.scope\n";
        let app = "/sys/fs/cgroup/user.slice/user@1000.service/app.slice";
        assert_eq!(candidates(service, MOUNTS), paths(&[&format!("{app}/a.scope"), app]));
        assert_eq!(candidates("0::/\n", MOUNTS), paths(&["/sys/fs/cgroup/"]));
        let bound = MOUNTS.replace(" / /sys", " /user.slice /sys");
        let inside = "/sys/fs/cgroup/user@1000.service/app.slice";
        assert_eq!(candidates(service, &bound), paths(&[&format!("{inside}/a.scope"), inside]));
        assert_eq!(candidates("0::/elsewhere\n", &bound), paths(&[]));
        assert_eq!(candidates("4:memory:/a\n", MOUNTS), paths(&[]));
        assert_eq!(candidates(service, &MOUNTS.replace("cgroup2", "cgroup")), paths(&[]));
    }

    #[test]
    fn only_what_has_been_delegated_is_limited() {
        let root = made("delegated");
        for (text, expected) in [
            ("cpu pids memory\n", vec!["processes", "memory"]),
            ("cpuset memory\n", vec!["memory"]),
            ("hugetlb\n", vec![]),
        ] {
            fs::write(root.join(DELEGATED), text).expect("is written");
            let found: Vec<_> = delegated(&root).into_iter().map(|(name, _)| name).collect();
            assert_eq!(found, expected, "{text}");
        }
        let why = Groups::try_out(root.clone()).expect_err("nothing is delegated");
        assert!(why.ends_with("cgroup.subtree_control names neither pids nor memory"), "{why}");
        fs::remove_dir_all(root).expect("is removed");
    }

    #[test]
    fn a_group_gets_its_limits_before_anybody_is_in_it() {
        let root = made("limits");
        let files = [MEMBERS, "pids.max", "memory.max", "memory.swap.max"];
        files.iter().for_each(|file| fs::write(root.join(file), "").expect("is written"));
        let limits = [("processes", 7), ("memory", 1 << 30)];
        let group = Group::limited(Made(root.clone()), &limits).expect("has its files");
        let said = |file: &str| fs::read_to_string(root.join(file)).expect("is there");
        assert_eq!((said("pids.max"), said("memory.max")), ("7".to_owned(), (1u64 << 30).to_string()));
        assert_eq!((said("memory.swap.max"), said(MEMBERS)), ("0".to_owned(), String::new()));
        group.enter().expect("can be written");
        assert_eq!(said(MEMBERS), "0");
        fs::remove_file(root.join("pids.max")).expect("is removed");
        let refused = Group::limited(Made(root.clone()), &limits).expect_err("a limit cannot be set");
        assert_eq!(refused, Errno::NOENT);
        fs::remove_dir_all(root).expect("is removed");
    }

    #[test]
    fn what_a_keeper_that_was_killed_has_left_is_removed_and_nothing_else() {
        let root = made("left");
        let groups = Groups { directory: root.clone(), limits: Vec::new() };
        let now = since_start();
        let name = |keeper, made| Name { keeper, made }.encode();
        let (its, another, used) = (name(7, now), name(8, now), name(7, Duration::ZERO));
        for group in [&its, &another, &used, "lilux-7", "lilux-7-01", "lilux-7-1-1", "other-7-1"] {
            fs::create_dir(root.join(group)).expect("is made");
        }
        fs::write(root.join(&used).join("somebody"), "").expect("is written");
        groups.remove_of(&[Pid::from_raw(7).expect("is a number")]);
        assert!(!root.join(&its).exists());
        let left: Vec<_> = [&another, &used, "lilux-7", "lilux-7-01", "lilux-7-1-1", "other-7-1"]
            .into_iter()
            .filter(|group| root.join(group).exists())
            .collect();
        assert_eq!(left.len(), 6, "{left:?}");
        fs::remove_dir_all(root).expect("is removed");
    }

    fn made(name: &str) -> PathBuf {
        let root = std::env::temp_dir().join(format!("lilux-group-{name}-{}", std::process::id()));
        fs::create_dir_all(&root).expect("is made");
        root
    }
}
