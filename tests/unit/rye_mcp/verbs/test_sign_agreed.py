"""What somebody has agreed to is signed as it was shown, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from rye_mcp.verbs.sign import BatchResult, SignRequest, SignResult, plan, sign
from tests.trust_world import World, refused
from tests.verb_world import RUNTIME, agent, put, tool

ANCHORED = (
    RUNTIME
    + b"""\
anchor: {enabled: true, mode: always, root: tool_dir}
verify_deps: {enabled: true, scope: anchor, recursive: true}
"""
)

HELPER = ".ai/tools/demo/helper.py"
DATA = ".ai/tools/demo/data.json"


@pytest.fixture
def project(world: World) -> World:
    """`demo/hello`, which rests on two files beside it; nothing is signed."""
    put(world, ANCHORED, "my/runtime", ".yaml", signed=True)
    put(world, tool("import helper", executor="my/runtime"))
    (world.project / HELPER).write_bytes(b"x = 1\n")
    (world.project / DATA).write_bytes(b"{}")
    return world


def agreed(world: World, item_id: str = "demo/hello") -> SignRequest:
    """As a confirmer asks: the question shows every file."""
    request = SignRequest(item_id, all_beside=True)
    return replace(request, agreed=plan(request, agent(world)).files)


def test_a_plan_names_every_file_that_will_be_vouched_for_and_writes_none(project: World) -> None:
    before = {path: path.read_bytes() for path in project.project.rglob("*") if path.is_file()}
    found = plan(SignRequest("demo/hello", all_beside=True), agent(project))
    assert sorted(found.files) == ["tools/demo/data.json", "tools/demo/hello.py", "tools/demo/helper.py"]
    assert found.item_ids == ("demo/hello",)
    assert {path: path.read_bytes() for path in project.project.rglob("*") if path.is_file()} == before


def test_what_was_agreed_to_is_signed(project: World) -> None:
    assert isinstance(sign(agreed(project), agent(project)), SignResult)


CHANGES: dict[str, Callable[[World], object]] = {
    "the tool": lambda world: put(world, tool("import os", executor="my/runtime")),
    "a file that would be signed along": lambda world: (world.project / HELPER).write_bytes(b"x = 2\n"),
    "a file that would be listed": lambda world: (world.project / DATA).write_bytes(b"[]"),
    "a new file": lambda world: (world.project / ".ai/tools/demo/new.json").write_bytes(b"{}"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_nothing_is_signed_when_something_changes_after_the_question(project: World, what: str) -> None:
    request = agreed(project)
    CHANGES[what](project)
    before = {path: path.read_bytes() for path in project.project.rglob("*") if path.is_file()}
    refused("confirmation_outdated", lambda: sign(request, agent(project)))
    assert {path: path.read_bytes() for path in project.project.rglob("*") if path.is_file()} == before


def test_of_a_pattern_what_changed_fails_alone(world: World) -> None:
    for name in ("demo/one", "demo/two"):
        put(world, tool(), name)
    request = agreed(world, "demo/*")
    put(world, tool("import os"), "demo/two")
    result = sign(request, agent(world))
    assert isinstance(result, BatchResult)
    assert [each.item.file.item_id for each in result.signed] == ["demo/one"]
    assert [each.error.code for each in result.failed] == ["confirmation_outdated"]


def test_items_that_rest_on_each_other_are_agreed_to_together(project: World) -> None:
    put(project, tool("import hello", executor="my/runtime"), "demo/other")
    result = sign(agreed(project, "demo/*"), agent(project))
    assert isinstance(result, BatchResult)
    assert [each.error.message for each in result.failed] == []


@pytest.mark.parametrize(("one", "other"), [("demo/one", "demo/two"), ("demo/*", "demo/one")])
def test_other_files_are_another_mark(world: World, one: str, other: str) -> None:
    for name in ("demo/one", "demo/two"):
        put(world, tool(), name)
    marks = {plan(SignRequest(item_id), agent(world)).mark for item_id in (one, other)}
    assert len(marks) == 2
