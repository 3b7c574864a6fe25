//! Places of the file system as a policy names them: opened once, without following a link.

use std::cell::RefCell;
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, openat, openat2, statx};
use rustix::io::Errno;

use super::landlock::{Access, Ruleset};
use crate::error::SpawnError;
use crate::text::OsText;

/// What every program may read, if it is there.
///
/// Not all of `/nix`: the socket in it leads to a daemon that builds, and downloads, for everybody.
pub const SYSTEM: &[&str] = &[
    "/usr",
    "/etc",
    "/opt",
    "/nix/store",
    "/nix/var/nix/profiles",
    "/snap",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
];
/// What every program may use.
pub const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];
/// Of `/etc`, what tools may read where nothing can be hidden inside what they may read, if their user may read more than
/// everybody: as root, or in a group, it could read keys and passwords in the rest.
const ETC: &[&str] = &[
    "/etc/passwd",
    "/etc/group",
    "/etc/nsswitch.conf",
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/hostname",
    "/etc/resolv.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/etc/protocols",
    "/etc/networks",
    "/etc/localtime",
    "/etc/timezone",
    "/etc/locale.conf",
    "/etc/locale.alias",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/os-release",
    "/etc/debian_version",
    "/etc/lsb-release",
    "/etc/profile",
    "/etc/profile.d",
    "/etc/bash.bashrc",
    "/etc/inputrc",
    "/etc/wgetrc",
    "/etc/shells",
    "/etc/mime.types",
    "/etc/magic",
    "/etc/terminfo",
    "/etc/fonts",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/ca-certificates",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust/extracted",
    "/etc/crypto-policies",
    "/etc/gitconfig",
    "/etc/python3",
    "/etc/perl",
    "/etc/java",
    "/etc/xml",
    "/etc/skel",
];

/// A file or directory, held open so that its path may change its meaning without harm.
#[derive(Debug)]
pub struct Place {
    pub path: Vec<u8>,
    pub descriptor: OwnedFd,
    pub identity: Identity,
    pub is_directory: bool,
    pub owner: u32,
}

/// The same file, whatever its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    device: (u32, u32),
    inode: u64,
}

impl Identity {
    /// Of what a descriptor stands for. Only a system call.
    pub fn of(descriptor: &OwnedFd) -> Result<Self, Errno> {
        Ok(look(descriptor)?.0)
    }
}

fn look(descriptor: &OwnedFd) -> Result<(Identity, FileType, u32), Errno> {
    let wanted = rustix::fs::StatxFlags::BASIC_STATS;
    let found = statx(descriptor, c"", AtFlags::EMPTY_PATH, wanted)?;
    let identity = Identity { device: (found.stx_dev_major, found.stx_dev_minor), inode: found.stx_ino };
    Ok((identity, FileType::from_raw_mode(u32::from(found.stx_mode)), found.stx_uid))
}

/// Opens without following any link, for naming and for nothing else. Only a system call.
pub fn open_exactly<P: rustix::path::Arg>(path: P) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    path.into_with_c_str(|path| {
        match openat2(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve) {
            // As in a run of ours, whose filter cannot see what this call is to do.
            Err(Errno::NOSYS) => open_step_by_step(path.to_bytes()),
            opened => opened,
        }
    })
}

fn open_step_by_step(path: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let start = if path.starts_with(b"/") { c"/" } else { c"." };
    let mut reached = openat(CWD, start, flags, Mode::empty())?;
    for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
        reached = openat(&reached, name, flags, Mode::empty())?;
        if look(&reached)?.1 == FileType::Symlink {
            return Err(Errno::LOOP);
        }
    }
    Ok(reached)
}

impl Place {
    /// ELOOP when a link is on the way.
    pub fn open(path: &[u8]) -> Result<Self, Errno> {
        let descriptor = open_exactly(path)?;
        let (identity, kind, owner) = look(&descriptor)?;
        Ok(Self {
            path: path.to_vec(),
            descriptor,
            identity,
            is_directory: kind == FileType::Directory,
            owner,
        })
    }

    /// As `open`, for what a policy names: it has to be there.
    pub fn granted(path: &OsText) -> Result<Self, SpawnError> {
        Self::open(&path.0).map_err(|errno| unusable(&path.shown(), errno))
    }

    pub fn allow(&self, ruleset: &Ruleset, access: Access) -> Result<(), SpawnError> {
        let allowed = ruleset.allow(self.descriptor.as_raw_fd(), self.is_directory, access);
        allowed.map_err(|errno| unusable(&String::from_utf8_lossy(&self.path), errno))
    }
}

