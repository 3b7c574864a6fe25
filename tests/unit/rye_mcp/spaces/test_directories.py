"""What is known of a directory spares a look into it, and never longer than it is so."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from rye_mcp.errors import RyeError
from rye_mcp.spaces._directories import descend

SETTLED_AFTER_NS = 2_000_000_000
"""How long ago a directory must have changed for its listing to be kept."""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A space with one directory of tools, whose listing is kept at once."""
    now = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now() + SETTLED_AFTER_NS + 1_000_000_000)
    root = tmp_path / "space/.ai"
    (root / "tools/demo").mkdir(parents=True)
    assert not leads_somewhere(root, "other")
    return root


def leads_somewhere(root: Path, name: str) -> bool:
    way = descend(root, ("tools", name))
    if way is not None:
        os.close(way.directory)
    return way is not None


def test_what_is_known_not_to_be_there_is_not_looked_for(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    really_open = os.open

    def noting(name: str, *about: Any, **more: Any) -> int:
        opened.append(name)
        return really_open(name, *about, **more)

    monkeypatch.setattr(os, "open", noting)
    assert not leads_somewhere(root, "other")
    assert opened == []
    assert leads_somewhere(root, "demo")
    assert opened == [str(root), "tools", "demo"]


def test_what_has_come_is_found(root: Path) -> None:
    (root / "tools/other").mkdir()
    assert leads_somewhere(root, "other")


def test_what_has_taken_the_place_of_the_directory_is_looked_into(root: Path) -> None:
    (root / "tools").rename(root / "away")
    (root / "tools/other").mkdir(parents=True)
    assert leads_somewhere(root, "other")


@pytest.mark.parametrize("part", [".ai", ".ai/tools"])
def test_a_link_is_refused_though_what_it_leads_to_is_known(root: Path, part: str) -> None:
    place = root.parent / part
    place.rename(root.parent / "away")
    place.symlink_to(root.parent / "away")
    with pytest.raises(RyeError) as caught:
        leads_somewhere(root, "other")
    assert caught.value.code == "unsafe_path"
