"""A configuration becomes exactly what is to run, or is refused by the name of its field."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import pytest

from lilux._process import RESOLVED_ENVIRONMENT_SIZE, inherited_environment, milliseconds, request_of
from lilux.primitives.errors import ConfigurationError
from lilux.primitives.subprocess import CONFIG_KEYS, CallSpec, Halves, ProcessSpec, RuntimeSpec, Spool, render

# As docs/protocol.md has them.
MAX_OUTPUT_BYTES = 64 << 20
TIMEOUT_LIMIT_MS = 365 * 24 * 60 * 60 * 1000

COMPLETE = {f"VARIABLE_{number}": str(number) for number in range(RESOLVED_ENVIRONMENT_SIZE)}


def test_every_templated_key_is_filled_with_the_environment_and_the_parameters() -> None:
    config = {
        "command": "${TOOL:-{tool}}",
        "args": ["{message}", "${WHO}", "{trap}"],
        "cwd": "/srv/{tool}",
        "input_data": "{message} from ${WHO}",
        "env": {"WHO": "{message}"},
    }
    spec = render(config, {"tool": "echo", "message": "hi", "trap": "${WHO} {message}"})
    assert spec.command == "echo"
    assert spec.args == ["hi", "{message}", "${WHO} {message}"]
    assert (spec.cwd, spec.input) == ("/srv/echo", b"hi from {message}")
    assert spec.env["WHO"] == "{message}", "the environment itself is no template"


@pytest.mark.parametrize(
    "given", [{}, None, {"env": {}}, {"env": None, "timeout": None, "args": None, "cwd": None}]
)
def test_what_is_not_given_has_its_default(given: dict[str, Any] | None) -> None:
    spec = render({"command": "x", **(given or {})})
    assert (spec.args, spec.cwd, spec.input, spec.timeout, spec.max_output) == ([], None, None, 300, None)
    assert spec.env == inherited_environment()


def test_a_configuration_without_a_command_has_the_empty_one() -> None:
    assert [render(config).command for config in ({}, {"command": None}, {"command": "${UNSET_HERE}"})] == [
        "",
        "",
        "",
    ]


def test_input_that_is_bytes_is_no_template() -> None:
    assert render({"command": "x", "input_data": b"{name} \xff"}, {"name": "n"}).input == b"{name} \xff"


# --- the environment ------------------------------------------------------------


def test_few_variables_add_to_the_environment_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INHERITED_HERE", "outer")
    monkeypatch.setenv("OVERRIDDEN_HERE", "outer")
    spec = render({"command": "${INHERITED_HERE}", "env": {"OVERRIDDEN_HERE": "inner"}})
    assert (spec.command, spec.env["INHERITED_HERE"], spec.env["OVERRIDDEN_HERE"]) == (
        "outer",
        "outer",
        "inner",
    )
    assert spec.search_path is None, "the PATH of the tool itself is searched"


def test_fifty_variables_are_the_whole_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INHERITED_HERE", "outer")
    monkeypatch.setenv("PATH", "/somewhere/bin")
    spec = render({"command": "[${INHERITED_HERE}]", "env": COMPLETE})
    assert (spec.command, spec.env) == ("[]", COMPLETE)
    assert spec.search_path == "/somewhere/bin", "the command is still looked up where this process would"


def test_a_complete_environment_with_a_path_is_searched_itself() -> None:
    assert render({"command": "x", "env": {**COMPLETE, "PATH": "/bin"}}).search_path is None


def test_the_inherited_environment_is_that_of_the_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHANGING_HERE", "1")
    first = inherited_environment()
    first["ADDED_BY_THE_CALLER"] = "x"
    assert "ADDED_BY_THE_CALLER" not in inherited_environment()
    monkeypatch.setenv("CHANGING_HERE", "2")
    assert (first["CHANGING_HERE"], inherited_environment()["CHANGING_HERE"]) == ("1", "2")
    monkeypatch.delenv("CHANGING_HERE")
    assert inherited_environment() == dict(os.environ)


def test_a_variable_whose_name_is_no_text_is_not_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environb, b"N\xff", b"x")
    monkeypatch.setitem(os.environb, "NÉ".encode(), b"\xff")
    env = render({"command": "x"}).env
    assert "N\udcff" not in env
    assert env["NÉ"] == "\udcff"


# --- shell ----------------------------------------------------------------------


def test_only_the_command_is_a_shell_command() -> None:
    config = {
        "command": "ls {x} $1",
        "args": ["{x}", "a b"],
        "cwd": "/{x}",
        "input_data": "{x}",
        "shell": True,
    }
    spec = render(config, {"x": "it's"})
    assert (spec.command, spec.args) == ("/bin/sh", ["-c", "ls 'it'\"'\"'s' $1", "sh", "it's", "a b"])
    assert (spec.cwd, spec.input) == ("/it's", b"it's")


def test_an_empty_shell_command_is_no_command() -> None:
    assert render({"command": " ", "shell": True}).command.strip() == ""


# --- refusals -------------------------------------------------------------------

TOO_LONG_S = TIMEOUT_LIMIT_MS / 1000 + 1

MALFORMED: list[tuple[dict[str, Any], str, str]] = [
    ({"command": 7}, "command", "text as command, found 7"),
    ({"command": ["ls"]}, "command", "text as command, found list"),
    ({"command": b"ls"}, "command", "text as command, found bytes"),
    ({"args": "ls"}, "args", "a list of texts as args, found str"),
    ({"args": {"a": 1}}, "args", "a list of texts as args, found dict"),
    ({"args": ["a", 3]}, "args[1]", r"text as args\[1\], found 3"),
    ({"args": [None]}, "args[0]", r"text as args\[0\], found NoneType"),
    ({"cwd": 1}, "cwd", "text as cwd, found 1"),
    ({"cwd": ""}, "cwd", "a path as cwd, found an empty text"),
    ({"cwd": "${UNSET_HERE}"}, "cwd", "a path as cwd, found an empty text"),
    ({"input_data": 5}, "input_data", "text as input_data, found 5"),
    ({"input_data": "\ud800"}, "input_data", "text that UTF-8 can hold as input_data"),
    ({"env": ["A=1"]}, "env", "an object as env, found list"),
    ({"env": "A=1"}, "env", "an object as env, found str"),
    ({"env": {1: "x"}}, "env", "names that are text as env, found 1"),
    ({"env": {"PORT": 80}}, "env.PORT", "text as env.PORT, found 80"),
    ({"env": {"A": None}}, "env.A", "text as env.A, found NoneType"),
    ({"shell": "yes"}, "shell", "true or false as shell, found str"),
    ({"shell": 1}, "shell", "true or false as shell, found 1"),
    ({"timeout": 0}, "timeout", "more than 0"),
    ({"timeout": -1}, "timeout", "found -1"),
    ({"timeout": math.nan}, "timeout", "found nan"),
    ({"timeout": math.inf}, "timeout", "found inf"),
    ({"timeout": -math.inf}, "timeout", "found -inf"),
    ({"timeout": TOO_LONG_S}, "timeout", "at most 31536000"),
    ({"timeout": 10**5000}, "timeout", "at most 31536000 as timeout, found int"),
    ({"timeout": True}, "timeout", "found True"),
    ({"timeout": "300"}, "timeout", "found str"),
    ({"max_output": 1023}, "max_output", "a whole number of bytes from 1024"),
    ({"max_output": MAX_OUTPUT_BYTES + 1}, "max_output", "to 67108864"),
    ({"max_output": 2048.0}, "max_output", "found 2048.0"),
    ({"max_output": True}, "max_output", "found True"),
    ({"timout": 5}, "timout", "found timout"),
    ({"url": "http://x", "method": "GET"}, "url", "found url, method"),
]


@pytest.mark.parametrize(("config", "field", "words"), MALFORMED)
def test_a_malformed_configuration_is_refused_by_field(
    config: dict[str, Any], field: str, words: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"^expected .*{words}") as caught:
        request_of(render({"command": "true", **config}))
    assert caught.value.field == field


@pytest.mark.parametrize("config", [None, [], "ls", 7])
def test_a_configuration_that_is_no_object_is_refused(config: Any) -> None:
    with pytest.raises(ConfigurationError, match="expected an object as config"):
        render(config)


def test_parameters_that_are_no_object_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="expected an object as params") as caught:
        render({"command": "x"}, ["a"])  # type: ignore[arg-type]
    assert caught.value.field == "params"


def test_no_refusal_shows_the_value_of_a_variable() -> None:
    with pytest.raises(ConfigurationError) as caught:
        render({"command": "x", "env": {"TOKEN": b"s3cret"}})
    assert "s3cret" not in str(caught.value)


MALFORMED_SPECS: list[tuple[dict[str, Any], str]] = [
    ({"command": None}, "command"),
    ({"args": "a"}, "args"),
    ({"args": [b"a"]}, "args[0]"),
    ({"cwd": b"/"}, "cwd"),
    ({"env": []}, "env"),
    ({"env": {"A": 1}}, "env.A"),
    ({"search_path": ["/bin"]}, "search_path"),
    ({"timeout": 0.0}, "timeout"),
    ({"max_output": 0}, "max_output"),
    ({"result_fd": 3}, "result_fd"),
    ({"digests": 1}, "digests"),
]


@pytest.mark.parametrize(("fields", "field"), MALFORMED_SPECS)
def test_a_malformed_specification_is_refused_too(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        request_of(ProcessSpec(**{"command": "true", **fields}))
    assert caught.value.field == field


# --- the request ----------------------------------------------------------------


def test_a_specification_is_asked_for_as_it_stands(tmp_path: Path) -> None:
    spec = ProcessSpec(command="x", args=("a",), cwd=tmp_path, env={"A": "1"}, timeout=1.5, max_output=2048)
    request = request_of(spec)
    assert (request.command, list(request.args), request.cwd) == ("x", ["a"], str(tmp_path))
    assert (request.env, request.timeout_ms, request.max_output) == ({"A": "1"}, 1500, 2048)
    assert (request.search_path, request.spool) == (None, None)
    assert (request.result_fd, request.digests) == (False, False)


def test_directories_are_those_of_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert request_of(ProcessSpec(command="x")).cwd == str(tmp_path)
    assert request_of(ProcessSpec(command="x", cwd="sub")).cwd == str(tmp_path / "sub")


def test_a_process_whose_directory_was_removed_has_to_say_where_a_program_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert request_of(ProcessSpec(command="x", cwd="/sub")).cwd == "/sub"
    with pytest.raises(ConfigurationError, match="that of this process was removed") as caught:
        request_of(ProcessSpec(command="x"))  # which must not run in /
    assert caught.value.field == "cwd"
    with pytest.raises(ConfigurationError, match="relative one in a directory that was removed") as caught:
        request_of(ProcessSpec(command="x", cwd="sub"))  # which must not become /sub
    assert caught.value.field == "cwd"


def test_a_spool_is_where_this_process_means_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for given, expected in (("sub", f"{tmp_path}/sub"), ("/a\udcff", "/a\udcff"), ("/a", "/a")):
        spool = request_of(ProcessSpec(command="x", spool=Spool(dir=given, max_bytes=0))).spool
        assert spool == Spool(dir=expected, max_bytes=0)


@pytest.mark.parametrize("limit", [-1, 1.5, True])
def test_a_spool_of_no_size_is_refused(limit: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"0 or more as spool\.max_bytes"):
        request_of(ProcessSpec(command="x", spool=Spool(dir="/a", max_bytes=limit)))


def test_showing_a_spec_or_a_request_shows_no_secret() -> None:
    spec = ProcessSpec(command="x", env={"TOKEN": "s3cret"}, input=b"s3cret")
    assert "s3cret" not in f"{spec!r} {request_of(spec)!r}"


def test_an_inherited_variable_without_a_name_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ._data, b"", b"x")  # type: ignore[attr-defined]
    assert "" not in inherited_environment()


def test_no_timeout_is_asked_for_as_none() -> None:
    assert request_of(ProcessSpec(command="x", timeout=None)).timeout_ms is None


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(1, 1000), (0.0001, 1), (1e-320, 1), (1.0005, 1001), (31_536_000, TIMEOUT_LIMIT_MS)],
)
def test_seconds_are_rounded_up_to_milliseconds(seconds: float, expected: int) -> None:
    assert milliseconds("timeout", seconds) == expected


def test_the_keys_of_a_configuration_are_those_that_are_documented() -> None:
    assert {"command", "args", "cwd", "input_data", "env", "timeout", "shell", "max_output"} == CONFIG_KEYS


def test_an_exact_environment_stays_exact_however_small_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LILUX_TEST_INHERITED", "here")
    config = {"command": "${A}${B}${LILUX_TEST_INHERITED}", "env": {"B": "own"}}
    spec = render(config, env={"A": "given", "B": "given"})
    assert spec.env == {"A": "given", "B": "own"}
    assert spec.command == "givenown"
    with pytest.raises(ConfigurationError, match=r"text as env\.A"):
        render({"command": "x"}, env={"A": 1})  # type: ignore[dict-item]


def test_two_halves_are_one_process_and_the_call_has_the_last_word() -> None:
    runtime = RuntimeSpec(command="x", args=["-B"], env={"A": "runtime", "B": "runtime"}, search_path="/bin")
    call = CallSpec(args=["tool"], cwd="/srv", env={"B": "call"}, input=b"in", timeout=3)
    whole = ProcessSpec(
        command="x",
        args=["-B", "tool"],
        cwd="/srv",
        env={"A": "runtime", "B": "call"},
        search_path="/bin",
        input=b"in",
        timeout=3,
    )
    assert Halves(runtime, call).whole() == whole
    assert Halves(runtime, call).whole(timeout=1).timeout == 1
