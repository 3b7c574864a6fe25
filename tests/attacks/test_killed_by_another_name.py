"""Attack: what says which process a run is, says another one; or somebody else looks on."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rye_mcp.runs.hosts import Host, this_process
from rye_mcp.runs.ids import new_run_id
from rye_mcp.runs.live import LiveHead, LiveView
from tests.trust_world import refused


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def planted(state: Path, host: Host) -> str:
    """The file of a run that is going on, with this process as its own."""
    run_id = new_run_id()
    head = LiveHead(this_process(), host.pid, host.began, host.boot, 0)
    (state / "live").mkdir(parents=True, exist_ok=True)
    (state / "live").chmod(0o700)
    path = state / "live" / run_id
    path.write_bytes(msgspec.json.encode(head).ljust(511) + b"\nsecret")
    path.chmod(0o600)
    return run_id


def host_of(process: subprocess.Popen[bytes]) -> Host:
    host = Host.of(process.pid)
    assert host is not None
    return host


@pytest.mark.parametrize("changed", [{"began": "1"}, {"boot": "another boot"}])
def test_no_signal_reaches_a_process_that_got_the_number_of_a_run(
    tmp_path: Path, bystander: subprocess.Popen[bytes], changed: dict[str, str]
) -> None:
    host = host_of(bystander)
    facts: dict[str, Any] = {"pid": host.pid, "began": host.began, "boot": host.boot} | changed
    run_id = planted(tmp_path, Host(**facts))
    view = LiveView(tmp_path)
    refused("run_not_live", lambda: view.kill(run_id))
    assert view.processes(run_id) == (0, 0)
    assert bystander.poll() is None


def test_what_others_can_write_or_read_is_not_believed(
    tmp_path: Path, bystander: subprocess.Popen[bytes]
) -> None:
    run_id = planted(tmp_path, host_of(bystander))
    view, path = LiveView(tmp_path), tmp_path / "live" / run_id
    assert view.output(run_id).data == b"secret"
    path.chmod(0o644)
    assert view.output(run_id).data == b""
    refused("run_not_live", lambda: view.kill(run_id))
    path.chmod(0o600)
    elsewhere = tmp_path / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    assert view.output(run_id).data == b""
    refused("run_not_live", lambda: view.kill(run_id))
    assert bystander.poll() is None


@pytest.mark.parametrize("run_id", ["../live", "", "a/b", "0" * 27])
def test_what_is_no_id_of_a_run_makes_no_path(tmp_path: Path, run_id: str) -> None:
    refused("invalid_run_id", lambda: LiveView(tmp_path).kill(run_id))
