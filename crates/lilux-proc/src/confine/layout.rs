//! What a cell shows, as steps that need nothing but system calls to carry out.
//!
//! What is deeper comes later, so that it stands on top. What lies inside a tree that is shown already needs no place to be
//! made; everything else gets one in the private file system that is the cell's root.

use std::collections::BTreeMap;
use std::ffi::CString;

use rustix::io::Errno;

use super::cell::STAGE;
use super::hidden::Hidden;
use super::places::{self, Identity, Place, System, unusable};
use crate::error::SpawnError;
use crate::policy::{Net, Policy};
use crate::switches::Guard;

/// One step; paths are relative to the cell's root.
#[derive(Debug)]
pub enum Step {
    Directory {
        path: CString,
        mode: u32,
        /// The directory that it is made in, where a tool may have left links and directories before.
        inside: Option<CString>,
    },
    File {
        path: CString,
        inside: Option<CString>,
    },
    Link {
        path: CString,
        target: CString,
    },
    Bind(Bind),
    /// As `Bind`, of a name that only root can give to something else, at the same path. What can be done with it, `Attributes`
    /// says that follow.
    System {
        source: CString,
        at: CString,
    },
    /// How everything can be used that has been shown so far.
    Attributes(Kind),
    /// From here on, nobody can change the files that masks are made of.
    Shut,
    /// Something empty on top, so that what is there cannot be read.
    Mask {
        path: CString,
        is_directory: bool,
        /// It was there a moment ago, and was not looked at again.
        may_be_gone: bool,
    },
    /// As `Mask`, of a name that only root can give to something else, which may be gone.
    MaskSystem {
        at: CString,
        is_directory: bool,
    },
}

/// A place of the machine, shown in the cell.
#[derive(Debug)]
pub struct Bind {
    pub source: CString,
    pub identity: Identity,
    pub path: CString,
    pub kind: Kind,
    /// It replaces itself: what it covers has to be the same file.
    pub covers_itself: bool,
}

/// How it can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Read,
    Write,
    Device,
}

/// What masks are made of.
pub const EMPTIES: &std::ffi::CStr = c"dev/.empty";
pub const EMPTY_DIRECTORY: &std::ffi::CStr = c"dev/.empty/directory";
pub const EMPTY_FILE: &std::ffi::CStr = c"dev/.empty/file";
/// The same, while the root is built.
pub const STAGED_EMPTY_DIRECTORY: &std::ffi::CStr = c"/proc/dev/.empty/directory";
pub const STAGED_EMPTY_FILE: &std::ffi::CStr = c"/proc/dev/.empty/file";

/// The steps of one cell.
#[derive(Debug, Default)]
pub struct Layout {
    pub steps: Vec<Step>,
    home: Option<Vec<u8>>,
    shown: BTreeMap<Vec<u8>, Kind>,
    made: BTreeMap<Vec<u8>, ()>,
    /// Where something is shown that lies elsewhere on the machine, so that nothing below it is what its path says.
    elsewhere: BTreeMap<Vec<u8>, ()>,
}

impl Layout {
    /// Opens every place that is to be shown. `hidden` are places that are masked whatever the policy says.
    pub fn of(policy: &Policy, written: &[Place], hidden: &[Hidden]) -> Result<Self, SpawnError> {
        let mut layout = Self::default();
        layout.make_frame();
        layout.show_system();
        if matches!(policy.net, Net::Any | Net::Ports(_)) {
            layout.show_resolver();
        }
        if let Some(home) = &policy.home {
            layout.make_home(&home.0)?;
        }
        layout.show_grants(policy, written)?;
        if Guard::CellProtect.is_on() {
            layout.protect(policy)?;
        }
        if Guard::CellMask.is_on() {
            hidden.iter().try_for_each(|each| layout.hide(each))?;
            policy.mask.iter().try_for_each(|path| layout.mask(&path.0))?;
        }
        Ok(layout)
    }

