"""A first index of many files is made by another process, and is right without it too."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from anyio import from_thread, to_thread

from lilux.primitives.subprocess import ProcessSpec, SubprocessPrimitive
from rye_mcp.catalog import Catalog, SearchQuery
from rye_mcp.queries import parse
from tests.catalog_world import Shelf, tool

MANY = 1_500
"""From how many files on another process indexes them."""


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    shelf = Shelf.in_directory(tmp_path_factory.mktemp("shelf"))
    for number in range(MANY):
        shelf.put(f"many{number % 7}/t{number:04}", tool(f"t{number:04}", f"shared word{number}"))
    return shelf


def programs_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: str) -> Path:
    """A file that each process of the index appends a line to before it does its work, or something else."""
    journal, program = tmp_path / "journal", tmp_path / "python"
    program.write_text(f"#!/bin/sh\necho begun >> {journal}\n{then}\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(program))
    return journal


def total(catalog: Catalog, word: str = "shared") -> int:
    return catalog.search(SearchQuery(parse(word), limit=1)).total


@pytest.mark.thorough
@pytest.mark.parametrize(
    "then",
    [
        pytest.param(f'exec {sys.executable} "$@"', id="does its work"),
        pytest.param("exit 3", id="fails"),
        pytest.param("kill -9 $$", id="is killed"),
    ],
)
async def test_many_files_are_all_found_whether_the_process(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    journal = programs_started(tmp_path, monkeypatch, then)
    told: list[tuple[int, int]] = []
    with Catalog.open(shelf.ground.spaces, tmp_path / "cache") as catalog:
        await to_thread.run_sync(catalog.refresh, lambda done, total: told.append((done, total)))
        ends = [catalog.search(SearchQuery(parse(f"word{number}"))) for number in (0, MANY - 1)]
        assert total(catalog) == MANY
    assert [page.hits[0].item_id for page in ends] == ["many0/t0000", f"many{(MANY - 1) % 7}/t{MANY - 1:04}"]
    assert told[-1] == (MANY, MANY)
    assert journal.read_text(encoding="utf-8").splitlines() == ["begun"]


@pytest.mark.thorough
async def test_a_change_is_found_in_a_space_that_is_too_large(shelf: Shelf, tmp_path: Path) -> None:
    """What does not fit is found by its id until it changes: there is room left for that."""
    with Catalog.open(shelf.ground.spaces, tmp_path / "cache", max_words=2_000) as catalog:
        await to_thread.run_sync(catalog.refresh)
        indexed = total(catalog)
        assert 0 < indexed < MANY
        last = f"many{(MANY - 1) % 7}/t{MANY - 1:04}"
        assert total(catalog, f"word{MANY - 1}") == 0
        before = shelf.ground.space("project").joinpath(f"tools/{last}.py").read_bytes()
        shelf.put(last, tool("last", "shared novelty"))
        catalog.refresh()
        assert total(catalog, "novelty") == 1
        assert total(catalog) == indexed + 1
    shelf.put(last, before)


@pytest.mark.thorough
def test_where_no_event_loop_waits_no_process_is_started(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = programs_started(tmp_path, monkeypatch, "exit 3")
    with Catalog.open(shelf.ground.spaces, tmp_path / "cache") as catalog:
        catalog.refresh()
        assert total(catalog) == MANY
    assert not journal.exists()


@pytest.mark.thorough
async def test_many_files_that_changed_or_went_are_left_to_the_process_too(
    shelf: Shelf, tmp_path: Path
) -> None:
    told: list[int] = []
    gone = [shelf.put(f"gone/t{number}", tool("t", "shared")) for number in range(20)]
    with Catalog.open(shelf.ground.spaces, tmp_path / "cache") as catalog:
        await to_thread.run_sync(catalog.refresh)
        assert total(catalog) == MANY + 20
        for path in gone:
            path.unlink()
        for number in range(MANY):
            shelf.put(f"many{number % 7}/t{number:04}", tool(f"t{number:04}", f"shared again word{number}"))
        await to_thread.run_sync(catalog.refresh, lambda done, _: told.append(done))
        assert told == sorted(told)  # nothing was left to do: that would be counted from the beginning
        assert total(catalog) == total(catalog, "again") == MANY


@pytest.mark.thorough
async def test_the_process_ends_with_a_look_that_is_given_up(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = programs_started(tmp_path, monkeypatch, "printf .; exec sleep 600")

    def given_up(_done: int, _total: int) -> None:
        raise GivenUpError

    with Catalog.open(shelf.ground.spaces, tmp_path / "cache") as catalog:
        with anyio.fail_after(60), pytest.raises((GivenUpError, ExceptionGroup)):
            await to_thread.run_sync(catalog.refresh, given_up)
        monkeypatch.undo()
        await to_thread.run_sync(catalog.refresh)
        assert total(catalog) == MANY
    assert journal.exists()


@pytest.mark.thorough
async def test_the_process_runs_under_the_supervisor_of_the_event_loop_whose_thread_waits(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name_supervisor = "cut -d' ' -f4 /proc/$PPID/stat"  # the parent of the keeper
    programs_started(tmp_path, monkeypatch, f'{name_supervisor} >> "{tmp_path}/supervisors"; exit 3')
    told: list[int] = []

    def refresh() -> None:
        with Catalog.open(shelf.ground.spaces, tmp_path / "cache") as catalog:
            catalog.refresh(lambda done, _total: told.append(from_thread.run_sync(done.__int__, token=token)))

    token = anyio.lowlevel.current_token()
    outcome = await SubprocessPrimitive().run(ProcessSpec(command="/bin/sh", args=("-c", name_supervisor)))
    await to_thread.run_sync(refresh)
    supervisors = (tmp_path / "supervisors").read_text(encoding="utf-8").split()
    assert supervisors == [outcome.stdout.strip()]
    assert told[-1] == MANY


@pytest.mark.thorough
async def test_the_process_ends_with_the_task_whose_thread_waits(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs_started(tmp_path, monkeypatch, f'printf .; sleep 20; echo late >> "{tmp_path}/late"')
    begun = anyio.Event()

    def refresh() -> None:
        with Catalog.open(shelf.ground.spaces, tmp_path / "cache") as catalog:
            catalog.refresh(lambda _done, _total: from_thread.run_sync(begun.set, token=token))

    token = anyio.lowlevel.current_token()
    async with anyio.create_task_group() as group:
        group.start_soon(to_thread.run_sync, refresh)
        await begun.wait()
        group.cancel_scope.cancel()
    assert begun.is_set()
    assert not (tmp_path / "late").exists(), "the process has gone on to its end"


class GivenUpError(Exception):
    """Nobody waits any more."""
