"""Every runtime, with the same tools in each language: what arrives, what comes back, and how it fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from lilux.primitives.subprocess import SubprocessPrimitive
from rye_mcp.executor.job.jobs import Watch
from rye_mcp.spaces import Spaces
from tests.runtime_languages import FUNCTIONS, LANGUAGES, Language
from tests.runtime_workshop import Workshop, needs
from tests.trust_world import World

HOSTILE = {
    "unicode": "Grüße 日本 🦀 \u200f e\u0301",
    "braces": "{text} {{params_json}} {params.text} ${HOME} ${X:-{tool_path}} %s $1",
    "shell": "'; touch canary; \" `touch canary` $(touch canary) \\ & | > canary < * ~ #",
    "lines": "one\ntwo\r\nthree\ttab\n\n",
    "option": "--params -e --help",
    "nothing": "before \0 after",
    "control": "bell \x07 escape \x1b[31m delete \x7f separator \u2028",
}
NESTED: dict[str, Any] = {
    "numbers": [0, -1, 2**53 - 1, 1.5, -2.5e-7, 1e100],
    "words": [True, False, None, "", "null"],
    "deep": [[[[[[{"a": {"b": {"c": []}}}]]]]]],
    'ä {b} "c"': {},
}
FIVE_MEGABYTES = "a long line é\n" * 360_000


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(World(tmp_path))


@pytest.fixture(params=LANGUAGES)
def language(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Language:
    found = LANGUAGES[request.param]
    needs(found.program, monkeypatch)
    return found


def tool(workshop: Workshop, language: Language, body: str) -> str:
    return workshop.sign(f"demo/tool{language.extension}", language.source(body))


async def test_hostile_texts_arrive_as_they_are(workshop: Workshop, language: Language) -> None:
    parameters = {"text": HOSTILE["shell"], **HOSTILE, **{value: name for name, value in HOSTILE.items()}}
    assert await workshop.data(tool(workshop, language, language.echo), parameters) == parameters
    assert not list(workshop.project.rglob("canary"))


@pytest.mark.first_case
async def test_everything_that_json_can_hold_arrives_as_it_is(workshop: Workshop, language: Language) -> None:
    assert await workshop.data(tool(workshop, language, language.echo), NESTED) == NESTED


@pytest.mark.first_case
async def test_no_parameters_are_an_empty_object(workshop: Workshop, language: Language) -> None:
    assert await workshop.data(tool(workshop, language, language.echo)) == {}


@pytest.mark.first_case
async def test_parameters_have_any_size_but_on_the_command_line(
    workshop: Workshop, language: Language
) -> None:
    result = await workshop.run(tool(workshop, language, language.measure), {"text": FIVE_MEGABYTES})
    if language.on_argv:
        assert (result.success, result.code) == (False, "invalid_parameters")
        assert "standard input" in f"{result.error} {result.hint}"
    else:
        assert result.success, result.stderr
        assert result.data in (len(FIVE_MEGABYTES), len(FIVE_MEGABYTES) + FIVE_MEGABYTES.count("\n"))


@pytest.mark.first_case
async def test_what_a_tool_prints_does_not_spoil_its_result(workshop: Workshop, language: Language) -> None:
    result = await workshop.run(tool(workshop, language, language.noisy), {"text": "x"})
    assert (result.success, result.data) == (True, {"text": "x"})
    assert "noise {" in (result.stdout or "")


@pytest.mark.first_case
async def test_an_exit_code_is_a_failure(workshop: Workshop, language: Language) -> None:
    result = await workshop.run(tool(workshop, language, language.fail))
    assert (result.success, result.code) == (False, "tool_failed")
    assert result.exit is not None
    assert result.exit.return_code == 3


@pytest.mark.first_case
async def test_an_exception_names_the_line_of_the_signed_file(workshop: Workshop, language: Language) -> None:
    item_id = tool(workshop, language, language.crash)
    result = await workshop.run(item_id, {"text": "no such thé"})
    assert (result.success, result.code) == (False, "tool_failed")
    assert result.exit is not None
    assert result.exit.return_code == 1
    source = workshop.project / f".ai/tools/{item_id}{language.extension}"
    stderr = result.stderr or ""
    assert "no such thé" in stderr
    assert str(source) in stderr
    assert str(language.crash_line) in stderr.partition(str(source))[2].partition("\n")[0]


@pytest.mark.first_case
@pytest.mark.parametrize("name", FUNCTIONS)
async def test_a_traceback_begins_in_the_tool(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    needs(LANGUAGES[name].program, monkeypatch)
    item_id = tool(workshop, LANGUAGES[name], LANGUAGES[name].crash)
    result = await workshop.run(item_id, {"text": "x"})
    assert "/lib/" not in (result.stderr or ""), result.stderr


BY_HAND = {
    "python_function": ("python3", "lib/python/call_function.py", "execute"),
    "node": ("node", "lib/node/run_node.cjs"),
    "node_module": ("node", "lib/node/run_node.cjs"),
    "ruby": ("ruby", "-EUTF-8", "lib/ruby/run_ruby.rb"),
    "perl": ("perl", "lib/perl/run_perl.pl"),
}


@pytest.mark.first_case
@pytest.mark.parametrize("name", BY_HAND)
async def test_a_function_can_be_called_by_hand_too(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """As the first lines of each file say; the result comes after what the tool prints."""
    program, *arguments = BY_HAND[name]
    needs(program, monkeypatch)
    place = Spaces.locate().system.root / "tools/rye/core/runtimes"
    command = [str(place / word) if word.startswith("lib/") else word for word in arguments]
    path = workshop.write(
        f"demo/tool{LANGUAGES[name].extension}", LANGUAGES[name].source(LANGUAGES[name].noisy)
    )
    given = '{"text": "é"}'.encode()
    done = await anyio.run_process([program, *command, str(path), ""], input=given)
    lines = done.stdout.decode().splitlines()
    assert (lines[0], json.loads(lines[1])) == ("noise {", {"text": "é"})


@pytest.mark.first_case
async def test_a_tool_ends_with_its_call(workshop: Workshop, language: Language) -> None:
    item_id = tool(workshop, language, language.wait)
    printed = bytearray()
    with anyio.CancelScope() as call:

        def on_output(_stream: str, data: bytes, _skipped: int) -> None:
            printed.extend(data)
            call.cancel()

        await workshop.run(item_id, watch=Watch(on_output))
    assert call.cancelled_caught
    assert not (await SubprocessPrimitive().status(int(printed))).alive


@pytest.mark.first_case
@pytest.mark.parametrize("name", ["python_function", "uv_script"])
async def test_a_tool_that_takes_too_long_is_ended(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    needs(LANGUAGES[name].program, monkeypatch)
    result = await workshop.run(tool(workshop, LANGUAGES[name], LANGUAGES[name].wait), timeout=2)
    assert (result.success, result.code) == (False, "timeout")
    assert result.exit is not None
    assert result.exit.kind == "timeout"


@pytest.mark.first_case
async def test_an_unsigned_neighbour_is_never_read(workshop: Workshop, language: Language) -> None:
    item_id = tool(workshop, language, language.echo)
    name, text = language.neighbour
    for path in (workshop.write(f"demo/{name}", text), workshop.project / name):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)
    result = await workshop.run(item_id, {"text": "x"})
    assert (result.success, result.data) == (True, {"text": "x"}), result.stderr


@pytest.mark.thorough
async def test_what_runs_is_sealed_and_in_the_project(workshop: Workshop, language: Language) -> None:
    result = await workshop.run(tool(workshop, language, language.echo))
    assert result.sealed is True


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("name", "program"),
    [
        ("python_script", "python3"),
        ("python_function", "python3"),
        ("python", "python3"),
        ("uv_script", "uv"),
        ("bash", "bash"),
        ("node", "node"),
        ("ruby", "ruby"),
        ("perl", "perl"),
        ("binary", "bash"),
    ],
)
async def test_an_interpreter_that_is_not_there_is_named(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, program: str
) -> None:
    item_id = tool(workshop, LANGUAGES[name], LANGUAGES[name].echo)
    bin_directory = tmp_path / "bin"
    bin_directory.mkdir()
    for needed in ("sed", "cat"):
        (bin_directory / needed).symlink_to(needs(needed, monkeypatch))
    monkeypatch.setenv("PATH", str(bin_directory))
    result = await workshop.run(item_id)
    assert result.success is False
    assert program in f"{result.error} {result.stderr}"
