"""A run that is observed behaves as it would, and what it names is told: files, programs and addresses."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sysconfig
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from lilux.primitives.subprocess import Hosts, Policy, ProcessSpec, SubprocessPrimitive, SubprocessResult
from tests.users import ADA, as_user, two_users

PYTHON = "/usr/bin/python3"
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}

pytestmark = pytest.mark.skipif(not Path(PYTHON).exists(), reason="needs the Python of the system")


def run(spec: ProcessSpec) -> SubprocessResult:
    return asyncio.run(SubprocessPrimitive().run(spec))


def shell(script: str, directory: Path, **fields: Any) -> ProcessSpec:
    return ProcessSpec(
        command="/bin/sh", args=["-c", script], cwd=directory, env=ENVIRONMENT, timeout=60, **fields
    )


def facts(result: SubprocessResult) -> set[tuple[str, str]]:
    assert result.observed is not None, result
    return {(fact.kind, fact.what) for fact in result.observed.facts}


def policies(directory: Path) -> dict[str, Policy | None]:
    where = [str(directory)]
    return {
        "none": None,
        "walls": Policy(tier="walls", write=where),
        "cell": Policy(tier="cell", write=where),
    }


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    found = Path(os.path.realpath(tmp_path)) / "a directory"
    found.mkdir()
    (found / "in.txt").write_text("hello\n")
    (found / "link").symlink_to("in.txt")
    (found / "doomed").write_text("")
    return found


@pytest.mark.parametrize("tier", ["none", "walls", "cell"])
def test_what_a_run_names_is_told_without_links_and_nothing_else_changes(directory: Path, tier: str) -> None:
    script = (
        "cat link absent; echo new >made; mv made moved; rm doomed; mkdir sub; cd sub; cat ../in.txt; exit 3"
    )
    spec = shell(script, directory, policy=policies(directory)[tier])
    plain = run(spec)
    for name in ("moved", "sub"):
        path = directory / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    (directory / "doomed").write_text("")

    observed = run(replace(spec, observe=[]))

    assert (observed.stdout, observed.stderr, observed.return_code) == (
        plain.stdout,
        plain.stderr,
        plain.return_code,
    )
    assert observed.return_code == 3
    assert observed.stdout == "hello\nhello\n"
    assert plain.observed is None
    assert facts(observed) == {
        ("exec", os.path.realpath(f"/usr/bin/{name}")) for name in ("cat", "mv", "rm", "mkdir")
    } | {
        ("read", f"{directory}/in.txt"),
        *(("write", f"{directory}/{name}") for name in ("made", "moved", "doomed", "sub")),
    }
    assert observed.observed is not None
    assert observed.observed.lost == 0


def test_connections_are_told_by_address(directory: Path) -> None:
    program = (
        "import socket\n"
        "for family, kind, to in (\n"
        "    (socket.AF_INET, socket.SOCK_STREAM, ('127.0.0.1', 9)),\n"
        "    (socket.AF_INET6, socket.SOCK_STREAM, ('::1', 9)),\n"
        "):\n"
        "    try: socket.socket(family, kind).connect(to)\n"
        "    except OSError: pass\n"
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 99))\n"
    )
    spec = ProcessSpec(command=PYTHON, args=["-c", program], cwd=directory, env=ENVIRONMENT, observe=[])
    connects = {what for kind, what in facts(run(spec)) if kind == "connect"}
    assert connects == {"127.0.0.1:9", "[::1]:9", "127.0.0.1:99"}


def test_what_is_to_be_ignored_is_and_what_is_too_much_is_counted(directory: Path) -> None:
    ignored = directory / "ignored"
    ignored.mkdir()
    script = "for i in $(seq 700); do : >ignored/$i; : >file$i; done"
    result = run(shell(script, directory, observe=[str(ignored)]))
    assert result.success
    assert result.observed is not None
    assert 200 < len(result.observed.facts) <= 512
    assert len(result.observed.facts) + result.observed.lost == 700 + 1  # and `seq`
    assert not any(fact.what.startswith(str(ignored)) for fact in result.observed.facts)


def test_nothing_of_an_observed_run_is_left(directory: Path) -> None:
    """Neither what waits with a call when it is killed, nor what was left behind."""
    endless = "while :; do : >x; done"
    ended = run(replace(shell(f"({endless})& {endless}", directory, observe=[]), timeout=1.0))
    assert ended.kind == "timeout"
    assert ended.cleanup is not None
    assert ended.cleanup.state == "complete"
    left = run(shell(f"setsid sh -c '{endless}' & exit 0", directory, observe=[]))
    assert left.kind == "exited"
    assert left.cleanup is not None
    assert (left.cleanup.state, left.cleanup.ended > 0) == ("complete", True)
    found = run(shell("cat in.txt", directory))
    assert found.stdout == "hello\n"


@two_users
@pytest.mark.parametrize("tier", ["none", "walls", "cell"])
def test_an_ordinary_user_learns_too(tier: str) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="observe-") as made:
        directory = Path(made)
        binary = str(shutil.copy(Path(sysconfig.get_path("scripts"), "lilux-proc"), directory))
        (directory / "in.txt").write_text("hello\n")
        directory.chmod(0o755)
        request: dict[str, Any] = {"command": "/bin/cat", "args": ["in.txt"], "cwd": made, "observe": {}}
        if tier != "none":
            request["policy"] = {"tier": tier, "read": [made]}
        answer = as_user(ADA, lambda: _exec(binary, request))
        assert answer["stdout"] == "hello\n"
        assert answer["observed"] == {"facts": [{"kind": "read", "what": f"{made}/in.txt"}], "lost": 0}


def _exec(binary: str, request: dict[str, Any]) -> Any:
    done = subprocess.run(
        [binary, "exec", "--request", "-"], input=json.dumps(request), capture_output=True, text=True
    )
    return json.loads(done.stdout)


# --- names ----------------------------------------------------------------------


@contextmanager
def server() -> Iterator[int]:
    """A web server of this machine; its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "5")
            self.end_headers()
            self.wfile.write(b"hello")

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as found:
        thread = threading.Thread(target=found.serve_forever)
        thread.start()
        yield found.server_address[1]
        found.shutdown()
        thread.join()


