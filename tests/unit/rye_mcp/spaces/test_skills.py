"""Skills in a space: what is one, what is read of it, and what no skill may have."""

from __future__ import annotations

import hashlib
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from rye_mcp.errors import RyeError
from rye_mcp.items import MAX_SKILL_BYTES, MAX_SKILL_FILES, ItemType, SpaceName
from rye_mcp.spaces import Spaces, read_skill_file
from tests.skill_world import FILES, TEXT, directory_of, read, write, written
from tests.trust_world import World, old, refused


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def _listed(world: World) -> tuple[list[str], list[str]]:
    spaces = Spaces(world.space(), world.space(SpaceName.USER), world.space(SpaceName.SYSTEM))
    listing = spaces.list(SpaceName.PROJECT, ItemType.SKILL)
    return [place.item_id for place in listing.items], [error.code for error in listing.refused]


def test_a_directory_with_a_skill_md_is_a_skill(world: World) -> None:
    file = written(world, signed=False)
    assert _listed(world) == (["brew-tea"], [])
    assert file.text.decode() == TEXT
    assert file.content == b""
    assert file.path == world.space().root / "skills/brew-tea.rye.sig.yaml"
    assert file.skill is not None
    assert {path: (each.digest, each.size) for path, each in file.skill.files.items()} == {
        path: (hashlib.sha256(text.encode()).hexdigest(), len(text)) for path, text in FILES.items()
    }


def test_hidden_files_are_files_of_a_skill(world: World) -> None:
    file = written(world, {**FILES, ".claude/settings.json": "{}"}, signed=False)
    assert file.skill is not None
    assert ".claude/settings.json" in file.skill.files


@pytest.mark.parametrize("name", ["Brew-Tea", "brew_tea", "-tea", "tea-", "brew--tea", "brew tea", "t" * 65])
def test_a_directory_that_no_skill_can_be_called_is_refused(world: World, name: str) -> None:
    write(directory_of(world, name))
    assert _listed(world) == ([], ["invalid_id"])


@pytest.mark.parametrize("name", ["tea", "t", "0", "brew-tea-2", "t" * 64])
def test_names_of_skills(world: World, name: str) -> None:
    write(directory_of(world, name))
    assert _listed(world) == ([name], [])


def test_a_listing_alone_is_a_skill_whose_files_are_gone(world: World) -> None:
    file = written(world)
    directory_of(world).rename(directory_of(world).with_name("coffee"))
    assert _listed(world)[0] == ["brew-tea", "coffee"]
    again = read(world)
    assert again.content == file.content
    assert again.skill is not None
    assert not again.skill.files


def test_what_is_neither_is_not_found(world: World) -> None:
    refused("item_not_found", lambda: read(world))


def _link(skill: Path) -> None:
    (skill / "more.md").symlink_to("SKILL.md")


def _link_to_directory(skill: Path) -> None:
    (skill / "more").symlink_to("references")


def _pipe(skill: Path) -> None:
    os.mkfifo(skill / "pipe")


