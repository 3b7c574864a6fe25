"""Indexes that are damaged, foreign, locked, or cannot be written: what is found is right all the same."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rye_mcp.catalog import Catalog, SearchQuery
from rye_mcp.errors import RyeError
from rye_mcp.queries import parse
from tests.catalog_world import Shelf, tool
from tests.file_helpers import run_python

ITEMS = 120


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    shelf = Shelf.in_directory(tmp_path)
    for number in range(ITEMS):
        shelf.put(
            f"many/t{number:03}", tool(f"t{number:03}", f"converts number{number}", body="words " * 200)
        )
    assert found(shelf) == ITEMS
    return shelf


def found(shelf: Shelf) -> int:
    """How many of the items are found by a word of all, when each is found by a word of its own."""
    with shelf.open() as catalog:
        catalog.refresh()
        return everything(catalog)


def everything(catalog: Catalog) -> int:
    for number in (0, 60, ITEMS - 1):
        page = catalog.search(SearchQuery(parse(f"number{number}")))
        assert [hit.item_id for hit in page.hits] == [f"many/t{number:03}"]
    return catalog.search(SearchQuery(parse("convert"))).total


def overwritten(content: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content)


def truncated(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def zeroed(path: Path) -> None:
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(8192)
        file.write(bytes(size - 8192))


def foreign(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE items(somebody, elses)")
    database.close()


def of_another_version(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("UPDATE made_by SET version = '0 / rye-mcp 0.0.1 / SQLite 3'")
        database.execute("DELETE FROM texts")  # which another parser had no idea of
    database.close()


def without_a_table(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("DROP TABLE texts")
    database.close()


def a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGE = [
    overwritten(b""),
    overwritten(b"this is no database" * 1000),
    truncated,
    zeroed,
    foreign,
    of_another_version,
    without_a_table,
    a_directory,
]


@pytest.mark.first_case
@pytest.mark.parametrize("damage", DAMAGE, ids=lambda each: each.__qualname__.partition(".")[0])
def test_a_damaged_index_is_built_again(shelf: Shelf, damage: Callable[[Path], object]) -> None:
    damage(shelf.index_file())
    assert found(shelf) == ITEMS
    with shelf.open() as catalog:
        catalog.refresh()
        assert everything(catalog) == ITEMS
        assert bool(catalog.notices) is (damage is a_directory)  # which nobody removes


def test_an_index_that_is_damaged_while_in_use_is_built_again(shelf: Shelf) -> None:
    with shelf.open() as catalog:
        zeroed(shelf.index_file())
        catalog.refresh()
        assert everything(catalog) == ITEMS
        assert catalog.notices == ()
    assert found(shelf) == ITEMS


def test_an_index_that_loses_a_table_while_in_use_is_built_again(shelf: Shelf) -> None:
    with shelf.open() as catalog:
        without_a_table(shelf.index_file())
        assert everything(catalog) == ITEMS
        assert catalog.notices == ()
    assert found(shelf) == ITEMS


def test_a_question_that_is_refused_costs_no_index(shelf: Shelf) -> None:
    before = shelf.index_file().stat().st_ino
    with shelf.open() as catalog:
        for index in catalog._indexes:
            with pytest.raises(RyeError, match="refuses"):
                index.ask(lambda engine: engine.database.execute("SELECT everything FROM nowhere"))
        assert everything(catalog) == ITEMS
    assert shelf.index_file().stat().st_ino == before


def test_a_reader_of_the_old_file_goes_on_finding(shelf: Shelf) -> None:
    with shelf.open() as first:
        first.refresh()
        shelf.index_file().unlink()
        with shelf.open() as second:
            second.refresh()
            shelf.put("many/new", tool("new", "converts too"))
            for catalog in (first, second):
                catalog.refresh()
                assert everything(catalog) == ITEMS + 1


def test_a_reader_and_a_writer_do_not_wait_for_each_other(shelf: Shelf) -> None:
    with shelf.open() as catalog:
        writer = sqlite3.connect(shelf.index_file(), isolation_level=None)
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("DELETE FROM items")
        started = time.monotonic()
        assert everything(catalog) == ITEMS
        assert time.monotonic() - started < 0.5
        writer.execute("ROLLBACK")
        writer.close()


def test_a_file_that_somebody_keeps_locked_is_copied_to_memory(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rye_mcp.cache_file.BUSY_TIMEOUT_S", 0.1)
    writer = sqlite3.connect(shelf.index_file(), isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    with shelf.open() as catalog:
        shelf.put("many/new", tool("new", "converts too"))
        catalog.refresh()
        assert everything(catalog) == ITEMS + 1
        assert any("memory" in notice for notice in catalog.notices)
    writer.execute("ROLLBACK")
    writer.close()
    assert found(shelf) == ITEMS + 1


def test_a_locked_directory_keeps_nobody_from_searching(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rye_mcp.cache_file.LOCK_TIMEOUT_S", 0.1)
    directory = os.open(shelf.cache, os.O_DIRECTORY)
    fcntl.flock(directory, fcntl.LOCK_EX)
    with shelf.open() as catalog:
        catalog.refresh()
        assert everything(catalog) == ITEMS
        assert any("another process holds it" in notice for notice in catalog.notices)
    os.close(directory)
    with shelf.open() as catalog:
        assert catalog.notices == ()


def test_a_catalog_that_opens_gives_up_no_lock_of_another_one_in_its_process(shelf: Shelf) -> None:
    """Another process would take itself for the last one, and remove the log that both write to."""
    with shelf.open() as first:
        shelf.put("many/new", tool("new", "converts too"))
        first.refresh()
        with shelf.open() as second:
            before = sorted(path.name for path in shelf.cache.iterdir())
            assert run_python(OTHER, shelf.ground.root) == f"{ITEMS + 1}\n"
            assert sorted(path.name for path in shelf.cache.iterdir()) == before
            for catalog in (first, second):
                catalog.refresh()
                assert everything(catalog) == ITEMS + 1
                assert catalog.notices == ()


def test_any_number_of_processes_open_an_index_at_once(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rye_mcp.cache_file.LOCK_TIMEOUT_S", 0.1)
    directory = os.open(shelf.cache, os.O_DIRECTORY)
    fcntl.flock(directory, fcntl.LOCK_SH)  # as one that opens it holds it
    with shelf.open() as catalog:
        assert catalog.notices == ()
    os.close(directory)


def test_an_index_that_is_damaged_again_and_again_is_kept_in_memory(shelf: Shelf) -> None:
    with shelf.open() as catalog:
        [index] = [each for each in catalog._indexes if each.space.name == "project"]
        damaged = iter([True, True, False])

        def question(engine: Any) -> Any:
            if next(damaged):
                raise sqlite3.DatabaseError("database disk image is malformed")
            return engine.length()

        assert index.ask(question)
        assert everything(catalog) == ITEMS
        assert any("memory" in notice for notice in catalog.notices)


def test_a_file_that_is_read_only_is_copied_to_memory(shelf: Shelf) -> None:
    with shelf.open() as catalog:
        for index in catalog._indexes:
            index.ask(lambda engine: engine.database.execute("PRAGMA query_only = ON"))
        shelf.put("many/new", tool("new", "converts too"))
        catalog.refresh()
        assert everything(catalog) == ITEMS + 1
        assert any("memory" in notice for notice in catalog.notices)


OTHER = """
import sys
from pathlib import Path
from tests.catalog_world import Shelf
from tests.space_helpers import Ground
from tests.unit.rye_mcp.catalog.test_damage import found
print(found(Shelf(Ground(Path(sys.argv[1])))))
"""

FULL = """
import resource, signal, sys
from pathlib import Path
from tests.catalog_world import Shelf
from tests.space_helpers import Ground
from tests.unit.rye_mcp.catalog.test_damage import everything
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
shelf = Shelf(Ground(Path(sys.argv[1])))
with shelf.open() as catalog:
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    catalog.refresh()
    print(everything(catalog), *catalog.notices)
