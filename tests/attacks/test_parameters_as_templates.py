"""A caller gives values that look like templates, shell code, or more than one value."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lilux.primitives.subprocess import ProcessSpec, SubprocessPrimitive
from rye_mcp.executor.configuration.builder import build_request
from tests.call_world import Call
from tests.trust_world import World, refused

pytestmark = pytest.mark.both_loops

PIECES = [
    *("{tool_path}", "{params_json}", "{name}", "{params.name}", "{command}", "{timeout}", "${HOME}"),
    *("${GITHUB_TOKEN:-x}", "$(id)", "`id`", "; id", "&& id", "| id", "'", '"', "\\", "\n", "\r", "\t", " "),
    *(
        "$HOME",
        "*",
        "~",
        "--",
        "-rf",
        "<<EOF",
        "!!",
        "#",
        "\x1b[0m",
        "é",
        "𝄞",
        "%2e%2e/",
        "../",
        "?a=b",
        "&c=d",
    ),
]
HOSTILE = st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=6).map("".join)
FILLED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)

DECLARES = "config_schema: {properties: {name: {}}}"
RUNTIME = """
config:
  command: /bin/echo
  args: ["{name}", "--{name}--", "{params.name}", "{params_json}"]
  input_data: "{params_json}<{name}>"
  env: {NAME: "{name}"}
  params_env: P_
  timeout: 9
"""
SHELL = """
config:
  command: "printf '%s|' {name} {params.name} \\"$1\\" \\"$NAME\\""
  args: ["{name}"]
  env: {NAME: "{name}"}
  shell: true
"""
REQUEST = """
config:
  method: POST
  url: "https://example.org/items/x{name}?q={name}"
  body: {name: "{name}"}
"""


@pytest.fixture
def call(world: World) -> Call:
    return Call.begin(world, runtime=RUNTIME, tool=DECLARES)


def fits_an_argument(text: str) -> bool:
    return "\0" not in text and not any("\ud800" <= each <= "\udfff" for each in text)


@FILLED
@given(value=HOSTILE.filter(fits_an_argument))
def test_a_value_reaches_a_program_as_it_is(call: Call, value: str) -> None:
    spec = call.process({"name": value}).spec
    text = json.dumps({"name": value}, ensure_ascii=False, separators=(",", ":"))
    assert spec.args == [value, f"--{value}--", value, text]
    assert spec.input == f"{text}<{value}>".encode()
    assert spec.env["NAME"] == spec.env["P_name"] == value
    assert (spec.command, spec.timeout, spec.cwd) == ("/bin/echo", 9, str(call.project))


@pytest.mark.thorough
@settings(parent=FILLED, max_examples=40)
@given(value=HOSTILE.filter(fits_an_argument))
def test_a_shell_takes_it_as_one_word(world: World, value: str) -> None:
    call = Call.begin(world, runtime=SHELL, tool=DECLARES)
    spec = call.process({"name": value}).spec
    ran = subprocess.run(
        [spec.command, *spec.args], env=dict(spec.env), cwd=spec.cwd, capture_output=True, timeout=10
    )
    assert ran.stdout == f"{value}|{value}|{value}|{value}|".encode()
    assert not ran.stderr


@FILLED
@given(value=HOSTILE.filter(fits_an_argument))
@example(value="\\../")
@example(value="/.;x")
def test_it_changes_nothing_of_an_address_but_its_own_place(world: World, value: str) -> None:
    call = Call.begin(world, primitive="http_client", runtime="", tool=f"{REQUEST}{DECLARES}")
    valid, environment, paths = call.valid(), call.environment(), call.paths()
    parameters = call.parameters({"name": value})
    segments = [each.partition(";")[0] for each in re.split(r"[/\\]", value)[1:]]
    if {".", ".."} & {*segments}:  # decoded, it would climb
        refused("invalid_parameters", lambda: build_request(valid, parameters, environment, paths))
        return
    spec = build_request(valid, parameters, environment, paths).spec
    path, _, query = spec.url.target.partition("?")
    assert spec.url.netloc == "example.org"
    assert path.count("/") == 2
    assert query.startswith("q=")
    assert not set("&#?= \n") & set(query[2:])
    assert json.loads(spec.body or b"") == {"name": value}


async def test_and_a_real_program_gets_it(world: World) -> None:
    call = Call.begin(
        world,
        runtime=RUNTIME.replace("/bin/echo", "/usr/bin/printf").replace("args: [", "args: ['%s\\n', "),
        tool=DECLARES,
    )
    value = "{tool_path} ${HOME} $(id) '\"\\ `id` *"
    result = await SubprocessPrimitive().run(call.process({"name": value}).spec)
    assert result.stdout.splitlines()[:3] == [value, f"--{value}--", value]


@pytest.mark.parametrize("text", ["a\0b", "\0"])
def test_a_nul_does_not_end_an_argument_early(call: Call, text: str) -> None:
    from tests.trust_world import refused

    error = refused("invalid_parameters", lambda: call.process({"name": text}))
    assert "NUL" in error.message


def test_an_undeclared_parameter_fills_nothing(world: World) -> None:
    call = Call.begin(world, runtime="config: {command: /bin/echo, args: ['{evil}', '{params.evil}']}")
    assert call.process({"evil": "--config=/tmp/evil"}).spec.args == ["{evil}", "{params.evil}"]


def test_a_path_with_blanks_and_dollars_is_a_path(tmp_path: Path) -> None:
    world = World(tmp_path / "a b $HOME ${PATH} {tool_path} 'c'")
    runtime = """
env_config: {interpreter: {type: venv_python, var: PYTHON, fallback: python3}}
config: {command: "${PYTHON}", args: ["{tool_path}", "{project_path}"]}
"""
    call = Call.begin(world, runtime=runtime)
    python = world.project / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    (world.project / ".venv/pyvenv.cfg").touch()
    python.symlink_to("/bin/echo")
    call.approve()
    spec: ProcessSpec = call.process().spec
    assert [spec.command, *spec.args] == [
        str(python),
        str(call.paths().snapshot.tool_path),
        str(world.project),
    ]
    ran = subprocess.run([spec.command, *spec.args], capture_output=True, text=True, timeout=10)
    assert ran.stdout == f"{spec.args[0]} {spec.args[1]}\n"
    assert shlex.quote(str(python)) != str(python)


@pytest.mark.parametrize("value", [{"name": "{tool_path}"}, ["${HOME}"], {"{name}": 1}])
def test_what_is_inside_a_value_is_no_template_either(call: Call, value: Any) -> None:
    text = json.dumps(value, separators=(",", ":"))
    assert call.process({"name": value}).spec.args[0] == text
