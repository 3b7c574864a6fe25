"""A caller names parameters like keys of a configuration, or like names that templates know."""

from __future__ import annotations

from typing import Any

import pytest

from rye_mcp.executor.configuration.builder import build_request
from tests.call_world import Call
from tests.trust_world import World, refused

NAMES: dict[str, Any] = {
    "url": "http://evil.example/",
    "env": {"LD_PRELOAD": "/tmp/evil.so"},
    "cwd": "/tmp",
    "timeout": 99_999,
    "headers": {"Host": "evil.example"},
    "command": "/tmp/evil",
    "args": ["evil"],
    "shell": True,
    "input_data": "evil",
    "max_output": 1024,
    "params_env": "LD_",
    "mode": "stream",
    "method": "DELETE",
    "body": "evil",
    "auth": {"type": "bearer", "token": "evil"},
    "allow_private_hosts": True,
    "sinks": ["evil"],
    "__sinks": ["evil"],
    "tool_path": "/tmp/evil.py",
    "tool_dir": "/tmp",
    "project_path": "/tmp",
    "anchor_path": "/tmp",
    "runtime_lib": "/tmp",
    "params_json": "{}",
    "item_id": "rye/evil",
    "params": {"name": "evil"},
    "config": {"command": "evil"},
}
SCHEMA = f"config_schema: {{properties: {{{', '.join(f'{name}: {{}}' for name in NAMES)}}}}}"
RUNTIME = """
config:
  command: /bin/echo
  args: ["{tool_path}", "{command}", "{project_path}", "{item_id}"]
  input_data: "{params_json}"
  timeout: 10
"""
REQUEST = "config: {method: POST, url: 'https://example.org/', headers: {X-Id: '{item_id}'}, body: {a: b}}\n"


@pytest.mark.each_once
@pytest.mark.parametrize("tool", ["", SCHEMA], ids=["undeclared", "declared"])
@pytest.mark.parametrize("name", NAMES)
def test_of_a_process(world: World, name: str, tool: str) -> None:
    call = Call.begin(world, runtime=RUNTIME, tool=tool)
    plain, attacked = call.process({}).spec, call.process({name: NAMES[name]}).spec
    for part in ("command", "args", "cwd", "env", "timeout", "max_output", "search_path"):
        assert getattr(attacked, part) == getattr(plain, part)
    assert attacked.args[1] == "/bin/echo"
    assert name.encode() in (attacked.input or b"")


@pytest.mark.each_once
@pytest.mark.parametrize("tool", ["", SCHEMA], ids=["undeclared", "declared"])
@pytest.mark.parametrize("name", NAMES)
def test_of_a_request(world: World, name: str, tool: str) -> None:
    call = Call.begin(world, primitive="http_client", runtime="", tool=f"{REQUEST}{tool}")
    valid, environment, paths = call.valid(), call.environment(), call.paths()
    plain, attacked = (
        build_request(valid, call.parameters(values), environment, paths).spec
        for values in ({}, {name: NAMES[name]})
    )
    assert attacked == plain


def test_variables_of_parameters_reach_no_other_variable(world: World) -> None:
    """`P` and `ATH`, `LD_` and `PRELOAD`: a prefix that a name completes."""
    for prefix in ("P", "LD_", "PYTHON_", "", "NODE_OPTIONS_"):
        call = Call.begin(world, runtime=f"config: {{command: x, params_env: '{prefix}'}}", tool=SCHEMA)
        refused("invalid_item", call.process)


def test_the_time_of_a_caller_is_never_longer(world: World) -> None:
    call = Call.begin(world, runtime=RUNTIME)
    assert call.process({"timeout": 99_999}, timeout=99_999).spec.timeout == 10