/// Why a path of a policy cannot be used.
pub fn unusable(path: &str, errno: Errno) -> SpawnError {
    let reason = match errno {
        Errno::LOOP => "a link is on the way".to_owned(),
        Errno::NOENT => "it does not exist".to_owned(),
        other => other.to_string(),
    };
    let message = format!("the policy of this run names {path}, which cannot be used: {reason}");
    SpawnError::new("policy_path", "isolate", Some(errno), message)
}

/// What the machine has of what every program needs. Opening it takes longer than all the rest of walls.
#[derive(Debug)]
pub struct System {
    at: Instant,
    pub directories: Vec<Place>,
    /// Links, as `/bin` is one today, and what they lead to.
    pub links: Vec<(Vec<u8>, Vec<u8>)>,
    pub etc: Vec<Place>,
    pub proc: Vec<Place>,
    pub devices: Vec<Place>,
}

/// What is replaced in the system is seen after so long.
const FRESH: Duration = Duration::from_secs(1);

thread_local! {
    static LAST: RefCell<Option<Rc<System>>> = const { RefCell::new(None) };
}

impl System {
    /// As it was a moment ago.
    pub fn here() -> Rc<Self> {
        LAST.with_borrow_mut(|last| match last {
            Some(known) if known.at.elapsed() < FRESH => Rc::clone(known),
            _ => Rc::clone(last.insert(Rc::new(Self::look()))),
        })
    }

    fn look() -> Self {
        let link = |path: &&str| {
            let target = fs::read_link(path).ok()?;
            Some((path.as_bytes().to_vec(), target.into_os_string().into_encoded_bytes()))
        };
        Self {
            at: Instant::now(),
            directories: those_there(SYSTEM),
            links: SYSTEM.iter().filter_map(link).collect(),
            etc: those_there(ETC),
            proc: those_there(&["/proc"]),
            devices: those_there(DEVICES),
        }
    }
}

/// A link is left to what it leads to.
fn those_there(paths: &[&str]) -> Vec<Place> {
    paths.iter().filter_map(|path| Place::open(path.as_bytes()).ok()).collect()
}

/// The file that names the servers of names, if it lies in `/etc`, which every cell shows.
pub fn resolver_in_etc() -> Option<Vec<u8>> {
    let real = fs::canonicalize("/etc/resolv.conf").ok()?;
    real.starts_with("/etc").then(|| real.into_os_string().into_encoded_bytes())
}

/// Where a file of `/etc` lies that is a link out of it, as `resolv.conf` often is.
pub fn resolver() -> Option<PathBuf> {
    let real = fs::canonicalize("/etc/resolv.conf").ok()?;
    let outside = !SYSTEM.iter().any(|system| real.starts_with(system));
    outside.then_some(real)
}

/// Whose file it is, of all that can be written: root needs capabilities to write what others own.
pub fn owned_by_others(places: &[Place]) -> bool {
    places.iter().any(|place| place.owner != 0 || in_it_is_anothers(place))
}

/// A directory of root's may be full of others' files; one look at its first entries tells.
fn in_it_is_anothers(place: &Place) -> bool {
    let path = PathBuf::from(std::ffi::OsStr::new(&*String::from_utf8_lossy(&place.path)));
    let entries = fs::read_dir(path).into_iter().flatten().flatten().take(16);
    entries.filter_map(|entry| entry.metadata().ok()).any(|found| found.uid() != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_link_is_followed_anywhere_on_the_way() {
        let root = std::env::temp_dir().join(format!("lilux-places-{}", std::process::id()));
        fs::create_dir_all(root.join("real/inside")).expect("is made");
        std::os::unix::fs::symlink(root.join("real"), root.join("link")).expect("is made");
        let open = |name: &str| {
            let path = root.join(name);
            let path = path.as_os_str().as_encoded_bytes();
            let identity = Place::open(path).map(|place| place.identity);
            let step_by_step = open_step_by_step(path).and_then(|opened| Identity::of(&opened));
            assert_eq!(identity, step_by_step, "{name}");
            identity
        };
        let real = open("real/inside").expect("no link is on the way");
        assert_eq!(open("link").expect_err("is a link"), Errno::LOOP);
        assert_eq!(open("link/inside").expect_err("leads through one"), Errno::LOOP);
        assert_eq!(open("missing").expect_err("is not there"), Errno::NOENT);
        fs::rename(root.join("real"), root.join("moved")).expect("is moved");
        assert_eq!(open("moved/inside"), Ok(real));
        fs::remove_dir_all(root).expect("is removed");
    }
}
