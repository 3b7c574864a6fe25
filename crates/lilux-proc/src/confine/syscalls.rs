//! Which system calls a confined tool may not make: everything else is allowed.
//!
//! EPERM where a program should hear that it may not, ENOSYS where it has another way when the kernel is older.

use std::collections::BTreeMap;

use super::filter::{Is, Rule, Table, Test, Verdict};

/// `file_setattr`, the last that was looked at. What the kernel gets later is unknown here, and so it is to the tool.
const LAST: u32 = 469;

/// Namespaces that `clone` would make.
const CLONE_NEW: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u32;
/// Of a socket's type, without `SOCK_NONBLOCK` and `SOCK_CLOEXEC`.
const TYPE: u32 = 0xf;
const TIOCLINUX: u32 = 0x541c;
/// Input for a terminal; all of a volume as a snapshot in one directory of it, before Linux 6.8; and what changes files and
/// directories that have been opened for reading, or closes those of the user elsewhere, which no other call does.
const IOCTLS: &[u32] = &[
    libc::TIOCSTI as u32,
    TIOCLINUX,
    BTRFS_SNAPSHOT,
    BTRFS_SNAPSHOT_2,
    BTRFS_MAKE_VOLUME,
    BTRFS_MAKE_VOLUME_2,
    BTRFS_REMOVE_VOLUME,
    BTRFS_REMOVE_VOLUME_2,
    BTRFS_CHANGE_VOLUME,
    BCACHEFS_MAKE_VOLUME,
    BCACHEFS_REMOVE_VOLUME,
    ADD_ENCRYPTION_KEY,
    REMOVE_ENCRYPTION_KEY,
    ENABLE_VERITY,
    SET_ENCRYPTION,
];
const BTRFS_MAKE_VOLUME: u32 = 0x5000_940e;
const BTRFS_MAKE_VOLUME_2: u32 = 0x5000_9418;
const BTRFS_REMOVE_VOLUME: u32 = 0x5000_940f;
const BTRFS_REMOVE_VOLUME_2: u32 = 0x5000_943f;
/// It can be read only, or written again.
const BTRFS_CHANGE_VOLUME: u32 = 0x4008_941a;
/// Of another one, which makes snapshots.
const BCACHEFS_MAKE_VOLUME: u32 = 0x4020_bc10;
const BCACHEFS_REMOVE_VOLUME: u32 = 0x4020_bc11;
/// Nobody can write the file any more.
const ENABLE_VERITY: u32 = 0x4080_6685;
const SET_ENCRYPTION: u32 = 0x800c_6613;
/// The user's encrypted directories can be read with it, wherever they are.
const ADD_ENCRYPTION_KEY: u32 = 0xc050_6617;
const REMOVE_ENCRYPTION_KEY: u32 = 0xc040_6618;
const BTRFS_SNAPSHOT: u32 = 0x5000_9401;
const BTRFS_SNAPSHOT_2: u32 = 0x5000_9417;
/// Something else than TCP for what was a TCP socket.
const TCP_ULP: u32 = 31;
const MPTCP: i32 = 262;
/// The hosts that packets visit on their way: the first of them would be sent to in place of the address that was checked.
const ROUTES: [(i32, u32); 4] = [
    (libc::IPPROTO_IP, libc::IP_OPTIONS as u32),
    (libc::IPPROTO_IPV6, libc::IPV6_RTHDR as u32),
    (libc::IPPROTO_IPV6, IPV6_2292RTHDR),
    (libc::IPPROTO_IPV6, IPV6_2292PKTOPTIONS),
];
const IPV6_2292RTHDR: u32 = 5;
const IPV6_2292PKTOPTIONS: u32 = 6;
/// Resolvers want to hear of errors, and give up if they may not. What stands in for their socket has none.
const ERRORS_OF_UDP: [(i32, u32); 2] =
    [(libc::IPPROTO_IP, libc::IP_RECVERR as u32), (libc::IPPROTO_IPV6, libc::IPV6_RECVERR as u32)];

