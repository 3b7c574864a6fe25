"""Attack: an agent asks a verb to sign, or to copy, what only a person may.

The canary is the file that was asked for: it keeps every byte.
"""

from __future__ import annotations

import pytest

from rye_mcp.items import SpaceName
from rye_mcp.trust.scope import SignerKind
from rye_mcp.verbs.load import LoadRequest, load
from rye_mcp.verbs.sign import BatchResult, SignRequest, sign
from tests.trust_world import World, refused
from tests.verb_world import RUNTIME, agent, path_of, person, put, tool

PRIMITIVE = b"name: mine\ntool_type: primitive\nexecutor_id: null\n"
SUBPROCESS = "rye/core/primitives/subprocess"
USER = SpaceName.USER


@pytest.mark.parametrize("content", [RUNTIME, PRIMITIVE], ids=["runtime", "primitive"])
def test_what_decides_how_others_run(world: World, content: bytes) -> None:
    file = put(world, content, "runs/mine", ".yaml")
    error = refused("out_of_scope", lambda: sign(SignRequest("runs/mine"), agent(world)))
    assert "rye sign runs/mine" in error.hint
    assert file.path.read_bytes() == content
    sign(SignRequest("runs/mine"), person(world))


def test_what_a_person_signed_and_somebody_changed(world: World) -> None:
    file = put(world, RUNTIME, "runs/mine", ".yaml", signed=True)
    changed = file.content.replace(b"my_runtime", b"your_runtime")
    file.path.write_bytes(changed)
    refused("out_of_scope", lambda: sign(SignRequest("runs/mine"), agent(world)))
    assert file.path.read_bytes() == changed


@pytest.mark.parametrize("item_id", ["rye/bash/bash", "RYE/bash/bash"])
def test_what_would_shadow_the_system(world: World, item_id: str) -> None:
    file = put(world, tool(), item_id)
    refused("out_of_scope", lambda: sign(SignRequest(item_id), agent(world)))
    assert file.path.read_bytes() == tool()


def test_a_pattern_is_no_way_around(world: World) -> None:
    put(world, tool(), "a/tool")
    runtime = put(world, RUNTIME, "a/runtime", ".yaml")
    shadow = put(world, tool(), "rye/shadow")
    result = sign(SignRequest("*"), agent(world))
    assert isinstance(result, BatchResult)
    assert [each.item.file.item_id for each in result.signed] == ["a/tool"]
    assert [(each.item_id, each.error.code) for each in result.failed] == [
        ("a/runtime", "out_of_scope"),
        ("rye/shadow", "out_of_scope"),
    ]
    assert (runtime.path.read_bytes(), shadow.path.read_bytes()) == (RUNTIME, tool())


@pytest.mark.parametrize("pattern", ["demo/hello", "demo/*", "*"])
def test_the_user_space(world: World, pattern: str) -> None:
    file = put(world, tool(), space=USER)
    refused("person_required", lambda: sign(SignRequest(pattern, source=USER), agent(world)))
    assert file.path.read_bytes() == tool()
    refused("no_key", lambda: world.keys.show(SignerKind.AGENT))


def test_a_system_item_into_the_space_of_every_project(world: World) -> None:
    """Unsigned there, and in front of the original, it would stop every tool of the user."""
    refused("person_required", lambda: load(LoadRequest(SUBPROCESS, destination=USER), agent(world)))
    assert not path_of(world, USER, SUBPROCESS, ".yaml").exists()


def test_a_key_of_a_person_is_never_used_for_an_agent(world: World) -> None:
    world.key(SignerKind.PERSON)
    put(world, tool())
    result = sign(SignRequest("demo/*"), agent(world))
    assert isinstance(result, BatchResult)
    assert [each.item.signer.kind for each in result.signed] == [SignerKind.AGENT]
