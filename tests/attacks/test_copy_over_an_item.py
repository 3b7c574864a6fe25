"""Attack: a copy replaces what somebody else has, or is led elsewhere by what stands in its way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rye_mcp.items import SpaceName
from rye_mcp.trust.approvals import Decision
from rye_mcp.trust.trust_document import TrustDocument
from rye_mcp.verbs.load import LoadRequest, load
from tests.file_helpers import names_in, run_at_once
from tests.trust_world import World, new_key, refused
from tests.verb_world import path_of, person, put, tool

ROOT = Path(__file__).resolve().parents[2]
CANARY = b"# what was there before\n"
USER = SpaceName.USER


def copy(world: World, *, overwrite: bool = False) -> None:
    load(
        LoadRequest("demo/hello", source=SpaceName.PROJECT, destination=USER, overwrite=overwrite),
        person(world),
    )


def a_file(world: World) -> Path:
    path = path_of(world, USER)
    path.write_bytes(CANARY)
    return path


def another_extension(world: World) -> Path:
    path = path_of(world, USER, extension=".sh")
    path.write_bytes(CANARY)
    return path


def an_id_in_capitals(world: World) -> Path:
    path = path_of(world, USER, "demo/HELLO")
    path.write_bytes(CANARY)
    return path


def a_link(world: World) -> Path:
    canary = world.root / "canary"
    canary.write_bytes(CANARY)
    path_of(world, USER).symlink_to(canary)
    return canary


def a_dangling_link(world: World) -> Path:
    canary = world.root / "canary"
    path_of(world, USER).symlink_to(world.root / "made")
    canary.write_bytes(CANARY)
    return canary


def a_hard_link(world: World) -> Path:
    canary = world.root / "canary"
    canary.write_bytes(CANARY)
    path_of(world, USER).hardlink_to(canary)
    return canary


IN_THE_WAY: list[tuple[Callable[[World], Path], str, str]] = [
    (a_file, "item_exists", ""),
    (a_hard_link, "item_exists", ""),
    (another_extension, "ambiguous_item", "ambiguous_item"),
    (an_id_in_capitals, "ambiguous_item", "ambiguous_item"),
    (a_link, "unsafe_path", "unsafe_path"),
    (a_dangling_link, "unsafe_path", "unsafe_path"),
]


@pytest.fixture
def source(world: World) -> bytes:
    content = put(world, tool(), signed=True).content
    path_of(world, USER).parent.mkdir(parents=True)
    return content


@pytest.mark.parametrize(
    ("attack", "code", "with_overwrite"),
    IN_THE_WAY,
    ids=lambda value: getattr(value, "__name__", value),
)
def test_what_is_there_stays(
    world: World, source: bytes, attack: Callable[[World], Path], code: str, with_overwrite: str
) -> None:
    canary = attack(world)
    error = refused(code, lambda: copy(world))
    assert ("--overwrite" in error.hint) is (code == "item_exists")
    assert canary.read_bytes() == CANARY
    if with_overwrite:
        refused(with_overwrite, lambda: copy(world, overwrite=True))
        assert canary.read_bytes() == CANARY
    assert not (world.root / "made").exists()


def test_overwriting_replaces_a_name_and_not_what_it_shares(world: World, source: bytes) -> None:
    canary = a_hard_link(world)
    copy(world, overwrite=True)
    assert path_of(world, USER).read_bytes() == source
    assert canary.read_bytes() == CANARY


@pytest.mark.parametrize("linked", ["tools", "tools/demo"])
def test_no_directory_leads_a_copy_elsewhere(world: World, linked: str) -> None:
    put(world, tool(), signed=True)
    elsewhere = world.root / "elsewhere"
    elsewhere.mkdir()
    link = world.user_space / linked
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(elsewhere)
    refused("unsafe_path", lambda: copy(world))
    refused("unsafe_path", lambda: copy(world, overwrite=True))
    assert names_in(elsewhere) == []


def test_a_key_that_a_project_proposed_gets_nothing_into_the_user_space(world: World) -> None:
    mallory = new_key()
    document = TrustDocument.create(mallory.public, "mallory")
    world.propose(document)
    world.trust().store.decide(document, Decision.ACCEPTED)
    world.stored(world.signed(world.file(tool()), mallory))
    context = person(world)
    assert load(LoadRequest("demo/hello"), context).integrity.state == "verified"
    refused("untrusted_key", lambda: copy(world))
    assert not path_of(world, USER).exists()


COPY = """
import sys; sys.path.insert(0, sys.argv[1]); from tests.verb_world import *; from tests.trust_world import *; from rye_mcp.verbs.load import *; from rye_mcp.items import *; from rye_mcp.errors import *; from pathlib import Path; context = person(World(Path(sys.argv[2])))
try:
    load(LoadRequest("demo/hello", source=SpaceName.PROJECT, destination=SpaceName.USER), context)
    print("copied")
except RyeError as error:
    print(error.code)
"""  # noqa: E501 - the first line is what every process has done when all of them begin


@pytest.mark.thorough
def test_of_many_copies_at_once_one_is_made(world: World, source: bytes) -> None:
    said = run_at_once(COPY, [(ROOT, world.root)] * 4)
    assert sorted(each.strip() for each in said) == ["copied", "item_exists", "item_exists", "item_exists"]
    assert path_of(world, USER).read_bytes() == source
    assert names_in(path_of(world, USER).parent) == ["hello.py"]


def test_a_full_disk_leaves_what_was_there(world: World, source: bytes) -> None:
    """A limit on the size of files stands for a full disk: writing fails in the middle."""
    canary = a_file(world)
    script = COPY.replace("SpaceName.USER)", "SpaceName.USER, overwrite=True)").replace(
        "try:", "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (20, 20))\ntry:"
    )
    assert [each.strip() for each in run_at_once(script, [(ROOT, world.root)])] == ["write_failed"]
    assert canary.read_bytes() == CANARY
    assert names_in(canary.parent) == ["hello.py"]
