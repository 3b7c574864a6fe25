"""What a person is shown before something runs or is signed: all that counts, and no secret."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rye_mcp.executor.agreement import Preview
from rye_mcp.executor.parameters import Parameters
from rye_mcp.mcp_surface.questions import Question, about_run, about_signing
from rye_mcp.verbs.execute import ExecuteRequest
from rye_mcp.verbs.sign import SigningPlan, SignRequest

SIGNER = {"kind": "person", "owner": "ada\nsha256: 0", "fingerprint": "f" * 16}
PROJECT = Path("/home/ada/the site")
SECRET = "hunter2-hunter2"


def found(values: dict[str, Any], secret: frozenset[str] = frozenset()) -> Preview:
    parameters = Parameters(values, json.dumps(values), secret=secret)
    return Preview("a" * 64, "demo/run", "d" * 64, SIGNER, {"tools/demo/lib.py": "b" * 64}, parameters)


def question(values: dict[str, Any], secret: frozenset[str] = frozenset(), **more: Any) -> Question:
    return about_run(ExecuteRequest("demo/run"), found(values, secret), PROJECT, **more)


def test_a_question_about_a_run_says_what_who_which_bytes_where_and_with_what() -> None:
    assert question({"name": "Ada", "n": [1, {"x": None}]}).text.splitlines() == [
        "Run demo/run?",
        r"signed by: ada\nsha256: 0 (person) ffffffffffffffff",
        f"sha256: {'d' * 64}",
        "project: /home/ada/the site",
        "brings: tools/demo/lib.py",
        "parameters:",
        '  name = "Ada"',
        '  n = [1, {"x": null}]',
    ]


SECRETS: list[tuple[dict[str, Any], frozenset[str]]] = [
    ({"code": SECRET}, frozenset({"code"})),
    ({"apiKey": SECRET}, frozenset()),
    ({"password": {"deep": [SECRET]}}, frozenset()),
    ({"headers": {"x": 1, "Authorization": SECRET}}, frozenset()),
    ({"list": [{"token": SECRET}]}, frozenset()),
    ({"url": f"https://ada:{SECRET}@example.org/"}, frozenset()),
]


@pytest.mark.parametrize(("values", "secret"), SECRETS)
def test_no_secret_is_shown_and_every_one_is_bound(values: dict[str, Any], secret: frozenset[str]) -> None:
    asked = question(values, secret)
    assert SECRET not in asked.text + asked.command
    assert "(hidden)" in asked.text
    other = json.loads(json.dumps(values).replace(SECRET, "another"))
    assert question(other, secret).mark != asked.mark


def test_a_long_value_is_shortened_in_the_middle_and_bound_whole() -> None:
    value = "a" * 400 + "b" * 5000 + "c" * 400
    asked = question({"text": value})
    assert "characters are not shown" in asked.text
    assert len(asked.text) < 1500
    assert asked.text.endswith('c"')
    assert question({"text": value.replace("b", "x", 1)}).mark != asked.mark


def test_many_parameters_are_counted() -> None:
    asked = question({f"p{number}": number for number in range(25)})
    assert asked.text.endswith("  … = and 5 more, which are not shown")


def test_everything_that_is_otherwise_is_another_question() -> None:
    values = {"name": "Ada"}
    preview = found(values)
    request = ExecuteRequest("demo/run")
    marks = [
        about_run(request, preview, PROJECT).mark,
        about_run(request, preview, PROJECT, in_background=True).mark,
        about_run(request, preview, PROJECT.parent).mark,
        about_run(request, preview, None).mark,
        about_run(replace(request, timeout=5.0), preview, PROJECT).mark,
        about_run(request, replace(preview, mark="c" * 64), PROJECT).mark,
        about_run(request, replace(preview, item_id="demo/other"), PROJECT).mark,
        about_run(request, found({"name": "Bob"}), PROJECT).mark,
        about_run(request, found({}), PROJECT).mark,
    ]
    assert len(set(marks)) == len(marks)


def test_the_order_of_parameters_is_no_other_question() -> None:
    assert question({"a": 1, "b": 2}).mark == question({"b": 2, "a": 1}).mark


@pytest.mark.parametrize(
    ("values", "command"),
    [
        ({}, ["rye", "run", "--project", str(PROJECT), "demo/run"]),
        (
            {"name": "it's; rm -rf"},
            ["rye", "run", "--project", str(PROJECT), "--params", '{"name":"it\'s; rm -rf"}', "demo/run"],
        ),
        ({"token": SECRET}, ["rye", "run", "--project", str(PROJECT), "--params", "-", "demo/run"]),
        ({"text": "x" * 1000}, ["rye", "run", "--project", str(PROJECT), "--params", "-", "demo/run"]),
    ],
)
def test_the_command_does_the_same_in_a_terminal(values: dict[str, Any], command: list[str]) -> None:
    assert shlex.split(question(values).command) == command


def test_a_question_about_signing_names_every_file_and_what_fails() -> None:
    plan = SigningPlan(
        ("demo/a", "demo/b"),
        {"tools/demo/a.py": "1" * 64, "tools/demo/b\n.py": "2" * 64},
        "e" * 16,
        PROJECT / ".ai",
        ("demo/c",),
    )
    asked = about_signing(SignRequest("demo/*"), plan, PROJECT)
    assert asked.text.splitlines() == [
        "Sign 2 items, demo/*, so that it can run?",
        f"signed by: the agent's key {'e' * 16}",
        "in: /home/ada/the site/.ai",
        "not signed: demo/c",
        "files, as they are now:",
        f"  tools/demo/a.py  sha256 {'1' * 64}",
        rf"  tools/demo/b\n.py  sha256 {'2' * 64}",
    ]
    assert shlex.split(asked.command) == ["rye", "sign", "demo/*", "--project", str(PROJECT)]
    other = replace(plan, files={**plan.files, "tools/demo/a.py": "3" * 64})
    assert about_signing(SignRequest("demo/*"), other, PROJECT).mark != asked.mark
