"""Attack: a pattern that climbs, follows links, takes for ever, or signs what nobody meant."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rye_mcp.errors import RyeError
from rye_mcp.items import SpaceName
from rye_mcp.verbs.load import LoadRequest, load
from rye_mcp.verbs.sign import BatchResult, SignRequest, sign
from rye_mcp.verbs.survey import SurveyRequest, survey
from tests.trust_world import World, refused
from tests.verb_world import person, put, tool

HOSTILE = [
    "../*",
    "../../*",
    "demo/../../../*",
    "/etc/*",
    "/*",
    "./*",
    "demo//*",
    "*/../*",
    ".*",
    "*/.git/*",
    "~/*",
    "$HOME/*",
    "{a,b}*",
    "[!a]*",
    "demo\\*",
    "demo/*\n",
    "demo/*\x00",
    "demo/*; rm -rf *",
    "--help*",
    "*" * 520,
    "\u2024\u2024/*",
]


@pytest.fixture
def canary(world: World) -> Path:
    """A tool, unsigned, right outside of the project's tools; and another one inside."""
    put(world, tool())
    path = world.project / ".ai/outside.py"
    path.write_bytes(tool())
    return path


@pytest.mark.parametrize("pattern", HOSTILE)
def test_an_invalid_pattern(world: World, canary: Path, pattern: str) -> None:
    refused("invalid_id", lambda: sign(SignRequest(pattern), person(world)))
    refused("invalid_id", lambda: survey(SurveyRequest(pattern), person(world)))
    assert canary.read_bytes() == tool()


@pytest.mark.parametrize("link", ["demo/link.py", "linked"])
def test_a_pattern_follows_no_link(world: World, canary: Path, link: str) -> None:
    where = world.project / ".ai/tools" / link
    where.symlink_to(canary if link.endswith(".py") else canary.parent)
    result = sign(SignRequest("*"), person(world))
    assert isinstance(result, BatchResult)
    assert [each.item.file.item_id for each in result.signed] == ["demo/hello"]
    assert {each.error.code for each in result.failed} <= {"unsafe_path"}
    assert canary.read_bytes() == tool()


def test_everything_in_one_space_is_not_everything_in_another(world: World) -> None:
    put(world, tool())
    other = put(world, tool(), space=SpaceName.USER)
    sign(SignRequest("*"), person(world))
    assert other.path.read_bytes() == tool()


def test_what_takes_for_ever_elsewhere(world: World) -> None:
    name = "a" * 60
    put(world, tool(), "/".join([name] * 6))
    started = time.process_time()
    refused("item_not_found", lambda: sign(SignRequest("*a" * 250 + "*b"), person(world)))
    assert time.process_time() - started < 5


@given(st.text() | st.text("ab/*?.-_~", max_size=20))
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_typed_is_an_answer_or_a_refusal(world: World, text: str) -> None:
    (world.root / "outside.py").write_bytes(tool())
    context = person(world)
    for ask in (
        lambda: sign(SignRequest(text), context),
        lambda: survey(SurveyRequest(text), context),
        lambda: load(LoadRequest(text), context),
    ):
        with suppress(RyeError):
            ask()
    assert (world.root / "outside.py").read_bytes() == tool()
