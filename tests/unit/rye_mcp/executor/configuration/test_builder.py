"""What runs: merged from the chain, filled once, refused with the element that says it wrongly."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from lilux._http.retry import MAX_WAIT_S
from rye_mcp.errors import RyeError
from rye_mcp.executor.chain.anchor import Anchor
from rye_mcp.executor.configuration.builder import (
    MAX_ARGUMENT_BYTES,
    MAX_VARIABLE_BYTES,
    build_other,
    build_request,
    longest_run,
    merge_config,
)
from tests.call_world import Call
from tests.trust_world import World

DECLARES = "config_schema: {properties: {name: {}, other: {}, command: {}}}"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def config(text: str) -> str:
    return f"config: {{command: /bin/x, {text}}}"


def args(world: World, template: str, values: Any = None, *, tool: str = DECLARES) -> list[str]:
    call = Call.begin(world, runtime=config(f"args: [{json.dumps(template)}]"), tool=tool)
    return list(call.process(values).spec.args)


def refusal(call: Call, values: Any = None, **options: Any) -> RyeError:
    with pytest.raises(RyeError) as caught:
        call.process(values, **options)
    return caught.value


def test_the_tool_overrides_the_runtime_mappings_merge_and_null_takes_away(world: World) -> None:
    call = Call.begin(
        world,
        runtime="config: {command: a, args: [x, y], env: {A: '1', B: '1'}, timeout: 5, cwd: /tmp}",
        tool="config: {args: [z], env: {B: '2', C: '2'}, cwd: null}",
    )
    assert merge_config(call.valid().verified.chain) == {
        "command": "a",
        "args": ["z"],
        "env": {"A": "1", "B": "2", "C": "2"},
        "timeout": 5,
    }


@pytest.mark.parametrize(
    ("args", "before", "behind"),
    [
        ('["-s", "-B", "{tool_path}", "-x"]', ["-s", "-B"], 2),
        ('["{project_path}/run", "{name}"]', ["PROJECT/run"], 1),
        ('["${HOME}", "-x"]', [], 2),
        ('["{params_json}"]', [], 1),
        ('["-a", "-b"], shell: true', [], 5),
    ],
)
def test_what_is_known_before_a_call_is_the_half_of_the_runtime(
    world: World, args: str, before: list[str], behind: int
) -> None:
    call = Call.begin(world, runtime=config(f"args: {args}, env: {{OWN: '{{name}}'}}"), tool=DECLARES)
    first, second = (call.halves({"name": name}).spec for name in ("a", "b"))
    assert first.runtime == second.runtime
    assert list(first.runtime.args) == [text.replace("PROJECT", str(world.project)) for text in before]
    assert len(first.call.args) == behind
    assert (first.call.env["OWN"], second.call.env["OWN"]) == ("a", "b")
    assert "RYE_TOOL_SOURCE" in first.call.env
    assert first.runtime.env["HOME"] == call.server["HOME"]
    assert not first.call.env.keys() & call.server.keys()


def test_the_same_bytes_elsewhere_are_another_configuration(world: World, tmp_path: Path) -> None:
    first, second = Call.begin(world), Call.begin(World(tmp_path / "other"))
    assert first.process().spec.cwd != second.process().spec.cwd
    second.sign("tools/demo/tool.yaml", "tool_type: script\nexecutor_id: base/runtime\nconfig: {wrong: 1}\n")
    first.sign("tools/demo/tool.yaml", "tool_type: script\nexecutor_id: base/runtime\nconfig: {wrong: 1}\n")
    for call in (first, second):
        assert refusal(call).where == str(call.project / ".ai/tools/demo/tool.yaml")


def test_a_process_is_what_the_specification_shows(world: World) -> None:
    call = Call.begin(
        world,
        runtime="""
env_config: {interpreter: {type: venv_python, var: RYE_PYTHON, fallback: python3}}
config:
  command: "${RYE_PYTHON}"
  args: ["{tool_path}", "--params", "{params_json}", "--project-path", "{project_path}"]
  timeout: 300
