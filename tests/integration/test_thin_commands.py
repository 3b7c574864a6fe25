"""A command loads what it uses, and nothing that only other commands use."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.people import SCRIPTS, Person

SERVER = {"mcp", "mcp_types", "pydantic", "httpx", "starlette", "rye_mcp.mcp_server"}
SEARCHING = {"rye_mcp.catalog", "rye_mcp.language.meaning", "rye_mcp.verbs.search"}
RUNNING = {"rye_mcp.executor.primitive_executor", "sqlite3", "rye_mcp.receipts"}
CALLS_INSIDE = {"rye_mcp.inside.desk", "rye_mcp.inside.service"}
KEYS = {"getpass", "rye_mcp.trust.rotation"}

TOOL = "# /// rye\n# version: 1.0.0\n# executor_id: rye/core/runtimes/bash_runtime\n# ///\necho 1\n"

COMMANDS = {
    "run": (["run", "demo/tool"], SERVER | SEARCHING | CALLS_INSIDE | KEYS),
    "explain": (["explain", "demo/tool"], SERVER | SEARCHING | CALLS_INSIDE | KEYS),
    "search": (["search", "tool"], SERVER | RUNNING - {"sqlite3"} | CALLS_INSIDE | KEYS),
    "help": (["--help"], SERVER | SEARCHING | RUNNING | CALLS_INSIDE | KEYS | {"asyncio", "cryptography"}),
}
"""The command, and modules that it has no use for."""


@pytest.mark.first_case
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_loads_nothing_that_only_others_use(tmp_path: Path, name: str) -> None:
    ada, project = Person("ada", tmp_path / "ada"), tmp_path / "project"
    ada.begin(project)
    tool = project / ".ai/tools/demo/tool.sh"
    tool.parent.mkdir(parents=True, exist_ok=True)
    tool.write_text(TOOL)
    ada.sign("demo/tool", project)
    words, useless = COMMANDS[name]
    answer = ada.rye(*words, cwd=project, before=["env", "PYTHONPROFILEIMPORTTIME=1"])
    found = loaded(answer.err)
    assert "rye_mcp.cli" in found
    assert not found & useless


SEES_FILES = """
import os, sys
log = os.open(os.environ["FILES_OPENED"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
sys.addaudithook(lambda event, args: event == "open" and os.write(log, f"{args[0]}\\n".encode()))
"""


def test_a_server_in_which_nobody_searches_reads_no_word_table(tmp_path: Path) -> None:
    ada, project = Person("ada", tmp_path / "ada"), tmp_path / "project"
    ada.begin(project)
    (tmp_path / "sitecustomize.py").write_text(SEES_FILES)
    opened = {"PYTHONPATH": str(tmp_path), "FILES_OPENED": str(tmp_path / "opened")}
    verify = {"item_id": "rye/core/verify"}
    with serving(replace(ada, more=opened), project) as call:
        call("load", verify)
        call("execute", {**verify, "parameters": verify})
        assert not any(each.endswith("words.table") for each in read(tmp_path / "opened"))
        call("search", {"query": "verify an item"})
        assert any(each.endswith("words.table") for each in read(tmp_path / "opened"))


@contextmanager
def serving(person: Person, project: Path) -> Iterator[Callable[[str, dict[str, Any]], None]]:
    """A server that is started, not forked; what calls a tool of it."""
    client = {"name": "thin", "version": "1"}
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
    numbers = count()
    with subprocess.Popen(
        [SCRIPTS / "rye-mcp"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=person.environment,
        cwd=project,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        to_server, from_server = server.stdin, server.stdout

        def ask(method: str, params: dict[str, Any]) -> None:
            number = next(numbers)
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            to_server.write(json.dumps(message).encode() + b"\n")
            to_server.flush()
            while (answer := json.loads(from_server.readline())).get("id") != number:
                pass
            assert not answer["result"].get("isError"), answer

        ask("initialize", hello)
        yield lambda name, arguments: ask("tools/call", {"name": name, "arguments": arguments})
        to_server.close()


def read(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def loaded(printed: str) -> set[str]:
    """The modules of which Python has printed how long they took."""
    lines = [line for line in printed.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines}
