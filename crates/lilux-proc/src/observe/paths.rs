//! From a path as a tool says it to the one place that it means.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2, readlink};
use rustix::io::Errno;

use crate::confine::{COMMON_DEVICES, SYSTEM};

const KERNEL: &[&str] = &["/proc", "/sys"];
const DEVICES: &[u8] = b"/dev";

/// What a call does with the last part of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Last {
    /// It has to be there.
    There,
    /// It may be made.
    MayBeNew,
    /// It is the entry itself that changes, not what it leads to.
    Entry,
}

/// Whether every tool may read it anyway.
pub fn is_of_system(path: &[u8]) -> bool {
    SYSTEM.iter().chain(KERNEL).any(|top| is_below(path, top.as_bytes()))
}

/// Whether it is one of the devices that every tool has.
pub fn is_common_device(path: &[u8]) -> bool {
    COMMON_DEVICES.iter().any(|device| path == device.as_bytes())
}

/// Whether it is this place, or in it.
pub fn is_below(path: &[u8], top: &[u8]) -> bool {
    path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// The file system as one process sees it.
pub struct View {
    thread: u32,
    root: OwnedFd,
    /// What our own view has before each of its paths.
    prefix: Vec<u8>,
}

impl View {
    pub fn of(thread: u32) -> Option<Self> {
        let link = format!("/proc/{thread}/root");
        let prefix = target(&link)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(link.as_str(), flags, Mode::empty()).ok()?;
        Some(Self { thread, root, prefix: if prefix == b"/" { Vec::new() } else { prefix } })
    }

    /// Where it is, without links. `Ok(None)` if nothing is there, so that nothing was needed.
    pub fn resolve(&self, directory: i32, path: &[u8], last: Last) -> Result<Option<Vec<u8>>, Errno> {
        let whole = self.absolute(directory, path)?;
        // A cell has few devices; what a tool looks for among them says what it needs.
        if is_below(&whole, DEVICES) || is_below(&whole, b"/proc") {
            return Ok(Some(whole));
        }
        let follow = if last == Last::Entry { OFlags::NOFOLLOW } else { OFlags::empty() };
        match self.place(&whole, follow) {
            Err(Errno::NOENT | Errno::NOTDIR) if last == Last::There => Ok(None),
            // The tool cannot get there either.
            Err(Errno::ACCESS) => Ok(None),
            Err(Errno::NOENT) => self.new_entry(&whole),
            Err(errno) => Err(errno),
            Ok(_) if last == Last::Entry => self.new_entry(&whole),
            Ok(found) => Ok(Some(found)),
        }
    }

    fn absolute(&self, directory: i32, path: &[u8]) -> Result<Vec<u8>, Errno> {
        if path.starts_with(b"/") {
            return Ok(path.to_vec());
        }
        let link = match directory {
            libc::AT_FDCWD => format!("/proc/{}/cwd", self.thread),
            number => format!("/proc/{}/fd/{number}", self.thread),
        };
        let base = self.inside(target(&link).ok_or(Errno::NOENT)?);
        Ok(if path.is_empty() { base } else { [&base, &b"/"[..], path].concat() })
    }

    /// The directory has to be there; its entry need not.
    fn new_entry(&self, whole: &[u8]) -> Result<Option<Vec<u8>>, Errno> {
        let end = whole.iter().rposition(|byte| *byte != b'/').map_or(0, |at| at + 1);
        let whole = &whole[..end];
        let Some(slash) = whole.iter().rposition(|byte| *byte == b'/') else { return Ok(None) };
        let (parent, name) = (&whole[..=slash], &whole[slash + 1..]);
        match self.place(parent, OFlags::DIRECTORY) {
            Ok(parent) => {
                let between: &[u8] = if parent.ends_with(b"/") { b"" } else { b"/" };
                Ok(Some([&parent, between, name].concat()))
            }
            Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    fn place(&self, path: &[u8], flags: OFlags) -> Result<Vec<u8>, Errno> {
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let flags = flags | OFlags::PATH | OFlags::CLOEXEC;
        let found = openat2(self.root.as_fd(), path, flags, Mode::empty(), resolve)?;
        let link = format!("/proc/self/fd/{}", found.as_raw_fd());
        Ok(self.inside(target(&link).ok_or(Errno::NOENT)?))
    }

    fn inside(&self, path: Vec<u8>) -> Vec<u8> {
        match path.strip_prefix(self.prefix.as_slice()) {
            Some([]) => b"/".to_vec(),
            Some(rest) if rest.starts_with(b"/") => rest.to_vec(),
            _ => path,
        }
    }
}

fn target(link: &str) -> Option<Vec<u8>> {
    readlink(link, Vec::new()).ok().map(std::ffi::CString::into_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_followed_but_for_an_entry_that_changes() {
        let base = std::env::temp_dir().join(format!("lilux-observe-{}", std::process::id()));
        std::fs::create_dir_all(base.join("real")).expect("a directory");
        std::fs::write(base.join("real/file"), "").expect("a file");
        let _ = std::fs::remove_file(base.join("link"));
        std::os::unix::fs::symlink("real/file", base.join("link")).expect("a link");
        let base = base.canonicalize().expect("there").to_str().expect("text").to_owned();
        let view = View::of(std::process::id()).expect("a view");
        let resolve = |path: &str, last| {
            let whole = format!("{base}/{path}");
            let found = view.resolve(libc::AT_FDCWD, whole.as_bytes(), last).expect("resolved");
            found.map(|found| String::from_utf8_lossy(&found).replace(&base, ""))
        };
        let there = |path: &str| Some(path.to_owned());
        assert_eq!(resolve("link", Last::There), there("/real/file"));
        assert_eq!(resolve("link", Last::Entry), there("/link"));
        assert_eq!(resolve("real/../link", Last::MayBeNew), there("/real/file"));
        assert_eq!(resolve("real/new", Last::There), None);
        assert_eq!(resolve("real/new", Last::MayBeNew), there("/real/new"));
        assert_eq!(resolve("real/new/", Last::Entry), there("/real/new"));
        assert_eq!(resolve("absent/new", Last::MayBeNew), None);
        std::fs::remove_dir_all(&base).expect("removed");
    }

    #[test]
    fn below_means_below() {
        assert!(is_below(b"/a", b"/a") && is_below(b"/a/b", b"/a"));
        assert!(!is_below(b"/ab", b"/a") && !is_below(b"/", b"/a"));
        assert!(is_of_system(b"/usr/bin/git") && !is_of_system(b"/usrx"));
    }
}