""",
        tool=DECLARES,
    )
    spec = call.process({"name": "World"}).spec
    tool = str(call.paths().snapshot.tool_path)
    assert spec.command == "python3"
    assert spec.args == [tool, "--params", '{"name":"World"}', "--project-path", str(world.project)]
    assert (spec.cwd, spec.timeout, spec.result_fd) == (str(world.project), 300, True)


CONTEXT = {
    "tool_source_path": "tool_source",
    "user_space": "user_space",
    "system_space": "system_space",
}


@pytest.mark.parametrize(("name", "attribute"), CONTEXT.items())
def test_the_context_names_places(world: World, name: str, attribute: str) -> None:
    assert args(world, f"{{{name}}}") == [str(getattr(Call(world).paths(), attribute))]


def test_the_context_wins_over_configuration_and_that_over_parameters(world: World) -> None:
    tool = (
        "config_schema: {properties: {item_id: {}, greeting: {}, name: {}}}\nconfig: {greeting: from config}"
    )
    values = {"item_id": "p", "greeting": "p", "name": "p"}
    template = "{item_id} {greeting} {name} {params.item_id} {params.greeting} {params.name}"
    assert args(world, template, values, tool=tool) == ["demo/tool from config p p p p"]


def test_values_of_a_configuration_refer_to_each_other(world: World) -> None:
    tool = "config: {one: '{two}!', two: '{three}', three: '${HOME:-x} {name} 3', size: 7}\n" + DECLARES
    assert args(world, "{one} {size}", {"name": "n"}, tool=tool) == ["/nowhere/home n 3! 7"]


TOO_FAR = "one: '{v0}', " + "".join(f"v{count}: '{{v{count + 1}}}', " for count in range(20)) + "v20: x"


@pytest.mark.parametrize(
    "values",
    ["one: '{one}'", "one: '{two}', two: '{one}'", TOO_FAR],
    ids=["itself", "each other", "too far"],
)
def test_but_come_to_an_end(world: World, values: str) -> None:
    call = Call.begin(world, runtime=config("args: ['{one}']"), tool=f"config: {{{values}}}")
    assert "refer to each other" in refusal(call).message


def test_a_text_that_grows_without_end_is_refused(world: World) -> None:
    call = Call.begin(
        world,
        runtime=config("args: ['{a}']"),
        tool=f"config: {{a: '{'{b}' * 999}', b: '{'{c}' * 999}', c: xx}}",
    )
    assert "characters" in refusal(call).message


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{name}", ""),
        ("{unknown}", "{unknown}"),
        ("{extra}", "{extra}"),
        ("{params.extra}", "{params.extra}"),
        ("awk '{print $1}'", "awk '{print $1}'"),
    ],
)
def test_what_nothing_fills_stays_with_a_notice(world: World, template: str, expected: str) -> None:
    call = Call.begin(world, runtime=config(f"args: [{json.dumps(template)}]"), tool=DECLARES)
    built = call.process({"extra": "an undeclared parameter"})
    assert built.spec.args == [expected]
    stays = expected in {"{unknown}", "{extra}", "{params.extra}"}
    assert [notice.code for notice in built.notices] == ["unknown_placeholder"] * stays


def test_a_key_that_means_nothing_is_refused_with_the_element_that_has_it(world: World) -> None:
    call = Call.begin(world, tool="config: {timout: 5}")
    error = refusal(call)
    assert error.code == "invalid_item"
    assert "demo/tool" in error.message
    assert "timout" in error.message
    assert error.details["field"] == "config.timout"


WRONG = {
    "command: 5": "command",
    "command: x, args: x": "args",
    "command: x, args: [1]": "args[0]",
    "command: x, timeout: 0": "timeout",
    "command: x, timeout: '5'": "timeout",
    "command: x, timeout: true": "timeout",
    "command: x, timeout: 99999999999": "timeout",
    "command: x, max_output: 5": "max_output",
    "command: x, max_output: '5'": "max_output",
    "command: x, cwd: 5": "cwd",
    "command: x, env: [A]": "env",
    "command: x, env: {A: [1]}": "env.A",
    "command: x, env: {RYE_RESULT_FD: '1'}": "env",
    "command: x, params_env: PATH": "params_env",
    "command: x, params_env: ''": "params_env",
    "command: x, params_env: LD_": "params_env",
    "command: 'x \"{tool_path}\"', shell: true": "command",
    "command: x, shell: maybe": "shell",
}


@pytest.mark.parametrize(("text", "field"), WRONG.items())
def test_what_is_malformed_names_the_element_and_the_field(world: World, text: str, field: str) -> None:
    error = refusal(Call.begin(world, runtime=f"config: {{{text}}}"))
    assert error.code == "invalid_item"
    assert error.details["field"] == f"config.{field}"
    assert error.details["item_id"] == "base/runtime"


def test_without_a_program_every_element_that_could_name_one_is_told(world: World) -> None:
    error = refusal(Call.begin(world, runtime="config: {timeout: 5}"))
    assert error.code == "invalid_item"
    assert error.message.startswith("demo/tool: config.command:")
    assert error.message.endswith("and none in base/runtime")
    taken_away = refusal(Call.begin(world, runtime=config("timeout: 5"), tool="config: {command: null}"))
    assert "base/runtime" not in taken_away.message


def test_a_caller_shortens_the_time_and_never_extends_it(world: World) -> None:
    call = Call.begin(world, runtime=config("timeout: 10"))
    assert call.process(timeout=5).spec.timeout == 5
    assert call.process(timeout=50).spec.timeout == 10
    assert Call.begin(world).process().spec.timeout == 300
    for timeout in (0, -1, float("nan"), float("inf"), True):
        assert refusal(call, timeout=timeout).code == "invalid_parameters"
    assert call.process(timeout=10**400).spec.timeout == 300, "which no float can hold"


GROWING = {
    "one text": "input_data: '" + "{name}" * 10 + "'",
    "all arguments": "args: [" + ", ".join(["'{name}{name}'"] * 100) + "]",
    "all variables": "env: {" + ", ".join(f"A{number}: '{{name}}{{name}}'" for number in range(100)) + "}",
    "values in each other": "long: '" + "x" * 60_000 + "', args: [" + ", ".join(["'{long}'"] * 400) + "]",
    "what would be huge at once": "long: '" + "x" * 60_000 + "', input_data: '" + "{long}" * 60_000 + "'",
}


@pytest.mark.parametrize("text", GROWING.values(), ids=GROWING)
def test_what_is_small_does_not_become_huge(world: World, text: str) -> None:
    """Neither does it take long to find out: the server that does so has other calls."""
    declared = "config_schema: {properties: {name: {type: string}}}"
    call = Call.begin(world, runtime=config(text), tool=declared)
    begun = time.process_time()
    error = refusal(call, {"name": "x" * (8 << 20)})
    assert error.code in {"invalid_item", "invalid_parameters"}
    assert time.process_time() - begun < 2


def test_the_working_directory_is_the_project_unless_something_says_another(world: World) -> None:
    assert Call.begin(world).process().spec.cwd == str(world.project)
    call = Call.begin(world, runtime=config("cwd: 'sub/{name}'"), tool=DECLARES)
    assert call.process({"name": "a"}).spec.cwd == f"{world.project}/sub/a"
    call.anchor = Anchor("tool_dir", Path("/source"), None, {}, "{tool_dir}")
    assert call.process().spec.cwd == str(call.paths().snapshot.tool_dir)


def test_standard_input_takes_everything(world: World) -> None:
    call = Call.begin(world, runtime=config("input_data: '{params_json}'"), tool=DECLARES)
    values = {"name": "\0 é {tool_path} ${HOME}", "other": "x" * (5 << 20)}
    sent = call.process(values).spec.input
    assert sent is not None
    assert json.loads(sent) == values


# --- variables ---


def test_variables_of_a_configuration_are_added_filled(world: World) -> None:
    call = Call.begin(world, runtime=config("env: {A: '{name}', B: '${HOME}', C: 3, D: null}"), tool=DECLARES)
    found = call.process({"name": "${HOME}"}).spec.env
    assert {name: found[name] for name in "ABCD"} == {"A": "${HOME}", "B": "/nowhere/home", "C": "3", "D": ""}


def test_plain_parameters_become_variables_where_that_is_asked_for(world: World) -> None:
    schema = """
