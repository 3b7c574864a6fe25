"""Attack: an agent changes a file of a person, and vouches for it by the listing of a tool of its own.

No file is another person's because its metadata is broken, it is too large for an item, or its name is none.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rye_mcp.items import MAX_ITEM_BYTES
from rye_mcp.verbs.sign import SignRequest, sign
from tests.git_world import WHO, git
from tests.lock_world import chain_of, files_below
from tests.trust_world import World, refused
from tests.verb_world import agent, person, put, tool

Change = Callable[[Path], str]
"""What an agent does to a file of a person: the name by which it lists the file then."""


def nothing(path: Path) -> str:
    return path.name


def metadata_broken(path: Path) -> str:
    path.write_bytes(path.read_bytes() + b"def (:\n")
    return path.name


def line_broken_too(path: Path) -> str:
    path.write_bytes(path.read_bytes().replace(b"rye:signed:", b"rye:signed:x", 1) + b"def (:\n")
    return path.name


def too_large(path: Path) -> str:
    path.write_bytes(path.read_bytes() + b"# more\n" * (MAX_ITEM_BYTES // 7 + 1))
    return path.name


def named_like_no_item(path: Path) -> str:
    return path.rename(path.with_name("the helper.py")).name


def named_like_data(path: Path) -> str:
    return path.rename(path.with_name("helper.json")).name


CHANGES = (nothing, metadata_broken, line_broken_too, too_large, named_like_no_item, named_like_data)


def refused_to_an_agent(world: World, *companions: str) -> None:
    before = files_below(world.project)
    wanted = SignRequest("demo/hello", companions=companions)
    refused("person_required", lambda: sign(wanted, agent(world)))
    assert files_below(world.project) == before


@pytest.mark.parametrize("change", CHANGES)
def test_a_line_of_a_person_stands_in_the_file(world: World, change: Change) -> None:
    put(world, tool("return 1"), "demo/helper")
    sign(SignRequest("demo/helper"), person(world))
    put(world, tool())
    refused_to_an_agent(world, change(world.project / ".ai/tools/demo/helper.py"))


# --- data that a person listed further down ---


@pytest.fixture
def below(world: World) -> Path:
    """Data of a person's tool in a directory below that of the agent's."""
    put(world, tool("return 1"), "demo/sub/show")
    data = world.project / ".ai/tools/demo/sub/data.json"
    data.write_bytes(b"{}")
    sign(SignRequest("demo/sub/show", companions=("data.json",)), person(world))
    put(world, tool())
    return data


def as_it_was(listing: Path) -> None:
    assert listing.exists()


def with_another_hash(listing: Path) -> None:
    listing.write_bytes(listing.read_bytes().replace(b'data.json": "', b'data.json": "0', 1)[:-1])


def without_the_file(listing: Path) -> None:
    lines = listing.read_bytes().splitlines(keepends=True)
    listing.write_bytes(b"".join(line for line in lines if b"data.json" not in line))


def gone(listing: Path) -> None:
    listing.unlink()


LISTINGS = (as_it_was, with_another_hash, without_the_file, gone)


@pytest.mark.parametrize("change", LISTINGS)
def test_data_that_a_person_listed_further_down(
    world: World, below: Path, change: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in WHO.items():
        monkeypatch.setenv(name, value)
    git(world.project, "init", "--quiet")
    git(world.project, "add", "--all")
    git(world.project, "commit", "--quiet", "-m", "A tool and its data")
    below.write_bytes(b'{"planted": true}')
    change(below.with_name("deps.manifest.yaml"))
    refused_to_an_agent(world, "sub/data.json")


def test_a_library_that_a_person_listed_further_up_is_signed_by_no_agent(world: World, below: Path) -> None:
    """A signature line of an agent's would make the agent the one who vouches for it."""
    helper = below.with_name("helper.py")
    helper.write_bytes(b"x = 1\n")
    below.with_name("deps.manifest.yaml").unlink()
    put(world, tool("return 2"), "demo/show")
    sign(SignRequest("demo/show", companions=("sub/helper.py",)), person(world))
    helper.write_bytes(b"x = 2\n")
    refused("person_required", lambda: sign(SignRequest("demo/sub/helper"), agent(world)))


def test_what_is_as_a_person_listed_it_may_be_listed_again(world: World, below: Path) -> None:
    below.with_name("more.json").write_bytes(b"{}")
    sign(SignRequest("demo/hello", companions=("sub/data.json", "sub/more.json")), agent(world))
    carried = chain_of(agent(world)).verified.carried.digests
    assert {"tools/demo/sub/data.json", "tools/demo/sub/more.json"} <= carried.keys()