def _socket(skill: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        here = Path.cwd()
        os.chdir(skill)
        try:
            made.bind("s")
        finally:
            os.chdir(here)


def _set_uid(skill: Path) -> None:
    (skill / "scripts/kettle.sh").chmod(0o4755)


def _many(skill: Path) -> None:
    for number in range(MAX_SKILL_FILES):
        (skill / f"{number}").touch()


def _ten_thousand(skill: Path) -> None:
    (skill / "assets").mkdir()
    for number in range(10_000):
        (skill / f"assets/{number}").touch()


def _large(skill: Path) -> None:
    with (skill / "video").open("wb") as file:
        file.truncate(MAX_SKILL_BYTES)


def _huge(skill: Path) -> None:
    with (skill / "video").open("wb") as file:
        file.truncate(1 << 30)


def _deep(skill: Path) -> None:
    place = skill.joinpath(*["d"] * 40)
    place.mkdir(parents=True)
    (place / "f").touch()


def _many_directories(skill: Path) -> None:
    for number in range(600):
        (skill / f"d{number}").mkdir()


@pytest.mark.parametrize(
    ("put", "code"),
    [
        (_link, "unsafe_path"),
        (_link_to_directory, "unsafe_path"),
        (_pipe, "unsafe_path"),
        (_socket, "unsafe_path"),
        (_set_uid, "unsafe_permissions"),
        (_many, "too_large"),
        pytest.param(_ten_thousand, "too_large", marks=pytest.mark.thorough),
        (_large, "too_large"),
        (_huge, "too_large"),
        (_deep, "too_large"),
        (_many_directories, "too_large"),
    ],
)
def test_what_no_skill_may_have_refuses_it(world: World, put: Callable[[Path], None], code: str) -> None:
    put(write(directory_of(world)))
    error = refused(code, lambda: read(world))
    assert "skills/brew-tea" in str(error.where)


def test_a_file_that_changes_while_it_is_read_is_read_whole_or_not_at_all(world: World) -> None:
    """What is told of a text is told of the bytes that were read, however often they are exchanged."""
    written(world, signed=False)
    texts = [(TEXT + letter * 200_000).encode() for letter in "ab"]
    stop = threading.Event()

    def exchange() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            new = directory_of(world).with_name(f".{number}")
            new.write_bytes(texts[number % 2])
            new.replace(directory_of(world) / "SKILL.md")

    writer = threading.Thread(target=exchange)
    writer.start()
    try:
        seen: set[bytes] = set()
        while len(seen) < 2:
            file = read(world)
            assert file.skill is not None
            assert file.skill.files["SKILL.md"].digest == hashlib.sha256(file.text).hexdigest()
            seen.add(file.text)
    finally:
        stop.set()
        writer.join()
    assert seen <= {*texts, TEXT.encode()}


def test_a_directory_that_did_not_change_is_not_read_again(world: World) -> None:
    file = written(world)
    old(*(path for path in directory_of(world).rglob("*")), directory_of(world))
    first, second = read(world), read(world)
    assert first == file
    assert second.skill is first.skill
    (directory_of(world) / "SKILL.md").write_text(TEXT + "More.\n")
    assert read(world).text.decode() == TEXT + "More.\n"


def test_a_file_of_a_skill_is_read_as_it_was_listed_or_not_at_all(world: World) -> None:
    file = written(world)
    assert read_skill_file(file, "scripts/kettle.sh").content == b"echo hot\n"
    (directory_of(world) / "scripts/kettle.sh").write_text("echo cold\n")
    refused("content_changed", lambda: read_skill_file(file, "scripts/kettle.sh"))
    (directory_of(world) / "scripts/kettle.sh").unlink()
    refused("content_changed", lambda: read_skill_file(file, "scripts/kettle.sh"))


@pytest.mark.parametrize("path", ["", "../brew-tea.rye.sig.yaml", "/etc/passwd", "scripts", "SKILL.MD", "x"])
def test_no_other_path_is_a_file_of_a_skill(world: World, path: str) -> None:
    file = written(world)
    with pytest.raises(RyeError) as caught:
        read_skill_file(file, path)
    assert caught.value.code == "item_not_found"


@pytest.mark.thorough
def test_a_scan_notices_a_new_text_and_a_new_listing(world: World) -> None:
    spaces = Spaces(world.space(), world.space(SpaceName.USER), world.space(SpaceName.SYSTEM))
    write(directory_of(world))
    old(directory_of(world) / "SKILL.md")
    key = "skills/brew-tea.rye.sig.yaml"
    first = spaces.scan(SpaceName.PROJECT, ItemType.SKILL)
    assert first.keys() == {key}
    (directory_of(world) / "SKILL.md").write_text(TEXT + "More.\n")
    second = spaces.scan(SpaceName.PROJECT, ItemType.SKILL)
    written(world)
    old(directory_of(world) / "SKILL.md")
    assert second[key] != first[key]
    assert spaces.scan(SpaceName.PROJECT, ItemType.SKILL)[key] != first[key]