config_schema:
  properties:
    text: {}
    number: {}
    flag: {}
    nothing: {}
    list: {}
    secret: {writeOnly: true}
    with-dash: {}
    long: {}
    zero: {}
"""
    call = Call.begin(world, runtime=config("params_env: RYE_PARAM_"), tool=schema)
    values = {
        "text": "${HOME}",
        "number": 10**30,
        "flag": True,
        "nothing": None,
        "list": [1],
        "secret": "s3cr3t",
        "with-dash": "x",
        "long": "x" * (MAX_VARIABLE_BYTES + 1),
        "zero": "\0",
        "undeclared": "x",
    }
    built = call.process(values)
    found = {name: text for name, text in built.spec.env.items() if name.startswith("RYE_PARAM_")}
    assert found == {
        "RYE_PARAM_text": "${HOME}",
        "RYE_PARAM_number": str(10**30),
        "RYE_PARAM_flag": "true",
        "RYE_PARAM_nothing": "",
    }
    [notice] = built.notices
    assert notice.code == "parameters_not_in_env"
    assert all(name in notice.message for name in ("with-dash", "long", "zero"))
    assert "s3cr3t" not in repr(built)


def test_a_parameter_replaces_no_variable(world: World) -> None:
    call = Call.begin(world, runtime=config("params_env: MY_, env: {MY_name: config}"), tool=DECLARES)
    built = call.process({"name": "parameter"})
    assert built.spec.env["MY_name"] == "config"
    assert [notice.code for notice in built.notices] == ["parameters_not_in_env"]


def test_no_prefix_makes_a_parameter_a_variable_that_chooses_code(world: World) -> None:
    schema = "config_schema: {properties: {OPTIONS: {}, name: {}}}"
    call = Call.begin(world, runtime=config("params_env: NODE_"), tool=schema)
    built = call.process({"OPTIONS": "--require=/tmp/x.js", "name": "Ada"})
    assert "NODE_OPTIONS" not in built.spec.env
    assert built.spec.env["NODE_name"] == "Ada"
    assert [notice.code for notice in built.notices] == ["parameters_not_in_env"]


# --- what no command line holds ---


def test_what_is_too_long_for_an_argument_is_refused_with_advice(world: World) -> None:
    call = Call.begin(world, runtime=config("args: ['{params_json}']"), tool=DECLARES)
    fits = "x" * (MAX_ARGUMENT_BYTES - len('{"name":""}'))
    assert call.process({"name": fits}).spec.args == [json.dumps({"name": fits}, separators=(",", ":"))]
    error = refusal(call, {"name": fits + "x"})
    assert error.code == "invalid_parameters"
    assert "standard input" in error.hint


def test_a_nul_is_refused_where_it_cannot_stand(world: World) -> None:
    for text in ("args: ['{name}']", "cwd: '{name}'", "env: {A: '{name}'}"):
        call = Call.begin(world, runtime=config(text), tool=DECLARES)
        error = refusal(call, {"name": "a\0b"})
        assert error.code == "invalid_parameters"
        assert "NUL" in error.message
    json_text = Call.begin(world, runtime=config("args: ['{params_json}']"), tool=DECLARES)
    assert json_text.process({"name": "a\0b"}).spec.args == ['{"name":"a\\u0000b"}']


# --- requests ---

POST = """
config:
  method: POST
  url: "https://example.org/items/{name}?q={other}"
  headers: {X-Name: "{name}"}
  body: {whole: "{other}", text: "<{other}>"}
  timeout: 20
