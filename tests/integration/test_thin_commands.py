"""A command loads what it uses, and nothing that only other commands use."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.people import Person

SERVER = {"mcp", "mcp_types", "pydantic", "httpx", "starlette", "rye_mcp.mcp_server"}
SEARCHING = {"rye_mcp.catalog", "rye_mcp.verbs.search"}
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
    lines = [line for line in answer.err.splitlines() if line.startswith("import time:")]
    loaded = {line.rpartition("|")[2].strip() for line in lines}
    assert "rye_mcp.cli" in loaded
    assert not loaded & useless