/// What a tool may do with sockets of the internet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sockets {
    None,
    /// TCP to some ports, which Landlock knows: nothing that Landlock does not see.
    Tcp,
    /// TCP that somebody else connects, and what stands in for UDP to ask for names.
    Brokered,
    Any,
}

/// What decides about a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Namespaces of its own are around the tool: what has names in them is its own.
    pub cell: bool,
    pub sockets: Sockets,
    /// Its files are root's: a set-gid program that it leaves behind would be a way to root's group, too.
    pub root: bool,
    /// It is a zygote, and what it forks enters a cell of its own; without capabilities, nobody can.
    pub enters: bool,
}

const EPERM: Verdict = Verdict::Errno(libc::EPERM);
const EACCES: Verdict = Verdict::Errno(libc::EACCES);
const ENOSYS: Verdict = Verdict::Errno(libc::ENOSYS);

/// Mounts, namespaces, modules, the machine itself, and windows into the kernel.
const NEVER: &[libc::c_long] = &[
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    OPEN_TREE_ATTR,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_syslog,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_fanotify_mark,
];
const OPEN_TREE_ATTR: libc::c_long = 467;

/// Programs have another way than these.
const ABSENT: &[libc::c_long] = &[
    libc::SYS_clone3,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_setup, // there are some 65,000 slots for all users of the machine
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
];

/// What is shared by all processes of a user, where no namespace parts them.
const SHARED: &[libc::c_long] = &[
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_shmdt,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semctl,
    libc::SYS_semtimedop,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_mq_timedsend,
    libc::SYS_mq_timedreceive,
    libc::SYS_mq_notify,
    libc::SYS_mq_getsetattr,
];

/// The rules for tools of a shape.
pub fn table(shape: Shape) -> Table {
    let mut rules = BTreeMap::new();
    let mut always = |calls: &[libc::c_long], verdict| {
        rules.extend(calls.iter().map(|call| (*call as u32, Rule::always(verdict))));
    };
    always(NEVER, EPERM);
    always(ABSENT, ENOSYS);
    if !shape.cell {
        always(SHARED, EPERM);
    }
    #[cfg(target_arch = "x86_64")]
    always(&[libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_vhangup, libc::SYS_uselib], EPERM);
    if matches!(shape.sockets, Sockets::Tcp | Sockets::Brokered) {
        always(&[libc::SYS_listen], EACCES);
        rules.extend(without_fast_open());
        rules.insert(libc::SYS_setsockopt as u32, options(shape.sockets));
    }
    if shape.sockets == Sockets::Brokered {
        rules.insert(libc::SYS_connect as u32, Rule::always(Verdict::Tell));
    }
    rules.extend(core_limit(shape));
    if !shape.cell {
        rules.extend(own_only());
    }
    rules.insert(libc::SYS_clone as u32, denied_if(EPERM, vec![vec![not_zero(0, CLONE_NEW)]]));
    let commands = IOCTLS.iter().map(|command| vec![equal(1, *command)]);
    rules.insert(libc::SYS_ioctl as u32, denied_if(EPERM, commands.collect()));
    // Whoever writes a file has to wait for those that hold a lease on it, and to read it is enough for one.
    let lease = vec![equal(1, libc::F_SETLEASE as u32)];
    rules.insert(libc::SYS_fcntl as u32, denied_if(EPERM, vec![lease]));
    rules.insert(libc::SYS_socket as u32, sockets(shape));
    rules.insert(libc::SYS_socketpair as u32, pairs(shape));
    rules.extend(without_set_id(if shape.root { libc::S_ISUID | libc::S_ISGID } else { libc::S_ISUID }));
    if shape.enters {
        rules.remove(&(libc::SYS_setns as u32));
    }
    Table { rules, last: Some(LAST), foreign: ENOSYS }
}

fn equal(argument: u8, value: u32) -> Test {
    Test::low(argument, u32::MAX, Is::Equal(value))
}

fn not_zero(argument: u8, mask: u32) -> Test {
    Test::low(argument, mask, Is::NotZero)
}