"""


def request(call: Call, values: Any = None, **options: Any) -> Any:
    return build_request(call.valid(), call.parameters(values), call.environment(), call.paths(), **options)


def test_a_request_is_filled_with_what_the_tool_declares(world: World) -> None:
    call = Call.begin(world, primitive="http_client", runtime="", tool=f"{POST}{DECLARES}")
    spec = request(call, {"name": "a/b", "other": [1]}).spec
    assert spec.url.target == "/items/a%2Fb?q=%5B1%5D"
    assert ("X-Name", "a/b") in spec.headers
    assert json.loads(spec.body or b"") == {"whole": [1], "text": "<[1]>"}
    assert spec.timeout == 20
    assert request(call, {"name": "n"}, timeout=3).spec.timeout == 3
    assert request(call, {"name": "n"}, timeout=300).spec.timeout == 20


@pytest.mark.parametrize(
    ("primitive", "said", "asked", "longest"),
    [
        ("subprocess", "config: {command: x}", None, 300),
        ("subprocess", "config: {command: x, timeout: 7}", None, 7),
        ("subprocess", "config: {command: x, timeout: 7}", 3, 3),
        ("http_client", POST, None, 20),
        ("http_client", f"{POST}  retry: {{max_attempts: 3}}\n", None, 3 * 20 + 2 * MAX_WAIT_S),
        ("http_client", f"{POST}  retry: {{max_attempts: 3}}\n", 1, 3 * 1 + 2 * MAX_WAIT_S),
        ("http_client", f"{POST}  retry: {{max_attempts: '{{other}}'}}\n", 1, 100 * 1 + 99 * MAX_WAIT_S),
    ],
)
def test_how_long_a_run_takes_at_most_is_known_before_it_is_filled(
    world: World, primitive: str, said: str, asked: float | None, longest: float
) -> None:
    call = Call.begin(world, primitive=primitive, runtime="", tool=f"{said}\n{DECLARES}")
    assert longest_run(call.valid().verified.chain, asked) == longest


def test_a_secret_parameter_stands_in_no_message_of_a_request(world: World) -> None:
    schema = "config_schema: {properties: {name: {writeOnly: true}, other: {}}}"
    call = Call.begin(world, primitive="http_client", runtime="", tool=f"{POST}{schema}")
    assert "s3cr3t" in request(call, {"name": "s3cr3t"}).spec.secrets
    with pytest.raises(RyeError) as caught:
        request(call, {"name": "s3cr3t\nx"})
    assert caught.value.code == "invalid_parameters"
    assert "s3cr3t" not in json.dumps(caught.value.as_dict())


def test_nor_does_anything_inside_of_one_that_only_the_body_holds(world: World) -> None:
    tool = (
        "config: {url: 'https://example.org/', method: POST, body: {given: '{name}'}}\n"
        "config_schema: {properties: {name: {properties: {word: {writeOnly: true}}}}}"
    )
    call = Call.begin(world, primitive="http_client", runtime="", tool=tool)
    spec = request(call, {"name": {"word": "s3cr3t", "more": [{"pin": 7301}]}}).spec
    assert b"s3cr3t" in spec.body
    assert {"s3cr3t", "7301"} <= {*spec.secrets}


def test_nor_does_one_that_names_the_host(world: World) -> None:
    tool = "config: {url: 'https://{name}/'}\nconfig_schema: {properties: {name: {writeOnly: true}}}"
    call = Call.begin(world, primitive="http_client", runtime="", tool=tool)
    with pytest.raises(RyeError) as caught:
        request(call, {"name": "s3cr3t host"})
    assert caught.value.code == "invalid_parameters"
    assert "s3cr3t" not in json.dumps(caught.value.as_dict())


def test_no_file_names_sinks(world: World) -> None:
    tool = "config: {url: 'https://example.org/', sinks: [x]}"
    call = Call.begin(world, primitive="http_client", runtime="", tool=tool)
    with pytest.raises(RyeError, match="sinks"):
        request(call)


def test_a_token_that_is_withheld_is_missing_not_sent(world: World) -> None:
    tool = "config: {url: 'https://example.org/', auth: {type: bearer, token: '${GITHUB_TOKEN}'}}"
    call = Call.begin(world, primitive="http_client", runtime="", tool=tool)
    with pytest.raises(RyeError, match=r"is \$\{GITHUB_TOKEN\} set\?$"):
        request(call)
    call = Call.begin(world, primitive="http_client", runtime="", tool=tool)
    call.server = {**call.server, "GITHUB_TOKEN": "s3cr3t", "OTHER_TOKEN": "s3cr3t"}
    said = r"is \$\{GITHUB_TOKEN\} set\? \(withheld, since permissions.env does not name it: GITHUB_TOKEN\)$"
    with pytest.raises(RyeError, match=said):
        request(call)
    granted = Call.begin(
        world, primitive="http_client", runtime="", tool=f"{tool}\npermissions: {{env: [GITHUB_TOKEN]}}"
    )
    granted.server = call.server
    assert ("Authorization", "Bearer s3cr3t") in request(granted).spec.headers


def test_a_primitive_of_another_package_gets_its_configuration_filled(world: World) -> None:
    call = Call.begin(world, runtime=config("args: ['{name}', '{params.other}']"), tool=DECLARES)
    values = call.parameters({"name": {"a": 1}, "other": "{name}"})
    built = build_other(call.valid(), values, call.environment(), call.paths())
    assert built.spec == {"command": "/bin/x", "args": [{"a": 1}, "{name}"]}


# --- a primitive by itself ---


def test_one_of_another_package_gets_what_it_is_given_filled(world: World) -> None:
    call = Call.begin(world)
    given = {"config": {"command": "{a}", "args": ["${HOME}"]}, "params": {"a": "${HOME}", "HOME": "x"}}
    valid = call.valid("base/subprocess")
    values = call.parameters(given, "base/subprocess")
    spec = build_other(valid, values, call.environment("base/subprocess"), call.paths()).spec
    assert (spec["command"], spec["args"]) == ("${HOME}", ["/nowhere/home"])


def test_a_primitive_by_itself_runs_what_it_is_given(world: World) -> None:
    call = Call.begin(world)
    given = {"config": {"command": "echo", "args": ["{message}"]}, "params": {"message": "{message} hello"}}
    spec = call.process(given, item_id="base/subprocess", timeout=7).spec
    assert (spec.command, spec.args, spec.timeout) == ("echo", ["{message} hello"], 7)
    assert spec.cwd == str(world.project)
    assert spec.env["RYE_PROJECT_PATH"] == str(world.project)


def test_what_every_program_is_told_is_not_for_the_caller_of_a_primitive_to_say(world: World) -> None:
    names = ("RYE_PROJECT_PATH", "RYE_TOOL_SOURCE", "RYE_RESULT_FD")
    call = Call.begin(world)
    given = {"config": {"command": "env", "env": {**dict.fromkeys(names, "forged"), "OWN": "x"}}}
    variables = call.process(given, item_id="base/subprocess").spec.env
    assert "forged" not in [variables[name] for name in names]
    assert variables["OWN"] == "x"


def test_what_it_cannot_carry_out_is_the_callers_fault(world: World) -> None:
    given = {"config": {"command": "echo '{x}'", "shell": True}, "params": {"x": 1}}
    error = refusal(Call.begin(world), given, item_id="base/subprocess")
    assert error.code == "invalid_parameters"
    assert "/config" in error.details["issues"][0]["path"]