    /// For a message: what a step was about.
    pub fn name_of(&self, step: usize) -> String {
        let path = match self.steps.get(step) {
            Some(Step::Bind(bind)) => &bind.source,
            Some(
                Step::Directory { path, .. }
                | Step::File { path, .. }
                | Step::Link { path, .. }
                | Step::System { source: path, .. }
                | Step::Mask { path, .. }
                | Step::MaskSystem { at: path, .. },
            ) => path,
            Some(Step::Shut | Step::Attributes(_)) | None => return "the cell".to_owned(),
        };
        path.to_string_lossy().into_owned()
    }

    fn make_frame(&mut self) {
        for path in ["/proc", "/dev", "/dev/pts", "/var", "/run"] {
            self.directory(path.as_bytes(), 0o755);
        }
        for path in ["/tmp", "/var/tmp", "/dev/shm"] {
            self.directory(path.as_bytes(), 0o1777);
        }
        let links = [
            ("/dev/fd", "/proc/self/fd"),
            ("/dev/stdin", "/proc/self/fd/0"),
            ("/dev/stdout", "/proc/self/fd/1"),
            ("/dev/stderr", "/proc/self/fd/2"),
            ("/dev/ptmx", "pts/ptmx"),
        ];
        for (path, target) in links {
            self.link(path.as_bytes(), target.as_bytes());
        }
    }

    fn show_system(&mut self) {
        let system = System::here();
        for (path, target) in &system.links {
            self.link(path, target);
        }
        for place in &system.directories {
            // Further down, somebody else than root may own the directory that a name is in.
            if depth(&place.path) == 1 {
                self.show_by_name(place, Kind::Read);
            } else {
                self.show(place, Kind::Read);
            }
        }
        // Before the devices, which are not to be used as files in these directories are.
        self.steps.push(Step::Attributes(Kind::Read));
        for place in &system.devices {
            self.show_by_name(place, Kind::Device);
        }
        self.steps.push(Step::Attributes(Kind::Device));
    }

    /// Nothing has been shown yet that it could be in.
    fn show_by_name(&mut self, place: &Place, kind: Kind) {
        self.make_target(place, &place.path);
        self.steps.push(Step::System { source: absolute(&place.path), at: staged(&place.path) });
        self.shown.insert(place.path.clone(), kind);
    }

    fn show_resolver(&mut self) {
        let resolver = places::resolver().map(|path| Place::open(path.as_os_str().as_encoded_bytes()));
        if let Some(Ok(place)) = resolver {
            self.show(&place, Kind::Read);
        }
    }

    fn make_home(&mut self, home: &[u8]) -> Result<(), SpawnError> {
        if self.nearest(home).is_some() {
            return Err(unusable(&String::from_utf8_lossy(home), Errno::BUSY));
        }
        self.make_parents(home);
        self.directory(home, 0o700);
        self.home = Some(home.to_vec());
        Ok(())
    }

    fn show_grants(&mut self, policy: &Policy, written: &[Place]) -> Result<(), SpawnError> {
        let open = |paths: &[crate::text::OsText]| -> Result<Vec<Place>, SpawnError> {
            paths.iter().map(Place::granted).collect()
        };
        let (read, devices) = (open(&policy.read)?, open(&policy.devices)?);
        let read = read.iter().map(|place| (place, Kind::Read));
        let written = written.iter().map(|place| (place, Kind::Write));
        let devices = devices.iter().map(|place| (place, Kind::Device));
        let mut all: Vec<(&Place, Kind)> = read.chain(written).chain(devices).collect();
        // The wider grant of the same place first: it makes the other one superfluous.
        all.sort_by_key(|(place, kind)| (depth(&place.path), place.path.clone(), std::cmp::Reverse(*kind)));
        let mut binds: Vec<&crate::policy::Bind> = policy.binds.iter().collect();
        binds.sort_by_key(|bind| depth(&bind.target.0));
        let mut binds = binds.into_iter().peekable();
        for (place, kind) in all {
            // What is bound above a grant comes before it, or else would hide it.
            while let Some(bind) = binds.next_if(|bind| depth(&bind.target.0) < depth(&place.path)) {
                self.show_elsewhere(bind)?;
            }
            self.show(place, kind);
        }
        binds.try_for_each(|bind| self.show_elsewhere(bind))
    }

