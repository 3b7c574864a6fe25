//! The direct children of this process, as the kernel lists them.
//!
//! A subreaper's orphaned descendants become its direct children. So when this list holds nobody but a tool that is
//! already dead, nothing of that tool's tree is alive; and killing everything on it, again and again, reaches all of it.
//! The list can be relied on because only this process, of one thread, ever removes somebody from it, by reaping.

use std::fs;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, getpid};

/// Lists the children of the process that opened it.
pub struct Children {
    file: Option<OwnedFd>,
    me: Pid,
}

impl Children {
    /// Must be opened in the process whose children are meant, after its fork.
    pub fn open() -> Self {
        let me = getpid();
        let path = format!("/proc/self/task/{me}/children");
        // Kernels without CONFIG_PROC_CHILDREN do not have the file; there, all of /proc is scanned.
        let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok();
        Self { file, me }
    }

    /// Those of another process of ours. Only that it is empty can be relied on: they may end while it is read.
    pub fn of(parent: Pid) -> Self {
        let path = format!("/proc/{parent}/task/{parent}/children");
        let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok();
        Self { file, me: parent }
    }

    /// In no particular order; zombies included.
    pub fn list(&self) -> Result<Vec<Pid>, Errno> {
        match &self.file {
            Some(file) => read_list(file),
            None => {
                Ok(processes().filter(|process| process.parent == Some(self.me)).map(|p| p.pid).collect())
            }
        }
    }
}

fn read_list(file: &OwnedFd) -> Result<Vec<Pid>, Errno> {
    let mut text = Vec::new();
    let mut piece = [0u8; 4096];
    loop {
        let count = rustix::io::pread(file, &mut piece, text.len() as u64)?;
        if count == 0 {
            break;
        }
        text.extend_from_slice(&piece[..count]);
    }
    let words = text.split(|byte| *byte == b' ').filter_map(|word| std::str::from_utf8(word).ok());
    Ok(words.filter_map(|word| Pid::from_raw(word.parse().ok()?)).collect())
}

/// Without /proc a list would be empty, and look as if nobody were left.
pub fn can_be_listed() -> bool {
    Process::read(getpid()).is_some()
}

/// One process as `/proc/<pid>/stat` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    pub pid: Pid,
    pub parent: Option<Pid>,
    pub group: Option<Pid>,
    pub session: Option<Pid>,
}

impl Process {
    /// `None` when there is no such process.
    pub fn read(pid: Pid) -> Option<Self> {
        Self::parse(pid, &fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// The fields stand behind the last `)`: the name before it may itself hold spaces and parentheses.
    fn parse(pid: Pid, stat: &[u8]) -> Option<Self> {
        let end_of_name = stat.iter().rposition(|byte| *byte == b')')?;
        let text = std::str::from_utf8(&stat[end_of_name + 1..]).ok()?;
        let mut fields = text.split_ascii_whitespace();
        fields.next()?;
        let mut number = || Some(Pid::from_raw(fields.next()?.parse().ok()?));
        Some(Self { pid, parent: number()?, group: number()?, session: number()? })
    }
}

/// Every process that can be seen.
pub fn processes() -> impl Iterator<Item = Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let pid = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
        Process::read(pid)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_full_of_parentheses_does_not_shift_the_fields() {
        let pid = Pid::from_raw(7).expect("not zero");
        let process = Process::parse(pid, b"7 (a) R 1 (b)) Z 3 4 5 0 -1").expect("is a stat line");
        assert_eq!(process.parent, Pid::from_raw(3));
        assert_eq!(process.group, Pid::from_raw(4));
        assert_eq!(process.session, Pid::from_raw(5));
    }

    #[test]
    fn the_list_and_the_scan_agree_about_a_real_child() {
        let mut child = std::process::Command::new("/bin/sleep").arg("60").spawn().expect("sleep starts");
        let pid = Pid::from_child(&child);
        let listed = Process::read(pid).expect("the child is there");
        assert!(processes().any(|process| process.pid == pid && process.parent == listed.parent));
        child.kill().expect("can be killed");
        child.wait().expect("can be reaped");
        assert!(Process::read(pid).is_none());
    }
}
