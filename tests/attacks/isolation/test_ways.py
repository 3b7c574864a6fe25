"""Every known way out of a run, with and without confinement, as root and as an ordinary user.

`table.txt` has the expected results. A result may be tighter than its table, never wider. Without confinement
the ways are open: a way that is closed anyway would prove nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.attacks.isolation.world import POLICIES, TABLE, World

FREE = frozenset(["listen on a port", "memfd exec"])
"""These are no ways out, but what programs do in a cell: they stay open."""

UP_TO_THE_MACHINE = frozenset(
    [
        "io_uring",
        "slots for disk requests",
        "perf_event_open",
        "userfaultfd",
        "unshare user ns",
        "clone user ns",
        "clone3 user ns",
        "setxattr outside",
        "MPTCP",
        "vsock",
        "POSIX mq of others",
        "int 0x80 socket",
        "TCP fast open",
        "kcore (root)",
        "read the disk (root)",
        "TIOCSTI on inherited tty",
        "TIOCSTI, high bits set",
        "ptrace another",
        "process_vm_readv",
        "descriptor of another",
        "gain by set-uid",
        "bpf",
        "add_key",
        "fanotify",
        "keyctl",
        "sysrq (root)",
        "core_pattern (root)",
        "hostname (root)",
        "control groups",
        "/dev/kmsg (root)",
        "settings of the network (root)",
        "kernel log",
        "kcmp with another",
        "setxattr what is read",
        "lease on what is read",
        "unshare mounts",
        "clone network",
        "unmount",
        "mount_setattr",
        "fspick",
        "request_key",
        "set-uid by openat2",
        "another protocol above TCP",
        "source route",
        "btrfs volume",
        "btrfs volume, second form",
        "remove a btrfs volume",
        "remove a btrfs volume, second form",
        "verity of what is read",
        "encryption of what is read",
        "settings of a btrfs volume",
        "bcachefs volume",
        "remove a bcachefs volume",
        "add an encryption key",
        "remove an encryption key",
        "limit of cores from far away",
    ]
)
"""Closed by some machines for everybody, or by the container that the tests run in."""


AS_TIGHT_AS = {"cell host": "cell none", "walls host": "walls none"}
"""Hosts open no way but the one to them."""

OBJECTS: Mapping[str, object] = {"ports": {"ports": [443]}, "host": {"hosts": ["allowed.example:443"]}}
"""Networks that are not a word, as they are reported."""


def wider(found: Mapping[str, str], column: str) -> dict[str, tuple[str, str]]:
    """What is open and should not be: what was expected, and what was found."""
    rows = {row: (TABLE[row][column], result) for row, result in found.items()}
    return {
        row: (expected, result)
        for row, (expected, result) in rows.items()
        if expected != "OPEN" and result in ("OPEN", "SIGNAL", "UNKNOWN")
    }


@pytest.mark.thorough
def test_the_ways_are_open_to_a_run_that_is_not_confined(world: World) -> None:
    found, enforced = world.attempt(None)
    assert enforced is None
    column = f"{world.column}:off"
    expected = {row for row in found if TABLE[row][column] == "OPEN"} - UP_TO_THE_MACHINE
    assert {row: found[row] for row in expected if found[row] != "OPEN"} == {}
    assert found.keys() <= TABLE.keys()


@pytest.mark.parametrize("name", [name for name in POLICIES if name != "off"])
def test_no_way_leads_out_of_a_run_that_is_confined(world: World, name: str) -> None:
    if name == "walls host":
        world.needs_a_broker()
    found, enforced = world.attempt(world.policy(name))
    assert wider(found, f"{world.column}:{AS_TIGHT_AS.get(name, name)}") == {}
    tier, net = name.split()
    assert enforced["level"] == tier
    assert enforced["net"] == OBJECTS.get(net, net)
    if tier == "cell":
        assert {found[row] for row in FREE} == {"OPEN"}


@pytest.mark.containment
@pytest.mark.timeout(600)  # the first one builds a supervisor whose layers can be switched off
def test_a_cell_needs_no_landlock(world: World, switched: Path) -> None:
    world.binary.write_bytes(switched.read_bytes())
    found, _ = world.attempt(world.policy("cell none"), LILUX_PROC_OFF="landlock")
    assert wider(found, f"{world.column}:cell bare") == {}


LAYERS: list[tuple[str, str, Sequence[str]]] = [
    ("landlock", "walls none", ["read ~/.ssh/id", "write outside", "hard link in", "signal another"]),
    ("landlock", "walls none", ["read /dev/shm of others", "sysfs"]),
    ("capabilities,landlock", "walls none", ["environ of another process", "process_vm_readv"]),
    ("landlock,seccomp", "walls any", ["abstract socket"]),
    ("landlock", "walls ports", ["TCP to 127.0.0.1"]),
    ("seccomp", "walls any", ["Unix socket by path", "Unix datagram of a pair"]),
    ("seccomp", "walls any", ["SysV shm of others", "netlink uevent", "limits of another"]),
    ("capabilities,seccomp", "walls any", ["scheduler of another", "processors of another"]),
    ("capabilities,seccomp", "walls any", ["I/O priority of another"]),
    ("seccomp", "walls ports", ["TCP fast open", "listen on a port", "UDP to the host"]),
    ("seccomp", "walls ports", ["another protocol above TCP"]),
    ("broker", "walls host", ["TCP to 127.0.0.1", "TCP to the host", "UDP to the host"]),
    ("broker", "walls host", ["TCP to an address that changes", "TCP by who cannot be read"]),
    ("broker", "walls host", ["UDP by sendmsg", "UDP by sendmmsg", "fast open by connect"]),
    ("landlock,seccomp", "walls host", ["TCP to 127.0.0.1"]),
    ("seccomp", "walls host", ["TCP fast open", "source route", "MPTCP", "listen on a port"]),
    ("seccomp", "cell none", ["leave a set-uid program", "create a set-uid program", "set-uid by openat2"]),
    ("seccomp", "cell none", ["lease on what is read", "btrfs snapshot", "btrfs snapshot, high bits set"]),
    ("seccomp", "cell none", ["other families of sockets", "other netlinks"]),
    ("seccomp", "cell none", ["limit of cores", "limit of cores by the old call"]),
    ("landlock", "walls none", ["write what is read", "reopen what is read", "FIFO in what is read"]),
    ("cell-network", "cell none", ["TCP to 127.0.0.1"]),
    ("cell-processes", "cell none", ["cmdline of another process"]),
    ("cell-ipc", "cell none", ["SysV shm of others"]),
    ("cell-root,landlock", "cell none", ["read ~/.ssh/id", "write outside", "stat outside"]),
    ("cell-protect", "cell none", ["write .git/hooks", "write .git/config", "move .git away"]),
    ("cell-protect", "cell none", ["move the parent of a protected file"]),
    ("cell-mask", "cell none", ["read .env", "replace .env", "move the parent of a masked file"]),
]
"""What is switched off, where, and which ways are open then."""

OF_ROOT: list[tuple[str, str, Sequence[str]]] = [
    ("seccomp", "cell none", ["leave a set-gid program (root)"]),
    ("capabilities,landlock", "cell none", ["mknod (root)"]),
    ("capabilities,seccomp", "walls any", ["raw socket", "packet socket"]),
    ("cell-mask", "cell none", ["read /etc/shadow (root)"]),
]


@pytest.mark.containment
@pytest.mark.timeout(600)  # the first one builds a supervisor whose layers can be switched off
@pytest.mark.parametrize(("off", "policy", "rows"), LAYERS + OF_ROOT)
def test_without_a_layer_its_ways_are_open(
    world: World, switched: Path, off: str, policy: str, rows: Sequence[str]
) -> None:
    if world.uid != 0 and (off, policy, rows) in OF_ROOT:
        pytest.skip("only root has this power")
    if policy == "walls host":
        world.needs_a_broker()
    world.binary.write_bytes(switched.read_bytes())
    found, _ = world.attempt(world.policy(policy), LILUX_PROC_OFF=off)
    closed = {row: found[row] for row in rows if row in found and found[row] != "OPEN"}
    assert closed.keys() <= UP_TO_THE_MACHINE, closed
