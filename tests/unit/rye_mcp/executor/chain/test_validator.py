"""Neighbours in a chain: their spaces, what goes in and out, and their versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from rye_mcp.errors import RyeError
from rye_mcp.executor.chain.builder import Chain
from rye_mcp.executor.chain.validator import ChainValidator, require_valid
from rye_mcp.items import SpaceName
from tests.call_world import Call
from tests.trust_world import World


def element(item_id: str = "demo/hello", space: str = "project", **said: Any) -> dict[str, Any]:
    return {"item_id": item_id, "space": space, **said}


def issues(*chain: Mapping[str, Any]) -> tuple[str, ...]:
    return ChainValidator().validate_chain(chain).issues


@pytest.mark.parametrize(("child", "parent"), [*product(SpaceName, SpaceName)])
def test_a_child_rests_only_on_its_own_space_and_those_below(child: SpaceName, parent: SpaceName) -> None:
    found = ChainValidator().validate_chain([element("a", child), element("b", parent)])
    assert found.valid == (parent.precedence <= child.precedence)
    assert found.validated_pairs == (("a", "b"),)


def test_an_empty_chain_and_a_chain_of_one_are_valid() -> None:
    assert ChainValidator().validate_chain([]).valid
    assert ChainValidator().validate_chain([]).validated_pairs == ()
    assert ChainValidator().validate_chain([element()]).valid


@pytest.mark.parametrize(
    ("outputs", "inputs", "missing"),
    [
        (["a", "b"], ["a"], None),
        (["a"], ["a", "b"], "b"),
        ([], ["a"], "a"),
        (None, ["a"], None),
        (["a"], None, None),
        ({"properties": {"a": {}, "b": {}}}, {"required": ["b"], "properties": {"c": {}}}, None),
        ({"properties": {"a": {}}}, {"required": ["b"]}, "b"),
        ({"type": "object"}, {"type": "object"}, None),
    ],
)
def test_what_the_parent_requires_is_among_what_the_child_puts_out(
    outputs: Any, inputs: Any, missing: str | None
) -> None:
    found = issues(element("child", outputs=outputs), element("parent", inputs=inputs))
    assert found == (() if missing is None else (f"parent requires {missing}, which child does not put out",))


@pytest.mark.parametrize(
    ("version", "constraints", "is_fine"),
    [
        ("1.0.0", {"min_version": "1.0.0"}, True),
        ("1.0.0", {"max_version": "1.0.0"}, True),
        ("1.10.0", {"min_version": "1.9.0"}, True),
        ("1.9.0", {"min_version": "1.10.0"}, False),
        ("2.0.0", {"min_version": "1.0", "max_version": "1.99"}, False),
        ("2.0.0rc1", {"min_version": "2.0.0"}, False),
        (None, {"min_version": "0.0.1"}, False),
        ("1.0.0", {}, True),
        ("not a version", {"min_version": "1.0.0"}, False),
        ("1.0.0", {"max_version": "soon"}, False),
        ("1.0.0", {"max_version": 2}, False),
    ],
)
def test_versions_are_compared_as_versions(
    version: str | None, constraints: dict[str, Any], is_fine: bool
) -> None:
    found = issues(element("child", version=version), element("parent", child_constraints=constraints))
    assert (found == ()) == is_fine


def test_everything_that_is_wrong_is_reported() -> None:
    found = issues(
        element("a", "system", outputs=["x"], version="1.0.0"),
        element(
            "b", "project", inputs=["y"], child_constraints={"min_version": "2.0.0"}, tool_type="primitive"
        ),
        element("c", "user"),
    )
    assert len(found) == 4


def test_a_primitive_stands_at_the_end_alone() -> None:
    assert issues(element("a"), element("b", tool_type="primitive")) == ()
    assert len(issues(element("a", tool_type="primitive"), element("b", tool_type="primitive"))) == 1


def test_a_runtime_whose_anchor_nobody_verifies_is_a_warning() -> None:
    anchored = element("r", anchor={"enabled": True})
    found = ChainValidator().validate_chain([element(), anchored])
    assert found.valid
    assert len(found.warnings) == 1
    verified = {**anchored, "verify_deps": {"enabled": True}}
    assert ChainValidator().validate_chain([element(), verified]).warnings == ()
    switched_off = element("r", anchor={"enabled": False})
    assert ChainValidator().validate_chain([element(), switched_off]).warnings == ()


def test_modules_of_a_system_tool_are_verified_by_the_manifest_and_those_of_no_other() -> None:
    anchored = element("r", "system", anchor={"enabled": True})
    assert ChainValidator().validate_chain([element("rye/t", "system"), anchored]).warnings == ()
    assert len(ChainValidator().validate_chain([element(), anchored]).warnings) == 1


def test_an_unknown_space_is_refused() -> None:
    with pytest.raises(RyeError) as caught:
        issues(element("a", "nowhere"), element("b", "system"))
    assert caught.value.code == "chain_invalid"


def test_spaces_are_asked_though_nothing_else_is(tmp_path: Path) -> None:
    """Who builds chains finds no such one; that is no reason to let one pass that came another way."""
    world = World(tmp_path)
    verified = Call.begin(world).valid().verified
    root, *rest = verified.chain.elements
    moved = replace(root, file=replace(root.file, space=world.space(SpaceName.USER)))
    chain = Chain((moved, *rest))
    with pytest.raises(RyeError, match="rests on base/runtime of the project space") as caught:
        require_valid(replace(verified, chain=chain), everything=False)
    assert caught.value.code == "chain_invalid"