fn denied_if(verdict: Verdict, cases: Vec<Vec<Test>>) -> Rule {
    Rule { cases: cases.into_iter().map(|tests| (tests, verdict)).collect(), otherwise: Verdict::Allow }
}

/// Only to itself: no Landlock keeps a process from limiting, slowing and moving others of the same user.
fn own_only() -> Vec<(u32, Rule)> {
    let only = |cases: Vec<Vec<Test>>| Rule { otherwise: EPERM, ..allowed_if(cases) };
    let first = [
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_setattr,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setscheduler,
    ];
    let process = |kind| vec![equal(0, kind), equal(1, 0)];
    let mut rules: Vec<_> = first.map(|call| (call, only(vec![vec![equal(0, 0)]]))).into();
    // Of a process and of a group; those of a user are others, too.
    let (priority, io) = (only(vec![process(0), process(1)]), only(vec![process(1), process(2)]));
    rules.extend([(libc::SYS_setpriority, priority), (libc::SYS_ioprio_set, io)]);
    rules.into_iter().map(|(call, rule)| (call as u32, rule)).collect()
}

/// With the limit that a run begins with, no program that cores are piped to is started, outside, as root. Programs set it to 0 to be
/// on the safe side, which would start it, and some end if they may not: they are told that it is done.
/// Whoever sets it and asks what it was, in one call, is refused.
fn core_limit(shape: Shape) -> Vec<(u32, Rule)> {
    let of_core = |argument| equal(argument, libc::RLIMIT_CORE);
    let done = |tests| (tests, Verdict::Errno(0));
    let given = [Test::low(2, u32::MAX, Is::NotZero), Test::high(2, u32::MAX, Is::NotZero)];
    // In walls only to itself, as below.
    let own = || (!shape.cell).then(|| equal(0, 0)).into_iter();
    let asked = [Test::low(3, u32::MAX, Is::NotZero), Test::high(3, u32::MAX, Is::NotZero)];
    // A filter cannot write what the limit was, and the caller would read what stood there before.
    let both = given.iter().flat_map(|given| asked.iter().map(move |asked| (*given, *asked)));
    let mut cases: Vec<_> = both.map(|(given, asked)| (vec![of_core(1), given, asked], EPERM)).collect();
    cases.extend(given.map(|given| done(own().chain([of_core(1), given]).collect())));
    cases.push((own().collect(), Verdict::Allow));
    let otherwise = EPERM;
    let mut rules = vec![(libc::SYS_prlimit64 as u32, Rule { cases, otherwise })];
    let plain = Rule { cases: vec![done(vec![of_core(0)])], otherwise: Verdict::Allow };
    rules.push((libc::SYS_setrlimit as u32, plain));
    rules
}

fn allowed_if(cases: Vec<Vec<Test>>) -> Rule {
    Rule { cases: cases.into_iter().map(|tests| (tests, Verdict::Allow)).collect(), otherwise: EACCES }
}

/// By family, type and protocol: raw and packet sockets, vsock, AF_ALG and the rest are nobody's.
fn sockets(shape: Shape) -> Rule {
    let mut cases = Vec::new();
    if shape.cell {
        cases.push(vec![equal(0, libc::AF_UNIX as u32)]);
    }
    if shape.cell || shape.sockets == Sockets::Any {
        cases.push(vec![equal(0, libc::AF_NETLINK as u32), equal(2, libc::NETLINK_ROUTE as u32)]);
    }
    // In a cell without a network there is a private loopback; what is sent to it stays there.
    let reach = if shape.cell && shape.sockets == Sockets::None { Sockets::Any } else { shape.sockets };
    let (tcp, udp) =
        ([0, libc::IPPROTO_TCP], [0, libc::IPPROTO_UDP, libc::IPPROTO_ICMP, libc::IPPROTO_ICMPV6]);
    for family in [libc::AF_INET, libc::AF_INET6] {
        if reach != Sockets::None {
            cases.extend(tcp.map(|protocol| of(family, libc::SOCK_STREAM, protocol)));
        }
        if reach == Sockets::Any {
            cases.push(of(family, libc::SOCK_STREAM, MPTCP));
            cases.extend(udp.map(|protocol| of(family, libc::SOCK_DGRAM, protocol)));
        }
    }
    let mut rule = allowed_if(cases);
    if reach == Sockets::Brokered {
        let datagrams = [libc::AF_INET, libc::AF_INET6]
            .into_iter()
            .flat_map(|family| [0, libc::IPPROTO_UDP].map(|protocol| of(family, libc::SOCK_DGRAM, protocol)));
        rule.cases.extend(datagrams.map(|tests| (tests, Verdict::Tell)));
    }
    rule
}

