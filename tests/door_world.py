"""The door without a supervisor: this process opens it for runs, and makes their network namespaces.

    with Door.start(binary) as door:
        run = door.open(["api.test:8080"], pinned={"api.test": ["127.0.0.1"]})
        done = run.execute("curl", "http://api.test:8080/")
        report = run.finish()

A run's namespace is made as a cell makes it, by the process that then becomes the program: user, mount and
network namespaces, a local route for the fake addresses, and the sockets that are passed to the door.
"""

from __future__ import annotations

import array
import ctypes
import fcntl
import json
import os
import socket
import struct
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LIMIT_S = 30
FAKE_NETWORK, FAKE_BITS = "198.18.0.0", 15
EVERYWHERE = ".".join("0000")

_CLONE_NEWNS, _CLONE_NEWUSER, _CLONE_NEWNET = 0x20000, 0x10000000, 0x40000000
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000
_PR_SET_DUMPABLE = 4
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1
_RTM_NEWROUTE, _NLM_F_NEW = 24, 0x1 | 0x4 | 0x400
_RT_TABLE_LOCAL, _RTPROT_BOOT, _RT_SCOPE_HOST, _RTN_LOCAL = 255, 3, 254, 2
_RTA_DST, _RTA_OIF = 1, 4

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass
class Run:
    """One run at the door: our end of its channel."""

    channel: socket.socket
    ports: Sequence[int]
    resolver: Path
    uid: int | None = None

    def execute(self, *command: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a program in a new network namespace whose only way out is the door."""
        with self.started(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options) as process:
            out, err = process.communicate(timeout=LIMIT_S)
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    def started(self, *command: str, **options: Any) -> subprocess.Popen[str]:
        env = {"PATH": "/usr/bin:/bin", "HOME": "/", **options.pop("env", {})}
        return subprocess.Popen(command, env=env, cwd="/", text=True, preexec_fn=self._enter, **options)  # noqa: PLW1509

    def _enter(self) -> None:
        if self.uid is not None:
            os.setgroups([])
            os.setresgid(self.uid, self.uid, self.uid)
            os.setresuid(self.uid, self.uid, self.uid)
            _checked(_libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0))
        enter_namespaces()
        mount_private_file(str(self.resolver), os.path.realpath("/etc/resolv.conf"))
        hand_over(self.channel, self.ports)

    def finish(self) -> dict[str, Any] | None:
        """End the run: its report, once everything of the door is gone from its namespace."""
        self.channel.shutdown(socket.SHUT_WR)
        self.channel.settimeout(LIMIT_S)
        said = self.channel.recv(1 << 17)
        assert not said or self.channel.recv(1) == b"", "the door said more than its report"
        self.channel.close()
        return json.loads(said) if said else None


class Door:
    """A door process, and the socket through which runs are opened."""

    def __init__(
        self, process: subprocess.Popen[bytes], control: socket.socket, resolver: Path, uid: int | None
    ) -> None:
        self.process = process
        self.control = control
        self.resolver = resolver
        self.uid = uid

    @classmethod
    @contextmanager
    def start(
        cls, binary: Path, *, uid: int | None = None, env: Mapping[str, str] | None = None
    ) -> Iterator[Door]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [str(binary), "door"]
        with (
            ours,
            tempfile.TemporaryDirectory(prefix="door-") as directory,
            subprocess.Popen(
                command, stdin=theirs.fileno(), env={**(env or {})}, user=uid, group=uid, cwd="/"
            ) as process,
        ):
            theirs.close()
            Path(directory).chmod(0o755)
            resolver = Path(directory, "resolv.conf")
            resolver.write_text("nameserver 127.0.0.1\noptions timeout:2 attempts:2\n")
            try:
                yield cls(process, ours, resolver, uid)
            finally:
                ours.close()
                process.wait(timeout=LIMIT_S)

    def open(self, hosts: Sequence[str], *, pinned: Mapping[str, Sequence[str]] | None = None) -> Run:
        """Open the door for a run that may reach these hosts."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            opening = {"hosts": hosts, **({"pinned": pinned} if pinned else {})}
            socket.send_fds(self.control, [json.dumps(opening).encode()], [theirs.fileno()])
        ports = sorted({int(host.rpartition(":")[2]) for host in hosts})
        return Run(ours, ports, self.resolver, self.uid)


@contextmanager
def server(handle: Callable[[socket.socket], None], address: str = "127.0.0.1") -> Iterator[int]:
    """A TCP server, with a thread for each connection; its port."""
    listener = socket.create_server((address, 0), backlog=512)

    def serve(connection: socket.socket) -> None:
        with connection:
            try:
                handle(connection)
            except OSError:
                return  # the other side was ended by its test

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return  # closed: the test is over
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield int(listener.getsockname()[1])
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def greet(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")


def enter_namespaces() -> None:
    """Move this process, which has one thread, into namespaces of its own, as their root."""
    uid, gid = os.getuid(), os.getgid()
    _checked(_libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNS | _CLONE_NEWNET))
    for name, text in {"setgroups": "deny", "uid_map": f"0 {uid} 1", "gid_map": f"0 {gid} 1"}.items():
        descriptor = os.open(f"/proc/self/{name}", os.O_WRONLY)
        os.write(descriptor, text.encode())
        os.close(descriptor)


def raise_loopback() -> None:
    """The loopback of a new network namespace is down."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        fcntl.ioctl(asked, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP))


def mount_private_file(source: str, target: str) -> None:
    """Show a file in place of another one, in this mount namespace alone."""
    _mount("none", "/", _MS_REC | _MS_PRIVATE)
    _mount(source, target, _MS_BIND)


def hand_over(channel: socket.socket, ports: Sequence[int]) -> None:
    """Lead the fake addresses to this namespace, and pass what listens there to the door."""
    raise_loopback()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as names:
        _add_local_route()
        names.bind(("127.0.0.1", 53))
        listeners = [socket.create_server((EVERYWHERE, port), backlog=128) for port in ports]
        descriptors = array.array("i", [names.fileno(), *(listener.fileno() for listener in listeners)])
        channel.sendmsg([b"L"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
        for listener in listeners:
            listener.close()


def _add_local_route() -> None:
    """`ip route add local 198.18.0.0/15 dev lo`."""
    route = struct.pack(
        "BBBBBBBBI",
        *(socket.AF_INET, FAKE_BITS, 0, 0, _RT_TABLE_LOCAL, _RTPROT_BOOT, _RT_SCOPE_HOST, _RTN_LOCAL, 0),
    )
    route += struct.pack("HH4s", 8, _RTA_DST, socket.inet_aton(FAKE_NETWORK))
    route += struct.pack("HHi", 8, _RTA_OIF, socket.if_nametoindex("lo"))
    header = struct.pack("IHHII", 16 + len(route), _RTM_NEWROUTE, _NLM_F_NEW, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as netlink:
        netlink.send(header + route)
        (code,) = struct.unpack_from("i", netlink.recv(4096), 16)
    if code:
        raise OSError(-code, os.strerror(-code))


def _mount(source: str, target: str, flags: int) -> None:
    _checked(_libc.mount(source.encode(), target.encode(), None, ctypes.c_ulong(flags), None))


def _checked(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
