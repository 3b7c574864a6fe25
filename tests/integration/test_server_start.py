"""The `rye-mcp` command loads the server quickly, and what it has loaded holds up nobody later."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from rye_mcp.mcp_server.greeting import AGREED_ON, KNOWN_SDK
from tests.people import SCRIPTS


@pytest.mark.thorough
def test_nothing_looks_for_garbage_while_the_server_is_loaded_nor_through_it_later() -> None:
    script = """
import gc, sys

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "mcp.server":
            print("loading", gc.isenabled())

sys.meta_path.insert(0, Watch())
from rye_mcp.start import main
sys.argv = ["rye-mcp", "--version"]
try:
    main()
finally:
    print("loaded", gc.isenabled(), gc.get_freeze_count() > 50_000)
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ran.stdout.splitlines()[:1] == ["loading False"], ran.stderr
    assert ran.stdout.splitlines()[-1] == "loaded True True"


@pytest.mark.thorough
@pytest.mark.parametrize("module", ["rye_mcp", "rye_mcp.__main__"])
def test_the_module_is_the_server_for_callers_that_know_an_interpreter_only(module: str) -> None:
    ran = subprocess.run([sys.executable, "-m", module, "--help"], capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("usage: rye-mcp ")


@pytest.mark.first_case
@pytest.mark.parametrize("start", [["rye-mcp"], [sys.executable, "-m", "rye_mcp"]])
def test_the_server_says_its_version(start: list[str]) -> None:
    words = [str(SCRIPTS / start[0]), *start[1:]] if len(start) == 1 else start
    done = subprocess.run([*words, "--version"], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == f"rye-mcp {version('rye-mcp')}\n"


def line(number: int, method: str, **params: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n"


def begin(revision: str, capabilities: dict[str, Any] | None = None, **more: Any) -> str:
    client = {"name": "a client", "version": "1"}
    return line(
        1, "initialize", protocolVersion=revision, capabilities=capabilities or {}, clientInfo=client, **more
    )


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("options", "is_usual"),
    [
        ([], True),
        (["--project", "here"], True),
        (["--project", "gone"], False),
        (["--confirm", "here"], False),
        (["--project", "here", "--confirm"], False),
    ],
)
def test_a_client_that_waits_is_answered_before_the_sdk_is_loaded(
    tmp_path: Path, options: list[str], is_usual: bool
) -> None:
    Path(tmp_path, "here/.ai").mkdir(parents=True)
    script = """
import sys

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "mcp.server":
            raise SystemExit(7)

sys.meta_path.insert(0, Watch())
sys.argv[0] = "rye-mcp"
from rye_mcp.start import main
main()
"""
    words = [sys.executable, "-c", script, *options]
    request = begin("2025-06-18")
    ran = subprocess.run(words, cwd=tmp_path, input=request, capture_output=True, text=True, check=False)
    assert ran.returncode == 7, ran.stderr
    if is_usual and version("mcp") == KNOWN_SDK:
        assert json.loads(ran.stdout)["result"]["serverInfo"]["version"] == version("rye-mcp")
    else:
        assert ran.stdout == ""


@pytest.mark.thorough
@pytest.mark.parametrize("revision", [*AGREED_ON, "1999-01-01"])
def test_the_early_answer_is_that_of_the_sdk_and_the_only_one(revision: str) -> None:
    """The SDK answers itself where a request says more."""
    ping = line(2, "ping")
    early = answers(begin(revision, {"roots": {"listChanged": True}, "sampling": {}}) + ping)
    late = answers(begin(revision, _meta={}) + ping)
    assert [each["id"] for each in early] == [1, 2]
    assert early == late


def answers(messages: str) -> list[dict[str, Any]]:
    words = [str(SCRIPTS / "rye-mcp")]
    ran = subprocess.run(words, input=messages, capture_output=True, text=True, timeout=60, check=True)
    return [json.loads(each) for each in ran.stdout.splitlines()]
