//! What each shape of tool may call, asked of the filter itself.

use super::super::filter::{Instruction, OWN_ARCH, compile, interpret};
use super::*;

const WALLS: Shape = Shape { cell: false, sockets: Sockets::None, root: false, enters: false };
const CELL: Shape = Shape { cell: true, ..WALLS };

fn ask(program: &[Instruction], call: libc::c_long, arguments: &[u64]) -> Verdict {
    let mut all = [0; 6];
    all[..arguments.len()].copy_from_slice(arguments);
    interpret(program, OWN_ARCH, call as u32, all)
}

fn verdict(shape: Shape, call: libc::c_long, arguments: &[u64]) -> Verdict {
    ask(&compile(&table(shape)), call, arguments)
}

fn socket(shape: Shape, family: i32, kind: i32, protocol: i32) -> Verdict {
    verdict(shape, libc::SYS_socket, &[family as u64, kind as u64, protocol as u64])
}

#[test]
fn what_programs_live_on_is_allowed_in_every_shape() {
    let calls = [libc::SYS_read, libc::SYS_openat, libc::SYS_execve, libc::SYS_ptrace, libc::SYS_clone];
    for cell in [false, true] {
        for sockets in [Sockets::None, Sockets::Tcp, Sockets::Any] {
            for root in [false, true] {
                for call in calls {
                    assert_eq!(
                        verdict(Shape { cell, sockets, root, enters: false }, call, &[]),
                        Verdict::Allow
                    );
                }
            }
        }
    }
}

#[test]
fn namespaces_are_made_by_no_call() {
    for flag in [libc::CLONE_NEWUSER, libc::CLONE_NEWNS, libc::CLONE_NEWNET, libc::CLONE_NEWPID] {
        assert_eq!(verdict(CELL, libc::SYS_clone, &[(flag | libc::SIGCHLD) as u64]), EPERM);
    }
    let threads = (libc::CLONE_VM | libc::CLONE_THREAD | libc::CLONE_SIGHAND) as u64;
    assert_eq!(verdict(CELL, libc::SYS_clone, &[threads]), Verdict::Allow);
    assert_eq!(verdict(CELL, libc::SYS_clone3, &[]), ENOSYS);
}

#[test]
fn a_terminal_takes_no_input_from_a_tool_whatever_the_high_bits_say() {
    for high in [0, 1 << 32, u64::from(u32::MAX) << 32] {
        assert_eq!(verdict(WALLS, libc::SYS_ioctl, &[0, high | libc::TIOCSTI]), EPERM);
    }
    assert_eq!(verdict(WALLS, libc::SYS_ioctl, &[0, libc::TIOCGWINSZ]), Verdict::Allow);
}

#[test]
fn the_limit_of_cores_stays_and_programs_hear_that_it_is_done() {
    let (core, done) = (u64::from(libc::RLIMIT_CORE), Verdict::Errno(0));
    for shape in [WALLS, CELL] {
        assert_eq!(verdict(shape, libc::SYS_setrlimit, &[core, 1]), done);
        for address in [1, 1 << 32, u64::MAX] {
            assert_eq!(verdict(shape, libc::SYS_prlimit64, &[0, core, address, 0]), done);
        }
        for (address, other) in [(1, 1), (1 << 32, 1), (1, 1 << 32), (u64::MAX, 1 << 63)] {
            assert_eq!(verdict(shape, libc::SYS_prlimit64, &[0, core, address, other]), EPERM);
        }
        assert_eq!(verdict(shape, libc::SYS_prlimit64, &[0, core, 0, 1]), Verdict::Allow);
        assert_eq!(verdict(shape, libc::SYS_prlimit64, &[0, core + 1, 1, 1]), Verdict::Allow);
        assert_eq!(verdict(shape, libc::SYS_prlimit64, &[0, core + 1, 1, 0]), Verdict::Allow);
        assert_eq!(verdict(shape, libc::SYS_setrlimit, &[core + 1, 1]), Verdict::Allow);
    }
    assert_eq!(verdict(WALLS, libc::SYS_prlimit64, &[7, core, 1, 0]), EPERM);
}

#[test]
fn sockets_are_those_of_the_shape() {
    let (tcp, any) = (Shape { sockets: Sockets::Tcp, ..WALLS }, Shape { sockets: Sockets::Any, ..WALLS });
    let (stream, datagram) = (libc::SOCK_STREAM | libc::SOCK_CLOEXEC, libc::SOCK_DGRAM);
    let table: [(Shape, i32, i32, i32, Verdict); 14] = [
        (WALLS, libc::AF_INET, stream, 0, EACCES),
        (WALLS, libc::AF_UNIX, stream, 0, EACCES),
        (WALLS, libc::AF_NETLINK, libc::SOCK_RAW, 0, EACCES),
        (tcp, libc::AF_INET6, stream, libc::IPPROTO_TCP, Verdict::Allow),
        (tcp, libc::AF_INET, stream, MPTCP, EACCES),
        (tcp, libc::AF_INET, datagram, 0, EACCES),
        (any, libc::AF_INET, datagram, 0, Verdict::Allow),
        (any, libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP, EACCES),
        (any, libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE, Verdict::Allow),
        (any, libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_KOBJECT_UEVENT, EACCES),
        (any, libc::AF_UNIX, stream, 0, EACCES),
        (CELL, libc::AF_UNIX, datagram, 0, Verdict::Allow),
        (CELL, libc::AF_INET, stream, 0, Verdict::Allow),
        (CELL, libc::AF_VSOCK, stream, 0, EACCES),
    ];
    for (shape, family, kind, protocol, expected) in table {
        let found = socket(shape, family, kind, protocol);
        assert_eq!(found, expected, "{shape:?} {family} {kind} {protocol}");
    }
}

