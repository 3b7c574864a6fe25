//! Which system calls are looked at, and what each of them names.

use std::collections::BTreeMap;

use super::FactKind;
use super::paths::{Last, View};
use crate::confine::{Is, Rule, Table, Test, Verdict};
use crate::notify::peer::Peer;
use crate::notify::{Notice, memory};

/// Stands in an argument that `execve` does not have: the launch itself is not told of. A keeper that stands still until its
/// child has executed could not answer. A tool that says the same only hides from being learned about.
pub const LAUNCH: u32 = 0x6c69_6c78;
const OF_EXECVE_UNUSED: u8 = 3;
const SENDTO_ADDRESS: u8 = 4;

/// Where a path stands: the argument with its directory, if there is one, and its own.
type Place = (Option<u8>, u8);

#[derive(Clone, Copy)]
enum Flags {
    Argument(u8),
    /// The first number of a structure.
    Pointed(u8),
    Write,
}

#[derive(Clone, Copy)]
enum Call {
    Open(Place, Flags),
    Change(&'static [Place]),
    Execute(Place),
    /// The arguments with an address and its length.
    Connect(u8, u8),
    /// Only a socket in the file system is a change.
    Bind(u8, u8),
}

const FCHMODAT2: libc::c_long = 452;

const CALLS: &[(libc::c_long, Call)] = &[
    (libc::SYS_openat, Call::Open((Some(0), 1), Flags::Argument(2))),
    (libc::SYS_openat2, Call::Open((Some(0), 1), Flags::Pointed(2))),
    (libc::SYS_truncate, Call::Open((None, 0), Flags::Write)),
    (libc::SYS_unlinkat, Call::Change(&[(Some(0), 1)])),
    (libc::SYS_mkdirat, Call::Change(&[(Some(0), 1)])),
    (libc::SYS_mknodat, Call::Change(&[(Some(0), 1)])),
    (libc::SYS_symlinkat, Call::Change(&[(Some(1), 2)])),
    (libc::SYS_linkat, Call::Change(&[(Some(0), 1), (Some(2), 3)])),
    (libc::SYS_renameat2, Call::Change(&[(Some(0), 1), (Some(2), 3)])),
    (libc::SYS_fchmodat, Call::Open((Some(0), 1), Flags::Write)),
    (FCHMODAT2, Call::Open((Some(0), 1), Flags::Write)),
    (libc::SYS_fchownat, Call::Open((Some(0), 1), Flags::Write)),
    (libc::SYS_utimensat, Call::Open((Some(0), 1), Flags::Write)),
    (libc::SYS_execve, Call::Execute((None, 0))),
    (libc::SYS_execveat, Call::Execute((Some(0), 1))),
    (libc::SYS_connect, Call::Connect(1, 2)),
    (libc::SYS_sendto, Call::Connect(SENDTO_ADDRESS, 5)),
    (libc::SYS_bind, Call::Bind(1, 2)),
];

#[cfg(target_arch = "x86_64")]
const OLDER: &[(libc::c_long, Call)] = &[
    (libc::SYS_open, Call::Open((None, 0), Flags::Argument(1))),
    (libc::SYS_creat, Call::Open((None, 0), Flags::Write)),
    (libc::SYS_unlink, Call::Change(&[(None, 0)])),
    (libc::SYS_rmdir, Call::Change(&[(None, 0)])),
    (libc::SYS_mkdir, Call::Change(&[(None, 0)])),
    (libc::SYS_mknod, Call::Change(&[(None, 0)])),
    (libc::SYS_symlink, Call::Change(&[(None, 1)])),
    (libc::SYS_link, Call::Change(&[(None, 0), (None, 1)])),
    (libc::SYS_rename, Call::Change(&[(None, 0), (None, 1)])),
    (libc::SYS_renameat, Call::Change(&[(Some(0), 1), (Some(2), 3)])),
    (libc::SYS_chmod, Call::Open((None, 0), Flags::Write)),
    (libc::SYS_chown, Call::Open((None, 0), Flags::Write)),
    (libc::SYS_lchown, Call::Open((None, 0), Flags::Write)),
];
#[cfg(target_arch = "aarch64")]
const OLDER: &[(libc::c_long, Call)] = &[(libc::SYS_renameat, Call::Change(&[(Some(0), 1), (Some(2), 3)]))];

/// Everything else is left alone: a tool under observation is as free as it was.
pub fn table() -> Table {
    let told = |number: libc::c_long| match number {
        libc::SYS_execve => Rule {
            cases: vec![(vec![test(OF_EXECVE_UNUSED, Is::Equal(LAUNCH))], Verdict::Allow)],
            otherwise: Verdict::Tell,
        },
        // On a connected socket nothing is named.
        libc::SYS_sendto => Rule {
            cases: vec![(vec![test(SENDTO_ADDRESS, Is::NotZero)], Verdict::Tell)],
            otherwise: Verdict::Allow,
        },
        _ => Rule::always(Verdict::Tell),
    };
    let rules: BTreeMap<u32, Rule> =
        CALLS.iter().chain(OLDER).map(|(number, _)| (*number as u32, told(*number))).collect();
    Table { rules, last: None, foreign: Verdict::Allow }
}

fn test(argument: u8, is: Is) -> Test {
    Test::low(argument, u32::MAX, is)
}

/// What came of looking at a call.
#[derive(Debug, PartialEq, Eq)]
pub enum Sight {
    Seen(FactKind, Vec<u8>),
    /// It named something that could not be read.
    Unreadable,
}

/// What the call names. Nothing for what is not there, and so cannot be needed.
pub fn look(notice: &Notice) -> Vec<Sight> {
    let number = libc::c_long::from(notice.number);
    let Some((_, call)) = CALLS.iter().chain(OLDER).find(|(known, _)| *known == number) else {
        return Vec::new();
    };
    match *call {
        Call::Open(place, flags) => open(notice, place, flags),
        Call::Change(places) => {
            let change = |place: &Place| named(notice, *place, FactKind::Write, Last::Entry);
            places.iter().filter_map(change).collect()
        }
        Call::Execute(place) => named(notice, place, FactKind::Exec, Last::There).into_iter().collect(),
        Call::Connect(address, length) => peer(notice, address, length, FactKind::Connect),
        Call::Bind(address, length) => peer(notice, address, length, FactKind::Write),
    }
}

fn open(notice: &Notice, place: Place, flags: Flags) -> Vec<Sight> {
    let argument = |at: u8| notice.arguments[usize::from(at)];
    let flags = match flags {
        Flags::Write => Some(libc::O_WRONLY),
        Flags::Argument(at) => Some(argument(at) as i32),
        Flags::Pointed(at) => {
            let mut number = [0; 8];
            let count = memory::read(notice.thread, argument(at), &mut number);
            (count == Ok(8)).then(|| u64::from_ne_bytes(number) as i32)
        }
    };
    let Some(flags) = flags else { return vec![Sight::Unreadable] };
    let writes = flags & libc::O_ACCMODE != libc::O_RDONLY || flags & (libc::O_CREAT | libc::O_TRUNC) != 0;
    let last = if flags & libc::O_CREAT != 0 { Last::MayBeNew } else { Last::There };
    let kind = if writes { FactKind::Write } else { FactKind::Read };
    named(notice, place, kind, last).into_iter().collect()
}

fn named(notice: &Notice, (directory, path): Place, kind: FactKind, last: Last) -> Option<Sight> {
    let argument = |at: u8| notice.arguments[usize::from(at)];
    let address = argument(path);
    if address == 0 {
        // `utimensat` without a path means a descriptor, which was opened for it.
        return None;
    }
    let directory = directory.map_or(libc::AT_FDCWD, |at| argument(at) as i32);
    let Some(text) = memory::text(notice.thread, address) else { return Some(Sight::Unreadable) };
    let Some(view) = View::of(notice.thread) else { return Some(Sight::Unreadable) };
    match view.resolve(directory, &text, last) {
        Ok(found) => found.map(|path| Sight::Seen(kind, path)),
        Err(_) => Some(Sight::Unreadable),
    }
}

fn peer(notice: &Notice, address: u8, length: u8, kind: FactKind) -> Vec<Sight> {
    let argument = |at: u8| notice.arguments[usize::from(at)];
    let mut buffer = [0; 128];
    let size = (argument(length) as u32 as usize).min(buffer.len());
    match memory::read(notice.thread, argument(address), &mut buffer[..size]) {
        Ok(count) if count == size => named_peer(notice, &buffer[..size], kind).into_iter().collect(),
        _ => vec![Sight::Unreadable],
    }
}

fn named_peer(notice: &Notice, bytes: &[u8], kind: FactKind) -> Option<Sight> {
    match Peer::of(bytes)? {
        // Nothing of the file system changes; and with port 0 only the own address is looked for.
        Peer::Internet(address) if kind == FactKind::Connect && address.port() != 0 => {
            Some(Sight::Seen(kind, address.to_string().into_bytes()))
        }
        Peer::Path(path) => {
            let last = if kind == FactKind::Write { Last::Entry } else { Last::There };
            let view = View::of(notice.thread)?;
            match view.resolve(libc::AT_FDCWD, path, last) {
                Ok(found) => found.map(|path| Sight::Seen(kind, path)),
                Err(_) => Some(Sight::Unreadable),
            }
        }
        Peer::Internet(_) | Peer::Unspecified => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::confine::{OWN_ARCH, compile, interpret};

    #[test]
    fn only_calls_that_name_something_are_told_and_the_launch_is_not() {
        let program = compile(&table());
        let verdict =
            |number: libc::c_long, arguments| interpret(&program, OWN_ARCH, number as u32, arguments);
        let nothing = [0; 6];
        for (number, _) in CALLS.iter().chain(OLDER).filter(|(number, _)| *number != libc::SYS_sendto) {
            assert_eq!(verdict(*number, nothing), Verdict::Tell, "{number}");
        }
        for number in [libc::SYS_read, libc::SYS_sendmsg, libc::SYS_close, libc::SYS_exit_group, 5000] {
            assert_eq!(verdict(number, nothing), Verdict::Allow, "{number}");
        }
        let mut launch = nothing;
        launch[usize::from(OF_EXECVE_UNUSED)] = u64::from(LAUNCH);
        assert_eq!(verdict(libc::SYS_execve, launch), Verdict::Allow);
        assert_eq!(verdict(libc::SYS_sendto, nothing), Verdict::Allow);
        assert_eq!(verdict(libc::SYS_sendto, [3, 1, 1, 0, 0x7000, 16]), Verdict::Tell);
        assert_eq!(interpret(&program, 0x4000_0003, 5, nothing), Verdict::Allow);
    }
}
