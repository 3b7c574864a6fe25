"""Attack: a file passes as a part of a tool, which needs no signature, though no good listing says so."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from rye_mcp.items import SpaceName
from rye_mcp.trust.dependency_manifest import manifest_file, render_listing
from rye_mcp.verbs.sign import SignRequest, SignResult, sign
from rye_mcp.verbs.survey import Surveyed, SurveyRequest, survey
from tests.trust_world import World, new_key
from tests.verb_world import person, put, tool

PART = b"def line(text):\n    return text\n"
LISTING = "deps.manifest.yaml"


@pytest.fixture
def directory(world: World) -> Path:
    """The directory of `demo/hello`, which a person signed together with `part.py`."""
    put(world, tool("import part"))
    put(world, PART, "demo/part")
    assert isinstance(sign(SignRequest("demo/hello", companions=("part.py",)), person(world)), SignResult)
    return world.project / ".ai/tools/demo"


def found(world: World, item_id: str = "demo/part") -> Surveyed:
    (item,) = survey(SurveyRequest(item_id, space=SpaceName.PROJECT), person(world)).items
    return item


def test_a_part_that_a_person_listed_passes_as_a_library(world: World, directory: Path) -> None:
    assert (directory / LISTING).exists()
    part = found(world)
    assert (part.integrity.state, part.library) == ("carried", True)
    assert part.integrity.signer is not None
    assert part.integrity.signer.owner == "leo"


def changed(world: World, directory: Path) -> None:
    (directory / "part.py").write_bytes(PART + b"# more\n")


def without_a_listing(world: World, directory: Path) -> None:
    (directory / LISTING).unlink()


def unsigned_listing(world: World, directory: Path) -> None:
    (directory / LISTING).write_bytes((directory / LISTING).read_bytes().partition(b"\n")[2])


def listing_of_a_stranger(world: World, directory: Path) -> None:
    content = render_listing({"part.py": hashlib.sha256(PART).hexdigest()})
    file = manifest_file(world.space(SpaceName.PROJECT), "tools/demo", content)
    world.stored(world.signed_by_another_program(file, new_key()))


@pytest.mark.parametrize(
    "change",
    [changed, without_a_listing, unsigned_listing, listing_of_a_stranger],
    ids=lambda change: change.__name__,
)
def test_what_no_good_listing_names_is_refused(
    world: World, directory: Path, change: Callable[[World, Path], None]
) -> None:
    change(world, directory)
    part = found(world)
    assert (part.integrity.state, part.library) == ("unsigned", False)


def test_a_listing_that_was_moved_names_nothing_there(world: World, directory: Path) -> None:
    put(world, PART, "demo/sub/part")
    (directory / LISTING).rename(directory / "sub" / LISTING)
    assert found(world, "demo/sub/part").integrity.state == "unsigned"


def test_a_tool_of_its_own_needs_its_own_signature_though_it_is_listed(world: World, directory: Path) -> None:
    put(world, tool("pass"), "demo/part")
    sign(SignRequest("demo/hello", companions=("part.py",)), person(world))
    assert "part.py" in (directory / LISTING).read_text()
    assert found(world).integrity.state == "unsigned"