#[test]
fn with_a_broker_no_connection_is_made_and_no_datagram_sent_without_it() {
    let brokered = Shape { sockets: Sockets::Brokered, ..WALLS };
    assert_eq!(verdict(brokered, libc::SYS_connect, &[3, 0x7000, 16]), Verdict::Tell);
    assert_eq!(verdict(WALLS, libc::SYS_connect, &[3, 0x7000, 16]), Verdict::Allow);
    for (kind, protocol, expected) in [
        (libc::SOCK_STREAM, 0, Verdict::Allow),
        (libc::SOCK_STREAM, MPTCP, EACCES),
        (libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0, Verdict::Tell),
        (libc::SOCK_DGRAM, libc::IPPROTO_UDP, Verdict::Tell),
        (libc::SOCK_DGRAM, libc::IPPROTO_ICMP, EACCES),
        (libc::SOCK_RAW, libc::IPPROTO_TCP, EACCES),
    ] {
        assert_eq!(socket(brokered, libc::AF_INET6, kind, protocol), expected, "{kind} {protocol}");
    }
    let fast_open = libc::MSG_FASTOPEN as u64;
    assert_eq!(verdict(brokered, libc::SYS_sendto, &[3, 0, 0, fast_open]), EPERM);
    assert_eq!(verdict(brokered, libc::SYS_sendmsg, &[3, 0, fast_open]), EPERM);
    assert_eq!(verdict(brokered, libc::SYS_listen, &[3, 1]), EACCES);
    let option = |level: i32, name: i32| {
        verdict(brokered, libc::SYS_setsockopt, &[3, level as u64, name as u64, 0x7000, 4])
    };
    for (level, name) in ROUTES {
        assert_eq!(option(level, name as i32), EPERM, "{level} {name}");
    }
    // As if it had been done.
    assert_eq!(option(libc::IPPROTO_IP, libc::IP_RECVERR), Verdict::Errno(0));
    assert_eq!(option(libc::IPPROTO_IP, libc::IP_TOS), Verdict::Allow);
    assert_eq!(option(libc::SOL_SOCKET, libc::SO_KEEPALIVE), Verdict::Allow);
}

#[test]
fn a_pair_of_datagram_sockets_would_reach_others() {
    let pair = |shape, kind: i32| {
        verdict(shape, libc::SYS_socketpair, &[libc::AF_UNIX as u64, (kind | libc::SOCK_CLOEXEC) as u64])
    };
    assert_eq!(pair(WALLS, libc::SOCK_STREAM), Verdict::Allow);
    assert_eq!(pair(WALLS, libc::SOCK_DGRAM), EACCES);
    assert_eq!(pair(WALLS, libc::SOCK_RAW), EACCES);
    assert_eq!(pair(CELL, libc::SOCK_DGRAM), Verdict::Allow);
}

#[test]
fn nobody_leaves_a_set_uid_program_behind_and_root_no_set_gid_one() {
    let root = Shape { root: true, ..CELL };
    let create = (libc::O_CREAT | libc::O_WRONLY) as u64;
    assert_eq!(verdict(root, libc::SYS_fchmodat, &[0, 0, 0o4755]), EPERM);
    assert_eq!(verdict(root, libc::SYS_fchmodat, &[0, 0, 0o755]), Verdict::Allow);
    assert_eq!(verdict(CELL, libc::SYS_fchmodat, &[0, 0, 0o4755]), EPERM);
    assert_eq!(verdict(CELL, libc::SYS_fchmodat, &[0, 0, 0o2755]), Verdict::Allow);
    assert_eq!(verdict(root, libc::SYS_fchmodat, &[0, 0, 0o2755]), EPERM);
    assert_eq!(verdict(root, libc::SYS_openat, &[0, 0, create, 0o4755]), EPERM);
    assert_eq!(verdict(root, libc::SYS_openat, &[0, 0, libc::O_TMPFILE as u64 | 1, 0o2755]), EPERM);
    // Without O_CREAT the mode is whatever the register held.
    assert_eq!(verdict(root, libc::SYS_openat, &[0, 0, libc::O_DIRECTORY as u64, 0o7777]), Verdict::Allow);
    assert_eq!(verdict(root, libc::SYS_openat2, &[]), ENOSYS);
}

#[test]
fn without_a_cell_only_oneself_is_slowed_down() {
    for call in [libc::SYS_prlimit64, libc::SYS_sched_setaffinity, libc::SYS_sched_setscheduler] {
        assert_eq!(verdict(WALLS, call, &[0]), Verdict::Allow);
        assert_eq!(verdict(WALLS, call, &[7]), EPERM);
        assert_eq!(verdict(CELL, call, &[7]), Verdict::Allow);
    }
    for (call, of_user) in [(libc::SYS_setpriority, 2), (libc::SYS_ioprio_set, 3)] {
        assert_eq!(verdict(WALLS, call, &[1, 0]), Verdict::Allow);
        assert_eq!(verdict(WALLS, call, &[1, 7]), EPERM);
        assert_eq!(verdict(WALLS, call, &[of_user, 0]), EPERM);
    }
}

#[test]
fn what_is_newer_than_this_table_does_not_exist() {
    assert_eq!(verdict(CELL, libc::c_long::from(LAST as i32), &[]), Verdict::Allow);
    assert_eq!(verdict(CELL, libc::c_long::from(LAST as i32 + 1), &[]), ENOSYS);
    // x32, which is the same architecture with a bit in the number.
    assert_eq!(verdict(CELL, 0x4000_0000 + 41, &[]), ENOSYS);
}