    fn show_elsewhere(&mut self, bind: &crate::policy::Bind) -> Result<(), SpawnError> {
        let (place, target) = (Place::granted(&bind.source)?, &bind.target.0);
        self.show_at(&place, target, if bind.write { Kind::Write } else { Kind::Read });
        if place.path == *target {
            return Ok(());
        }
        self.elsewhere.insert(target.clone(), ());
        self.made.retain(|path, ()| path == target || !is_within(path, target));
        // It hides a home that has been made below it.
        if let Some(home) = self.home.clone().filter(|home| home != target && is_within(home, target)) {
            self.make_parents(&home);
            self.directory(&home, 0o700);
        }
        Ok(())
    }

    fn show(&mut self, place: &Place, kind: Kind) {
        let shown = self.nearest(&place.path).filter(|_| !self.is_elsewhere(&place.path));
        if shown.is_some_and(|shown| shown == kind || shown == Kind::Write) {
            return;
        }
        self.show_at(place, &place.path, kind);
    }

    fn show_at(&mut self, place: &Place, target: &[u8], kind: Kind) {
        if self.nearest(target).is_none() || self.is_elsewhere(target) {
            self.make_target(place, target);
        }
        self.bind(place, target, kind, false);
        self.shown.insert(target.to_vec(), kind);
    }

    fn make_target(&mut self, place: &Place, target: &[u8]) {
        self.make_parents(target);
        if place.is_directory {
            self.directory(target, 0o755);
        } else if self.made.insert(target.to_vec(), ()).is_none() {
            self.steps.push(Step::File { path: relative(target), inside: self.inside(target) });
        }
    }

    fn bind(&mut self, place: &Place, target: &[u8], kind: Kind, covers_itself: bool) {
        self.steps.push(Step::Bind(Bind {
            source: absolute(&place.path),
            identity: place.identity,
            path: relative(target),
            kind,
            covers_itself,
        }));
    }

    /// Read-only on top of itself; what is not there cannot be protected, and what is a link is refused.
    fn protect(&mut self, policy: &Policy) -> Result<(), SpawnError> {
        for path in &policy.protect {
            match Place::open(&path.0) {
                Ok(place) if self.nearest(&path.0) == Some(Kind::Write) => {
                    self.pin(&path.0)?;
                    self.bind(&place, &path.0, Kind::Read, true);
                    self.shown.insert(path.0.clone(), Kind::Read);
                }
                Ok(_) | Err(Errno::NOENT | Errno::NOTDIR) => {}
                Err(errno) => return Err(unusable(&path.shown(), errno)),
            }
        }
        Ok(())
    }

    /// What a directory holds could be exchanged by moving that directory away; one that is a mount cannot be moved.
    fn pin(&mut self, path: &[u8]) -> Result<(), SpawnError> {
        for parent in ancestors(path) {
            let is_written = self.nearest(parent) == Some(Kind::Write) && !self.is_elsewhere(parent);
            if is_written && !self.shown.contains_key(parent) {
                let refused = |errno| unusable(&String::from_utf8_lossy(parent), errno);
                let place = Place::open(parent).map_err(refused)?;
                self.bind(&place, parent, Kind::Write, true);
                self.shown.insert(parent.to_vec(), Kind::Write);
            }
        }
        Ok(())
    }

    fn mask(&mut self, path: &[u8]) -> Result<(), SpawnError> {
        match Place::open(path) {
            Ok(place) if self.nearest(path).is_some() => {
                self.pin(path)?;
                self.cover(path, place.is_directory, false);
                Ok(())
            }
            Ok(_) | Err(Errno::NOENT | Errno::NOTDIR) => Ok(()),
            Err(errno) => Err(unusable(&String::from_utf8_lossy(path), errno)),
        }
    }

