"""A caller gives a tool that is called with flags a value that its program would take for another flag."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.call_world import Call
from tests.trust_world import World, refused

RUNTIME = """
config:
  command: /bin/echo
  args: ["{params_json}"]
  args_with_flags: ["{tool_path}"]
  input_data: "{params_json}"
  params_env: RYE_PARAM_
"""
EVIL = "--exec=evil"


def tool(config: str, schema: str) -> str:
    return f"config: {{arguments: flags, {config}}}\nconfig_schema: {{{schema}}}\n"


ALL = "properties: {a: {}, b: {type: array}, c: {type: boolean}}"


def arguments(world: World, config: str, values: dict[str, Any], schema: str = ALL) -> list[str]:
    return list(Call.begin(world, runtime=RUNTIME, tool=tool(config, schema)).process(values).spec.args[1:])


SAFE = {
    "attached": ("flags: {a: --name=VALUE}", {"a": EVIL}, [f"--name={EVIL}"]),
    "attached to a letter": ("flags: {a: -nVALUE}", {"a": EVIL}, [f"-n{EVIL}"]),
    "nothing said": ("flags: {}", {"a": EVIL, "b": [EVIL, "-x"]}, [f"-a{EVIL}", f"-b{EVIL}", "-b-x"]),
    "nothing at all": ("flags: {a: -nVALUE}", {"a": "", "b": ["x"]}, ["-n", "", "-bx"]),
    "behind the separator": ("positionals: ['--', a, b]", {"a": EVIL, "b": ["-x"]}, ["--", EVIL, "-x"]),
    "taken whatever it is": ("flags: {a: --name ANY}", {"a": EVIL}, ["--name", EVIL]),
    "a switch": ("flags: {c: --yes/--no}", {"c": False}, ["--no"]),
}


@pytest.mark.parametrize(("config", "values", "expected"), SAFE.values(), ids=SAFE)
def test_a_value_stands_where_no_program_takes_it_for_a_flag(
    world: World, config: str, values: dict[str, Any], expected: list[str]
) -> None:
    assert arguments(world, config, values) == expected


REFUSED = {
    "apart": ("flags: {a: --name VALUE}", {"a": EVIL}),
    "one of several": ("flags: {b: --names VALUE...}", {"b": ["x", EVIL]}),
    "a place": ("positionals: [a]", {"a": EVIL}),
    "one of several in a place": ("positionals: [b]", {"b": ["x", EVIL]}),
    "a place before the separator": ("positionals: [a, '--', b]", {"a": EVIL, "b": ["x"]}),
    "a NUL": ("flags: {}", {"a": "x\0y"}),
    "too long": ("flags: {}", {"a": "x" * (100 << 10 | 1)}),
}


@pytest.mark.parametrize(("config", "values"), REFUSED.values(), ids=REFUSED)
def test_or_the_call_is_refused(world: World, config: str, values: dict[str, Any]) -> None:
    call = Call.begin(world, runtime=RUNTIME, tool=tool(config, ALL))
    error = refused("invalid_parameters", lambda: call.process(values))
    assert EVIL not in error.message


OTHERS = {
    "a pattern": "patternProperties: {'.*': {}}",
    "anything": "additionalProperties: true",
    "nothing said": "properties: {a: {}}",
}


@pytest.mark.parametrize("schema", OTHERS.values(), ids=OTHERS)
def test_a_name_that_the_tool_does_not_list_is_never_a_flag(world: World, schema: str) -> None:
    call = Call.begin(world, runtime=RUNTIME, tool=tool("flags: {}", schema))
    refused("invalid_parameters", lambda: call.process({"exec": "evil"}))


def test_a_secret_never_stands_in_the_command_line(world: World) -> None:
    schema = "properties: {a: {writeOnly: true}}"
    call = Call.begin(world, runtime=RUNTIME, tool=tool("flags: {}", schema))
    error = refused("invalid_parameters", lambda: call.process({"a": "s3cret"}))
    assert "s3cret" not in json.dumps(error.as_dict())
    passed = Call.begin(world, runtime=RUNTIME, tool=tool("env: {KEY: '{params.a}'}", schema))
    spec = passed.process({"a": "s3cret"}).spec
    assert spec.env["KEY"] == "s3cret"
    assert len(spec.args) == 1


def test_nothing_else_tells_the_program_its_parameters(world: World) -> None:
    spec = Call.begin(world, runtime=RUNTIME, tool=tool("flags: {}", ALL)).process({"a": "x"}).spec
    assert spec.input is None
    assert not any(name.startswith("RYE_PARAM_") for name in spec.env)


def test_a_value_is_no_template(world: World) -> None:
    assert arguments(world, "flags: {}", {"a": "{b} ${HOME} {params_json}"}) == [
        "-a{b} ${HOME} {params_json}"
    ]


def test_a_place_cannot_be_left_out_before_another_one(world: World) -> None:
    call = Call.begin(world, runtime=RUNTIME, tool=tool("positionals: ['--', a, b]", ALL))
    refused("invalid_parameters", lambda: call.process({"b": ["x"]}))


FORMS = {
    "counted": ({"flags": {"n": "-v..."}}, {"n": 3}, ["-v", "-v", "-v"]),
    "never": ({"flags": {"n": "-v..."}}, {"n": 0}, []),
    "underscores": ({}, {"dry_run": True, "max_size": 2.5}, ["--dry-run", "--max-size=2.5"]),
    "false and null": ({}, {"dry_run": False, "max_size": None}, []),
    "behind one flag": (
        {"flags": {"names": "--names VALUE..."}},
        {"names": ["a", "b"]},
        ["--names", "a", "b"],
    ),
    "an empty list": ({"flags": {"names": "--names VALUE..."}}, {"names": []}, []),
    "objects": ({}, {"filter": {"a": [1]}}, ['--filter={"a":[1]}']),
    "a subcommand": ({"subcommand": "build"}, {"n": 1}, ["build", "-n1"]),
    "in the order of the schema": ({}, {"names": ["z"], "n": 1}, ["-n1", "--names=z"]),
}
NAMES = "properties: {n: {}, dry_run: {type: boolean}, max_size: {}, names: {}, filter: {}}"


@pytest.mark.parametrize(("config", "values", "expected"), FORMS.values(), ids=FORMS)
def test_each_kind_of_value_has_its_form(
    world: World, config: dict[str, Any], values: dict[str, Any], expected: list[str]
) -> None:
    text = json.dumps({"arguments": "flags", **config})
    call = Call.begin(world, runtime=RUNTIME, tool=f"config: {text}\nconfig_schema: {{{NAMES}}}\n")
    assert call.process(values).spec.args[1:] == expected


WRONG = {
    "another word": "{arguments: json}",
    "a flag of no parameter": "{arguments: flags, flags: {other: --x}}",
    "no flag": "{arguments: flags, flags: {a: name}}",
    "two arguments in one": "{arguments: flags, flags: {a: '--name --exec=evil'}}",
    "a place and a flag": "{arguments: flags, positionals: [a], flags: {a: --a}}",
    "a place twice": "{arguments: flags, positionals: [a, a]}",
    "a place of no parameter": "{arguments: flags, positionals: [other]}",
    "a switch for a text": "{arguments: flags, flags: {a: --name}}",
    "a subcommand that is a flag": "{arguments: flags, subcommand: --exec}",
    "a shell": "{arguments: flags, shell: true}",
}


@pytest.mark.parametrize("config", WRONG.values(), ids=WRONG)
def test_what_a_tool_says_wrongly_is_its_mistake(world: World, config: str) -> None:
    schema = "config_schema: {properties: {a: {type: string}}}"
    with pytest.raises(Exception) as caught:  # noqa: PT011 - it may be found when the item is read already
        Call.begin(world, runtime=RUNTIME, tool=f"config: {config}\n{schema}\n").process({"a": "x"})
    assert getattr(caught.value, "code", None) == "invalid_item"


def test_a_runtime_that_knows_no_flags_is_named(world: World) -> None:
    call = Call.begin(world, tool=tool("flags: {}", ALL))
    error = refused("invalid_item", lambda: call.process({"a": "x"}))
    assert "args_with_flags" in error.message