"""


@pytest.mark.thorough
def test_a_disk_that_is_full_leaves_a_search_that_is_right(shelf: Shelf) -> None:
    for number in range(50):
        shelf.put(f"more/t{number}", tool(f"more{number}", "converts too", body="other words " * 500))
    count, notice = run_python(FULL, shelf.ground.root).split(maxsplit=1)
    assert int(count) == ITEMS + 50
    assert "memory" in notice
    assert found(shelf) == ITEMS + 50


@pytest.mark.parametrize("inside", ["project/.ai", "project/.ai/cache", "user/.ai/tools"])
def test_no_index_is_ever_kept_in_a_space(shelf: Shelf, inside: str) -> None:
    before = sorted(shelf.ground.root.rglob("*"))
    with Catalog.open(shelf.ground.spaces, shelf.ground.root / inside) as catalog:
        catalog.refresh()
        assert everything(catalog) == ITEMS
        assert catalog.notices
    assert sorted(shelf.ground.root.rglob("*")) == before


def test_a_directory_that_cannot_be_made_is_done_without(shelf: Shelf) -> None:
    (shelf.ground.root / "file").write_bytes(b"")
    with Catalog.open(shelf.ground.spaces, shelf.ground.root / "file" / "cache") as catalog:
        catalog.refresh()
        assert everything(catalog) == ITEMS
        assert catalog.notices


def test_nobody_else_may_look_into_the_directory(shelf: Shelf) -> None:
    assert shelf.cache.stat().st_mode & 0o777 == 0o700