    /// As `mask`, without another look at it.
    fn hide(&mut self, hidden: &Hidden) -> Result<(), SpawnError> {
        if self.nearest(&hidden.path).is_none() {
            return Ok(());
        }
        // What a policy shows in its place has other names above it.
        if hidden.is_named_by_root && !self.is_elsewhere(&hidden.path) {
            self.make_empties();
            self.steps.push(Step::MaskSystem { at: staged(&hidden.path), is_directory: hidden.is_directory });
            return Ok(());
        }
        self.pin(&hidden.path)?;
        self.cover(&hidden.path, hidden.is_directory, true);
        Ok(())
    }

    fn cover(&mut self, path: &[u8], is_directory: bool, may_be_gone: bool) {
        self.make_empties();
        self.steps.push(Step::Mask { path: relative(path), is_directory, may_be_gone });
    }

    fn make_empties(&mut self) {
        if self.made.contains_key(b"/dev/.empty".as_slice()) {
            return;
        }
        self.directory(b"/dev/.empty", 0o755);
        self.directory(b"/dev/.empty/directory", 0o755);
        self.steps.push(Step::File { path: EMPTY_FILE.to_owned(), inside: None });
        self.steps.push(Step::Shut);
    }

    /// How the tree is shown that a path lies in, or is the top of.
    fn nearest(&self, path: &[u8]) -> Option<Kind> {
        let above = ancestors(path).into_iter().rev();
        std::iter::once(path).chain(above).find_map(|path| self.shown.get(path)).copied()
    }

    /// Whether what is shown at a path comes from another one.
    fn is_elsewhere(&self, path: &[u8]) -> bool {
        let above = ancestors(path).into_iter().rev();
        let nearest = std::iter::once(path).chain(above).find(|path| self.shown.contains_key(*path));
        nearest.is_some_and(|path| self.elsewhere.contains_key(path))
    }

    fn inside(&self, path: &[u8]) -> Option<CString> {
        let parent = ancestors(path).pop()?;
        self.is_elsewhere(parent).then(|| relative(parent))
    }

    fn make_parents(&mut self, path: &[u8]) {
        for parent in ancestors(path) {
            // Nobody else is in the cell, and some programs want what they keep to be their user's alone.
            self.directory(parent, 0o700);
        }
    }

    fn directory(&mut self, path: &[u8], mode: u32) {
        if self.made.insert(path.to_vec(), ()).is_none() {
            self.steps.push(Step::Directory { path: relative(path), mode, inside: self.inside(path) });
        }
    }

    fn link(&mut self, path: &[u8], target: &[u8]) {
        if let Ok(target) = CString::new(target) {
            self.steps.push(Step::Link { path: relative(path), target });
        }
    }
}

fn is_within(path: &[u8], above: &[u8]) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.first().is_none_or(|byte| *byte == b'/'))
}

fn depth(path: &[u8]) -> usize {
    path.iter().filter(|byte| **byte == b'/').count()
}

/// From the top, without the root and without itself.
fn ancestors(path: &[u8]) -> Vec<&[u8]> {
    let ends = path.iter().enumerate().skip(1).filter(|(_, byte)| **byte == b'/');
    ends.map(|(end, _)| &path[..end]).collect()
}

/// Paths of a policy have no NUL in them; those of the system neither.
fn absolute(path: &[u8]) -> CString {
    CString::new(path).unwrap_or_default()
}

/// Where it is while the root is built.
fn staged(path: &[u8]) -> CString {
    absolute(&[STAGE.to_bytes(), path].concat())
}

fn relative(path: &[u8]) -> CString {
    absolute(path.strip_prefix(b"/").unwrap_or(path))
}

#[cfg(test)]
mod tests;