def _fetch(url: str, directory: Path, net: Hosts) -> SubprocessResult:
    program = f"import urllib.request; print(urllib.request.urlopen({url!r}, timeout=5).read().decode())"
    policy = Policy(tier="cell", read=[str(directory)], net=net)
    return run(
        ProcessSpec(
            command=PYTHON, args=["-c", program], cwd=directory, env=ENVIRONMENT, policy=policy, observe=[]
        )
    )


def _needs_cells() -> None:
    if asyncio.run(SubprocessPrimitive().probe()).cell is None:
        pytest.skip("this machine makes no cells")


def test_where_every_host_may_be_reached_names_are_told(directory: Path) -> None:
    _needs_cells()
    with server() as port:
        net = Hosts(every_host_at=[80, port], pinned={"api.test": ["127.0.0.1"]})
        result = _fetch(f"http://api.test:{port}/", directory, net)
    assert result.stdout == "hello\n", result.stderr
    assert result.network is not None
    assert [(host.host, host.port) for host in result.network.hosts] == [("api.test", port)]
    [(name, address)] = result.network.names
    assert (name, address.startswith("198.1")) == ("api.test", True)
    assert ("connect", f"{address}:{port}") in facts(result)


def test_a_port_that_is_not_served_is_told_with_the_address_of_its_name(directory: Path) -> None:
    _needs_cells()
    net = Hosts(every_host_at=[80], pinned={"api.test": ["127.0.0.1"]})
    result = _fetch("http://api.test:4567/", directory, net)
    assert not result.success
    assert result.network is not None
    names = dict(result.network.names)
    assert ("connect", f"{names['api.test']}:4567") in facts(result)
    assert list(result.network.hosts) == []
