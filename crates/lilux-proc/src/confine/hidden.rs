//! Files of `/etc` that are not for everybody: root may read them, and so may members of a group, but none of their tools.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Access, access};

/// A mode that was changed, and nothing else, is noticed after so long.
const OLD: Duration = Duration::from_secs(60);
/// Anything else after so long: a look at every directory takes as long as the rest of a cell.
const FRESH: Duration = Duration::from_secs(1);
/// In a user namespace this belongs to nobody, and ssh refuses configuration of strangers.
const SSH: &str = "/etc/ssh/ssh_config.d";

/// A place that no tool sees, as it was when it was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hidden {
    pub path: Vec<u8>,
    pub is_directory: bool,
    /// Nobody but root can give its name to something else.
    pub is_named_by_root: bool,
}

impl Hidden {
    /// None of what is not there, or is a link.
    fn here(path: &[u8]) -> Option<Self> {
        let real = Path::new(OsStr::from_bytes(path));
        let found = fs::symlink_metadata(real).ok()?;
        let is_named_by_root = real
            .ancestors()
            .skip(1)
            .all(|above| fs::symlink_metadata(above).is_ok_and(|found| is_roots_alone(&found)));
        let hidden = Self { path: path.to_vec(), is_directory: found.is_dir(), is_named_by_root };
        (!found.is_symlink()).then_some(hidden)
    }
}

/// Seconds and nanoseconds of the last change, as the file system tells it: compared with itself only.
type Changed = (i64, i64);

struct Walk {
    at: Instant,
    looked: Cell<Instant>,
    directories: HashMap<PathBuf, Changed>,
    hidden: Vec<Hidden>,
}

thread_local! {
    static LAST: RefCell<Option<Walk>> = const { RefCell::new(None) };
}

/// What is masked in every cell, and of a cell without a resolver of its own the file that names those of the machine.
pub fn of_system(root: bool, user_namespace: bool, resolver: Option<Vec<u8>>) -> Vec<Hidden> {
    let mut hidden = in_etc(root);
    let ssh = user_namespace.then(|| SSH.as_bytes().to_vec());
    hidden.extend(ssh.into_iter().chain(resolver).filter_map(|path| Hidden::here(&path)));
    hidden
}

/// Whether a user who is not root may read more of `/etc` than everybody.
pub fn is_trusted_with_etc() -> bool {
    !in_etc(false).is_empty()
}

/// Remembered for as long as no directory has changed.
fn in_etc(root: bool) -> Vec<Hidden> {
    LAST.with_borrow_mut(|last| {
        if let Some(walk) = last.as_ref().filter(|walk| walk.holds()) {
            return walk.hidden.clone();
        }
        let walk = Walk::through("/etc", root);
        let hidden = walk.hidden.clone();
        *last = Some(walk);
        hidden
    })
}

impl Walk {
    /// What others may not read, as far as this user can: root always can.
    fn through(root: &str, is_root: bool) -> Self {
        let mut walk = Self {
            at: Instant::now(),
            looked: Cell::new(Instant::now()),
            directories: HashMap::new(),
            hidden: Vec::new(),
        };
        let mut waiting = vec![(PathBuf::from(root), true)];
        while let Some((directory, above)) = waiting.pop() {
            let is_named_by_root =
                above && fs::symlink_metadata(&directory).is_ok_and(|found| is_roots_alone(&found));
            // Before its entries are read: what changes meanwhile is noticed at the next look.
            walk.directories.insert(directory.clone(), changed(&directory));
            for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
                let Ok(found) = entry.metadata() else { continue };
                let (path, mode) = (entry.path(), found.mode());
                let open_to_others = if found.is_dir() { mode & 0o005 == 0o005 } else { mode & 0o004 != 0 };
                if found.is_symlink() {
                    continue;
                }
                if !open_to_others && !is_root && !is_reached(&path, found.is_dir()) {
                    continue;
                }
                if !open_to_others {
                    let path = path.as_os_str().as_bytes().to_vec();
                    walk.hidden.push(Hidden { path, is_directory: found.is_dir(), is_named_by_root });
                } else if found.is_dir() {
                    waiting.push((path, is_named_by_root));
                }
            }
        }
        walk
    }

    fn holds(&self) -> bool {
        let looked = self.looked.get().elapsed() < FRESH;
        let holds = looked || self.at.elapsed() < OLD && self.is_unchanged();
        if holds && !looked {
            self.looked.set(Instant::now());
        }
        holds
    }

    fn is_unchanged(&self) -> bool {
        self.directories.iter().all(|(path, then)| changed(path) == *then)
    }
}

/// A directory, not a link, in which only root can change names.
fn is_roots_alone(found: &fs::Metadata) -> bool {
    found.is_dir() && found.uid() == 0 && found.mode() & 0o022 == 0
}

fn is_reached(path: &Path, is_directory: bool) -> bool {
    let ways: &[Access] = if is_directory { &[Access::READ_OK, Access::EXEC_OK] } else { &[Access::READ_OK] };
    ways.iter().any(|way| access(path, *way).is_ok())
}

fn changed(path: &Path) -> Changed {
    fs::metadata(path).map(|found| (found.ctime(), found.ctime_nsec())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_others_may_not_read_is_found_and_a_new_file_is_noticed() {
        let root = std::env::temp_dir().join(format!("lilux-hidden-{}", std::process::id()));
        fs::create_dir_all(root.join("open/closed")).expect("is made");
        let close = |name: &str, mode| {
            fs::set_permissions(root.join(name), fs::Permissions::from_mode(mode)).expect("is changed");
        };
        fs::write(root.join("open/secret"), "s").expect("is written");
        fs::write(root.join("open/plain"), "p").expect("is written");
        close("open/secret", 0o640);
        close("open/closed", 0o750);
        let walk = Walk::through(root.to_str().expect("is UTF-8"), false);
        let named = |each: &Hidden| (each.path[root.as_os_str().len()..].to_vec(), each.is_directory);
        let mut names: Vec<_> = walk.hidden.iter().map(named).collect();
        names.sort_unstable();
        assert_eq!(names, [(b"/open/closed".to_vec(), true), (b"/open/secret".to_vec(), false)]);
        assert_eq!(
            walk.hidden.iter().map(|each| each.is_named_by_root).collect::<Vec<_>>(),
            [rustix::process::getuid().is_root(); 2]
        );
        close("open", 0o777);
        let walk = Walk::through(root.to_str().expect("is UTF-8"), false);
        assert!(walk.hidden.iter().all(|each| !each.is_named_by_root), "anybody may rename them");
        assert!(walk.is_unchanged());
        std::thread::sleep(Duration::from_millis(20));
        fs::write(root.join("open/another"), "a").expect("is written");
        assert!(!walk.is_unchanged());
        fs::remove_dir_all(root).expect("is removed");
    }
}
