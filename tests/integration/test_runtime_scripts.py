"""What the runtimes for Bash, Ruby, Perl and files that start by themselves promise beyond what all do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.runtime_workshop import Workshop, needs
from tests.trust_world import World

PROGRAMS = {".sh": "bash", "": "bash", ".rb": "ruby", ".pl": "perl"}
RUNTIMES = {".sh": "bash_runtime", "": "binary_runtime", ".rb": "ruby_runtime", ".pl": "perl_runtime"}
SCHEMA = (
    "{type: object, properties: {text: {type: string}, count: {type: integer}, share: {type: number}, "
    "flag: {type: boolean}, list: {type: array}, secret: {type: string, writeOnly: true}}}"
)


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(World(tmp_path))


def source(extension: str, body: str) -> str:
    shebang = "" if extension else "#!/usr/bin/env bash\n"
    executor = f"# executor_id: {RUNTIMES[extension]}\n# config_schema: {SCHEMA}\n"
    return f"{shebang}# /// rye\n# version: 1.0.0\n{executor}# ///\n{body}"


async def call(workshop: Workshop, extension: str, body: str, parameters: dict[str, Any]) -> Any:
    return await workshop.data(workshop.sign(f"demo/tool{extension}", source(extension, body)), parameters)


# --- variables ---


@pytest.mark.parametrize("extension", [".sh", ""])
async def test_plain_parameters_are_in_variables_too(workshop: Workshop, extension: str) -> None:
    body = (
        'printf "%s|" "$RYE_PARAM_text" "$RYE_PARAM_count" "$RYE_PARAM_share" "$RYE_PARAM_flag"\n'
        'printf "%s" "${RYE_PARAM_list-none} ${RYE_PARAM_secret-none} ${RYE_PARAM_other-none}"\n'
    )
    text = "$(touch canary) `touch canary` {count} ${HOME} 'é'\n"
    parameters = {
        "text": text,
        "count": 3,
        "share": 0.5,
        "flag": True,
        "list": [1],
        "secret": "s",
        "other": 1,
    }
    assert await call(workshop, extension, body, parameters) == f"{text}|3|0.5|true|none none none"
    assert not list(workshop.project.rglob("canary"))


async def test_a_secret_comes_on_standard_input(workshop: Workshop) -> None:
    assert await call(workshop, ".sh", "cat\n", {"secret": "s3"}) == {"secret": "s3"}


async def test_bash_is_started_without_what_the_environment_brings(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "start.sh").write_text("echo started; cat() { echo function; }\n", encoding="utf-8")
    monkeypatch.setenv("BASH_ENV", str(tmp_path / "start.sh"))
    monkeypatch.setenv("BASH_FUNC_cat%%", "() { echo function; }")
    assert await call(workshop, ".sh", "shopt -qo privileged && cat\n", {"text": "x"}) == {"text": "x"}


# --- several files ---

SEVERAL = {
    ".sh": ("part.sh", "double() { echo $(($1 * 2)); }\n", '. "${0%/*}/part.sh"\ndouble 21\n'),
    ".rb": (
        "part.rb",
        "def double(x) = 2 * x\n",
        "require_relative 'part'\ndef execute(params) = double(21)\n",
    ),
    ".pl": (
        "part.pm",
        "package part; sub double { 2 * shift } 1;\n",
        "use FindBin; use lib $FindBin::Bin; require part; sub execute { part::double(21) }\n",
    ),
}


@pytest.mark.parametrize("extension", SEVERAL)
async def test_a_tool_of_several_files_finds_what_was_listed(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, extension: str
) -> None:
    needs(PROGRAMS[extension], monkeypatch)
    name, part, body = SEVERAL[extension]
    workshop.write(f"demo/{name}", part)
    workshop.sign_listing("demo", name)
    assert await call(workshop, extension, body, {}) == 42


@pytest.mark.parametrize("extension", SEVERAL)
async def test_what_was_not_listed_is_not_there(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, extension: str
) -> None:
    needs(PROGRAMS[extension], monkeypatch)
    name, part, body = SEVERAL[extension]
    workshop.write(f"demo/{name}", part)
    result = await workshop.run(workshop.sign(f"demo/tool{extension}", source(extension, body)))
    assert (result.success, result.data) != (True, 42)
    assert "part" in (result.stderr or "")


# --- functions and scripts ---

SCRIPTS = {
    ".rb": "require 'json'\nputs JSON.parse($stdin.read)['count']\n",
    ".pl": "use JSON::PP; my $p = decode_json(do { local $/; <STDIN> }); print $p->{count};\n0;\n",
}


@pytest.mark.parametrize("extension", SCRIPTS)
async def test_a_file_without_the_function_is_a_script(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, extension: str
) -> None:
    needs(PROGRAMS[extension], monkeypatch)
    assert await call(workshop, extension, SCRIPTS[extension], {"count": 42}) == 42


RETURNS: dict[str, tuple[str, Any]] = {
    ".rb nil": ("def execute(params) = nil\n", None),
    ".rb text": ("def execute(params) = 'é'\n", "é"),
    ".rb symbols": ("def execute(params) = { a: :b, 1 => [2.5, true] }\n", {"a": "b", "1": [2.5, True]}),
    ".rb deep": (
        "def execute(params) = (1..150).reduce(1) { |inner, _| [inner] }\n",
        json.loads(f"{'[' * 150}1{']' * 150}"),
    ),
    ".pl undef": ("sub execute { return undef }\n", None),
    ".pl text": ("use utf8;\nsub execute { return 'é' }\n", "é"),
    ".pl true": ("sub execute { return { a => JSON::PP::true(), b => [1.5] } }\n", {"a": True, "b": [1.5]}),
    ".pl scalar": ("sub execute { return (1, 2, 3) }\n", 3),
}


@pytest.mark.parametrize("name", RETURNS)
async def test_what_a_function_returns_is_the_result(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    extension = name.partition(" ")[0]
    needs(PROGRAMS[extension], monkeypatch)
    body, data = RETURNS[name]
    assert await call(workshop, extension, body, {}) == data


FAILURES = {
    ".rb NaN": ("def execute(params) = Float::NAN\n", "NaN"),
    ".rb syntax": ("def execute(params\n", "tool.rb"),
    ".rb load": ("require 'no_such_library'\n", "no_such_library"),
    ".rb abort": ("def execute(params) = abort('not today')\n", "not today"),
    ".pl code": ("sub execute { return sub { 1 } }\n", "CODE"),
    ".pl syntax": ("sub execute {\n", "tool.pl"),
    ".pl load": ("use No::Such::Library;\n", "No/Such/Library"),
    ".pl strict": ("use strict; $x = 1;\n", "tool.pl"),
    ".pl last": ("die { code => 4 };\n", "HASH"),
}


@pytest.mark.parametrize("name", FAILURES)
async def test_what_goes_wrong_is_a_failure_that_says_so(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    extension = name.partition(" ")[0]
    needs(PROGRAMS[extension], monkeypatch)
    body, said = FAILURES[name]
    result = await workshop.run(workshop.sign(f"demo/tool{extension}", source(extension, body)))
    assert (result.success, result.code) == (False, "tool_failed")
    assert result.exit is not None
    assert result.exit.return_code == 1
    assert said in (result.stderr or "")


# --- files that start by themselves ---


async def test_a_file_whose_first_line_names_nothing_that_is_there_is_an_error(workshop: Workshop) -> None:
    text = source("", "cat\n").replace("/usr/bin/env bash", "/no/such/interpreter")
    result = await workshop.run(workshop.sign("demo/tool", text))
    assert (result.success, result.code) == (False, "spawn_failed")
    assert str(workshop.project) in (result.error or "")


async def test_a_file_without_a_first_line_is_not_handed_to_a_shell(workshop: Workshop) -> None:
    text = source(".sh", "touch canary\n").replace("bash_runtime", "binary_runtime")
    result = await workshop.run(workshop.sign("demo/tool.sh", text))
    assert (result.success, result.code) == (False, "spawn_failed")
    assert not list(workshop.project.rglob("canary"))
