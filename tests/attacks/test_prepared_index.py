"""Attack: another user prepares the place of the search index, to read it or to have files made elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rye_mcp.app import App, Settings
from tests.file_helpers import names_in
from tests.people import Person
from tests.trust_world import World
from tests.users import ADA, BOB, as_user, two_users

TEXT = "what only ada knows"


def searched(home: Path, cache: Path) -> list[str]:
    """What is said about the index, after a search in a place like that."""
    item = home / ".ai/knowledge/own/secret.md"
    item.parent.mkdir(parents=True, exist_ok=True)
    item.write_text(f"---\nname: secret\ntitle: {TEXT}\n---\n{TEXT}\n")
    settings = Settings.find(
        user_directory=home, state=home / "state", cache=cache, environment={}, working_directory=home
    )
    with App.open(settings).catalog() as catalog:
        catalog.refresh()
        return list(catalog.notices)


def index_in(place: Path, home: Path) -> Path:
    """The name of the file for the user space, which everybody can compute."""
    searched(home, place)
    [own] = [path for path in (place / "search").glob("*.sqlite") if TEXT.encode() in path.read_bytes()]
    return own


@pytest.mark.thorough
@two_users
@pytest.mark.parametrize("mode", [0o755, 0o777, 0o1777])
def test_a_directory_of_another_user_gets_no_index(everybody: Path, tmp_path: Path, mode: int) -> None:
    name = index_in(tmp_path / "cache", home := everybody.parent / "home").name
    os.chown(home, ADA, ADA)
    for each in home.rglob("*"):
        os.chown(each, ADA, ADA)
    canary = home / "made"

    def prepare() -> None:
        place = everybody / "cache/search"
        place.mkdir(parents=True)
        (place / name).symlink_to(canary)
        place.chmod(mode)

    as_user(BOB, prepare)
    notices = as_user(ADA, lambda: searched(home, everybody / "cache"))
    assert all("kept in memory" in each and "belongs to another user" in each for each in notices)
    assert notices
    assert not canary.exists()
    assert names_in(everybody / "cache/search") == [name]


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o777])
def test_a_directory_that_others_may_enter_gets_none(world: World, mode: int) -> None:
    (world.root / "cache/search").mkdir(parents=True)
    (world.root / "cache/search").chmod(mode)
    [*notices] = searched(world.root / "home", world.root / "cache")
    assert notices
    assert all("expected mode" in each for each in notices)
    assert names_in(world.root / "cache/search") == []


@pytest.mark.first_case
@pytest.mark.parametrize("ending", ["", "-wal", "-shm", "-journal"])
def test_a_link_in_the_place_of_a_file_leads_nowhere(world: World, ending: str) -> None:
    """Of a time when others could write there, say."""
    home, cache, canary = world.root / "home", world.root / "cache", world.root / "made"
    index = index_in(cache, home)
    for each in (cache / "search").iterdir():
        each.unlink()
    (cache / "search" / f"{index.name}{ending}").symlink_to(canary)
    assert searched(home, cache) == []
    assert not canary.exists()
    assert not index.is_symlink()


def test_the_files_are_for_this_user_alone(world: World) -> None:
    home, cache = world.root / "home", world.root / "cache"
    index = index_in(cache, home)
    assert {each.stat().st_mode & 0o777 for each in (cache / "search").iterdir()} == {0o600}
    index.chmod(0o644)
    searched(home, cache)
    assert index.stat().st_mode & 0o777 == 0o600


@pytest.mark.thorough
def test_the_doctor_names_a_place_that_others_may_enter(world: World) -> None:
    bob = Person("bob", world.root / "bob", {"XDG_CACHE_HOME": str(world.root / "cache")})
    (world.root / "cache/rye/search").mkdir(parents=True)
    (world.root / "cache/rye/search").chmod(0o755)
    told = bob.rye("doctor", "--json", cwd=world.root, code=None).json["findings"]
    [found] = [each for each in told if each["check"] == "search index"]
    assert found["state"] == "warning"
    assert found["hint"].startswith("chmod go= ")