fn of(family: i32, kind: i32, protocol: i32) -> Vec<Test> {
    let kind = Test::low(1, TYPE, Is::Equal(kind as u32));
    vec![equal(0, family as u32), kind, equal(2, protocol as u32)]
}

/// A connected pair can only talk to each other, except with datagrams: each may name any address.
fn pairs(shape: Shape) -> Rule {
    let unix = equal(0, libc::AF_UNIX as u32);
    if shape.cell {
        return allowed_if(vec![vec![unix]]);
    }
    let kinds = [libc::SOCK_STREAM, libc::SOCK_SEQPACKET];
    let kinds = kinds.map(|kind| Test::low(1, TYPE, Is::Equal(kind as u32)));
    allowed_if(kinds.map(|kind| vec![unix, kind]).to_vec())
}

/// Options of sockets that would bypass the check of connections.
fn options(sockets: Sockets) -> Rule {
    let option = |(level, name): (i32, u32)| vec![equal(1, level as u32), equal(2, name)];
    let mut cases = vec![(option((libc::IPPROTO_TCP, TCP_ULP)), Verdict::Errno(libc::ENOPROTOOPT))];
    if sockets == Sockets::Brokered {
        cases.extend(ROUTES.map(|name| (option(name), EPERM)));
        cases.extend(ERRORS_OF_UDP.map(|name| (option(name), Verdict::Errno(0))));
    }
    Rule { cases, otherwise: Verdict::Allow }
}

/// Landlock looks at `connect`; data that is sent with the first packet comes by without one.
fn without_fast_open() -> Vec<(u32, Rule)> {
    let flags = [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2), (libc::SYS_sendmmsg, 3)];
    let deny = |argument| denied_if(EPERM, vec![vec![not_zero(argument, libc::MSG_FASTOPEN as u32)]]);
    flags.into_iter().map(|(call, argument)| (call as u32, deny(argument))).collect()
}

/// No file becomes set-uid (or set-gid, of root's), by whatever call a mode is given: whoever else executes it would be
/// outside, as the user that this run is of.
fn without_set_id(bits: u32) -> Vec<(u32, Rule)> {
    let mode = |argument| denied_if(EPERM, vec![vec![not_zero(argument, bits)]]);
    let made = |flags, argument| {
        let creates = not_zero(flags, (libc::O_CREAT | libc::O_TMPFILE & !libc::O_DIRECTORY) as u32);
        denied_if(EPERM, vec![vec![creates, not_zero(argument, bits)]])
    };
    let mut rules = vec![
        (libc::SYS_fchmod, mode(1)),
        (libc::SYS_fchmodat, mode(2)),
        (libc::SYS_fchmodat2, mode(2)),
        (libc::SYS_mknodat, mode(2)),
        (libc::SYS_openat, made(2, 3)),
        // Its mode is out of sight. Whoever asks for it has `openat` to fall back on.
        (libc::SYS_openat2, Rule::always(ENOSYS)),
    ];
    #[cfg(target_arch = "x86_64")]
    rules.extend([
        (libc::SYS_chmod, mode(1)),
        (libc::SYS_creat, mode(1)),
        (libc::SYS_mknod, mode(1)),
        (libc::SYS_open, made(1, 2)),
    ]);
    rules.into_iter().map(|(call, rule)| (call as u32, rule)).collect()
}

#[cfg(test)]
mod tests;
