"""Which changes are told, and what comes of it when they cannot be seen."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import anyio
import pytest
import watchfiles.main
from anyio import to_thread
from watchfiles._rust_notify import WatchfilesRustInternalError

from rye_mcp.mcp_server.watching import watch

LAST = "tools/last.py"


async def told(root: Path, *names: str) -> set[str]:
    """Which of these files are told when they are written, and then one that is told for sure."""
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / LAST).parent.mkdir(exist_ok=True)
    found: set[str] = set()
    begun = anyio.Event()

    async def changed(paths: frozenset[Path]) -> None:
        found.update(path.relative_to(root).as_posix() for path in paths)
        if LAST in found:
            group.cancel_scope.cancel()

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(partial(watch, [root], changed, step_ms=15, max_wait_ms=50, begun=begun.set))
            await begun.wait()
            for name in (*names, LAST):
                (root / name).write_text("x", encoding="utf-8")
    return found & set(names)


@pytest.mark.anyio
@pytest.mark.parametrize("above", ["outputs", "__pycache__", "runs.sqlite3"])
async def test_what_runs_leave_behind_is_not_told_whatever_a_project_lies_in(
    tmp_path: Path, above: str
) -> None:
    items = {"tools/outputs/a.py", "knowledge/lockfiles/b.md"}
    left = {"outputs/c", "abc/lockfiles/d.json", "abc/runs.sqlite3-wal", "tools/__pycache__/e.py"}
    assert await told(tmp_path / above / ".ai", *items, *left) == items


@pytest.mark.anyio
@pytest.mark.parametrize(
    "failure",
    [OSError(28, "it has stopped"), WatchfilesRustInternalError("it has stopped")],
    ids=["system", "watcher"],
)
async def test_that_changes_cannot_be_seen_is_an_error_of_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise failure

    async def changed(_: frozenset[Path]) -> None: ...

    monkeypatch.setattr(watchfiles.main, "RustNotify", refused)
    with pytest.raises(OSError, match="it has stopped"):
        await watch([tmp_path], changed)


@pytest.mark.thorough
async def test_those_who_wait_for_changes_leave_threads_for_others(tmp_path: Path) -> None:
    threads = to_thread.current_default_thread_limiter()
    before = threads.total_tokens
    begun: list[int] = []
    all_begun = anyio.Event()

    def note(number: int) -> None:
        begun.append(number)
        if len(begun) > before:
            all_begun.set()

    async def changed(_: frozenset[Path]) -> None:
        raise AssertionError

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            for number in range(int(before) + 1):
                root = tmp_path / str(number)
                root.mkdir()
                group.start_soon(partial(watch, [root], changed, begun=partial(note, number)))
            await all_begun.wait()
            assert await to_thread.run_sync(lambda: "done") == "done"
            group.cancel_scope.cancel()
    assert threads.total_tokens == before
