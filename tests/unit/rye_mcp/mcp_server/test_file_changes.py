"""What is looked at again before a search, which changes are told, and what comes of it when none is seen."""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import anyio
import pytest
import watchfiles.main
from anyio import to_thread
from anyio.abc import TaskGroup
from watchfiles._rust_notify import RustNotify, WatchfilesRustInternalError

from rye_mcp.items import ItemPlace, ItemType, Space, SpaceName
from rye_mcp.mcp_server.file_changes import (
    LOOK_AGAIN_S,
    MAX_NOTICED,
    FileChanges,
    Freshness,
    Progress,
    looking,
    watch,
)

if TYPE_CHECKING:
    from rye_mcp.app import App

ROOT = Path("/nowhere/project/.ai")
SPACE = Space(SpaceName.PROJECT, ROOT)
HELLO = ItemPlace(SPACE, ItemType.TOOL, "demo/hello", ".py")


@dataclass
class Journal:
    """An index that writes down what it is told to look at."""

    looks: list[str | set[ItemPlace]] = field(default_factory=list)

    def refresh(self, progress: Callable[[int, int], object] | None = None) -> None:
        self.looks.append("everything")

    def note_changed(self, *places: ItemPlace) -> None:
        self.looks.append(set(places))


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Watched:
    """Files that are watched and were looked at once."""

    clock: Clock = field(default_factory=Clock)
    journal: Journal = field(default_factory=Journal)

    def __post_init__(self) -> None:
        self.freshness = Freshness([SPACE], clock=self.clock)
        self.freshness.watched(True)
        assert self.looks() == ["everything"]

    def looks(self) -> list[str | set[ItemPlace]]:
        """What one more search looks at."""
        self.journal.looks.clear()
        self.freshness.bring_up_to_date(self.journal)
        return list(self.journal.looks)


def test_while_nobody_watches_everything_is_looked_at_each_time() -> None:
    journal, freshness = Journal(), Freshness([SPACE])
    for _ in range(3):
        freshness.bring_up_to_date(journal)
    assert journal.looks == ["everything"] * 3


def test_when_nothing_was_noticed_nothing_is_looked_at() -> None:
    assert Watched().looks() == []


def test_what_was_noticed_is_looked_at_once() -> None:
    watched = Watched()
    watched.freshness.notice([ROOT / "tools/demo/hello.py"])
    watched.freshness.notice([ROOT / "tools/demo/hello.py", Path("/elsewhere/tools/demo/other.py")])
    assert watched.looks() == [{HELLO}]
    assert watched.looks() == []


@pytest.mark.parametrize(
    ("relative", "looks"),
    [
        ("tools/demo", ["everything"]),
        ("tools", ["everything"]),
        ("tools/demo/deps.manifest.yaml", ["everything"]),
        ("tools/demo/data.csv", ["everything"]),
        ("tools/demo/.hello.py.new", []),
        (".git/index", []),
    ],
)
def test_what_may_stand_for_several_items_is_a_reason_to_look_at_all(
    relative: str, looks: list[str | set[ItemPlace]]
) -> None:
    watched = Watched()
    watched.freshness.notice([ROOT / relative])
    assert watched.looks() == looks


def test_a_directory_that_is_called_as_a_file_stands_for_several(tmp_path: Path) -> None:
    root = tmp_path / ".ai"
    (root / "tools/demo.py").mkdir(parents=True)
    freshness, journal = Freshness([Space(SpaceName.PROJECT, root)]), Journal()
    freshness.watched(True)
    freshness.bring_up_to_date(journal)
    freshness.notice([root / "tools/demo.py"])
    freshness.bring_up_to_date(journal)
    assert journal.looks == ["everything"] * 2


def test_many_are_looked_at_with_all_others() -> None:
    watched = Watched()
    watched.freshness.notice([ROOT / f"tools/many/t{number}.py" for number in range(MAX_NOTICED + 1)])
    assert watched.looks() == ["everything"]
    assert watched.looks() == []


def test_now_and_then_everything_is_looked_at() -> None:
    watched = Watched()
    watched.clock.now += LOOK_AGAIN_S - 1
    assert watched.looks() == []
    watched.clock.now += 1
    assert watched.looks() == ["everything"]


def test_after_a_call_that_may_have_written_everything_is_looked_at() -> None:
    watched = Watched()
    watched.freshness.look_again()
    assert [watched.looks() for _ in range(2)] == [["everything"], []]


@pytest.mark.parametrize("lost", [True, False])
def test_a_space_that_is_taken_away_is_not_watched_any_more(lost: bool) -> None:
    watched = Watched()
    if lost:
        watched.freshness.notice([ROOT])
    else:
        watched.freshness.watched(False)
    assert [watched.looks() for _ in range(2)] == [["everything"]] * 2


def test_a_look_that_failed_is_made_up_for_by_the_next() -> None:
    class Failing(Journal):
        def note_changed(self, *places: ItemPlace) -> None:
            raise OSError("busy")

    watched = Watched()
    watched.freshness.notice([ROOT / "tools/demo/hello.py"])
    with pytest.raises(OSError, match="busy"):
        watched.freshness.bring_up_to_date(Failing())
    assert [watched.looks() for _ in range(2)] == [["everything"], []]


def test_a_caller_that_comes_during_a_look_waits_for_it() -> None:
    begun, may_end, looked = threading.Event(), threading.Event(), list[str]()

    class Slow(Journal):
        def note_changed(self, *places: ItemPlace) -> None:
            begun.set()
            may_end.wait(20)
            looked.append("first")

    def second() -> None:
        watched.freshness.bring_up_to_date(Journal())
        looked.append("second")

    watched = Watched()
    watched.freshness.notice([ROOT / "tools/demo/hello.py"])
    threads = [threading.Thread(target=watched.freshness.bring_up_to_date, args=[Slow()])]
    threads[0].start()
    assert begun.wait(20)
    threads.append(threading.Thread(target=second))
    threads[1].start()
    threads[1].join(0.05)  # it would have been over by then
    may_end.set()
    for thread in threads:
        thread.join(20)
    assert looked == ["first", "second"]


def test_a_space_whose_place_another_directory_took_is_looked_at_each_time(tmp_path: Path) -> None:
    project = tmp_path / "project"
    root = project / ".ai"
    root.mkdir(parents=True)
    freshness, journal = Freshness([Space(SpaceName.PROJECT, root)]), Journal()
    freshness.watched(True)
    for _ in range(2):
        freshness.bring_up_to_date(journal)
    assert journal.looks == ["everything"]
    project.rename(tmp_path / "before")
    root.mkdir(parents=True)
    for _ in range(2):
        freshness.bring_up_to_date(journal)
    assert journal.looks == ["everything"] * 3


def app_with(space: Space) -> App:
    """As much of a project as is asked for its files: one space, and where the user's decisions are."""
    spaces = SimpleNamespace(accessible=lambda: (space,))
    return cast("App", SimpleNamespace(spaces=spaces, settings=SimpleNamespace(state=Path("/nowhere"))))


def beside(group: TaskGroup) -> Callable[[Callable[[], Awaitable[None]]], None]:
    """What begins work that goes on beside all else."""

    def begin(work: Callable[[], Awaitable[None]]) -> None:
        async def run() -> None:
            await work()

        group.start_soon(run)

    return begin


@pytest.mark.anyio
async def test_files_and_the_loss_of_a_space_are_noticed(tmp_path: Path) -> None:
    space = Space(SpaceName.PROJECT, tmp_path / "project/.ai")
    tool = space.root / "tools/demo/hello.py"
    tool.parent.mkdir(parents=True)
    journal = Journal()

    async def until(wanted: list[str | set[ItemPlace]], repeatedly: Callable[[], object]) -> None:
        with anyio.fail_after(20):
            while True:
                repeatedly()
                journal.looks.clear()
                freshness.bring_up_to_date(journal)
                if journal.looks == wanted:
                    return
                await anyio.sleep(0.01)

    async with anyio.create_task_group() as group:
        freshness = FileChanges().freshness_of(app_with(space), beside(group))
        await until([], lambda: None)
        place = ItemPlace(space, ItemType.TOOL, "demo/hello", ".py")
        await until([{place}], lambda: tool.write_text("x = 1\n", encoding="utf-8"))
        space.root.rename(space.root.with_name("elsewhere"))
        await until(["everything"], lambda: None)
        for _ in range(3):
            await until(["everything"], lambda: None)
        group.cancel_scope.cancel()


@pytest.fixture
def watchers(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What each watcher of the system is asked to watch."""
    made: list[list[str]] = []
    real = RustNotify

    def counted(paths: list[str], *options: Any) -> Any:
        made.append(paths)
        return real(paths, *options)

    monkeypatch.setattr(watchfiles.main, "RustNotify", counted)
    return made


class Told:
    """What a listener is told."""

    def __init__(self) -> None:
        self.paths: set[Path] = set()
        self.something = anyio.Event()

    async def changed(self, paths: frozenset[Path]) -> None:
        self.paths |= paths
        self.something.set()

    async def of(self, path: Path, write: Callable[[], object]) -> None:
        """Write until it is told: only who is told knows that somebody watches."""
        with anyio.fail_after(20):
            while path not in self.paths:
                write()
                with anyio.move_on_after(0.2):
                    await self.something.wait()
                self.something = anyio.Event()


@pytest.mark.anyio
@pytest.mark.parametrize("first", ["search", "list"])
async def test_one_watcher_serves_the_index_and_the_lists(
    tmp_path: Path, watchers: list[list[str]], first: str
) -> None:
    space = Space(SpaceName.PROJECT, tmp_path / "project/.ai")
    tool = space.root / "tools/demo/hello.py"
    tool.parent.mkdir(parents=True)
    changes, app, told, journal = FileChanges(), app_with(space), Told(), Journal()
    async with anyio.create_task_group() as group:
        if first == "search":
            changes.freshness_of(app, beside(group))
        changes.tell(app, told.changed, beside(group))
        freshness = changes.freshness_of(app, beside(group))
        await told.of(tool, lambda: tool.write_text("x = 1\n", encoding="utf-8"))
        freshness.bring_up_to_date(journal)
        tool.write_text("x = 2\n", encoding="utf-8")
        with anyio.fail_after(20):
            while {ItemPlace(space, ItemType.TOOL, "demo/hello", ".py")} not in journal.looks:
                freshness.bring_up_to_date(journal)
                await anyio.sleep(0.01)
        group.cancel_scope.cancel()
    assert watchers == [[str(space.root)]]


@pytest.mark.anyio
async def test_lists_are_told_of_the_directory_that_takes_the_place_of_another(
    tmp_path: Path, watchers: list[list[str]]
) -> None:
    space = Space(SpaceName.PROJECT, tmp_path / "project/.ai")
    tool = space.root / "tools/hello.py"
    tool.parent.mkdir(parents=True)
    changes, app, told = FileChanges(), app_with(space), Told()
    async with anyio.create_task_group() as group:
        changes.tell(app, told.changed, beside(group))
        await told.of(tool, lambda: tool.write_text("x = 1\n", encoding="utf-8"))
        (tmp_path / "project").rename(tmp_path / "before")
        tool.parent.mkdir(parents=True)
        changes.forget(app)
        told.paths.clear()
        await told.of(tool, lambda: tool.write_text("x = 2\n", encoding="utf-8"))
        group.cancel_scope.cancel()
    assert watchers == [[str(space.root)]] * 2


@pytest.mark.anyio
async def test_lists_are_told_of_one_project_alone(tmp_path: Path) -> None:
    files, apps = [], []
    for name in ("first", "second"):
        space = Space(SpaceName.PROJECT, tmp_path / name / ".ai")
        files.append(space.root / "tools/hello.py")
        files[-1].parent.mkdir(parents=True)
        apps.append(app_with(space))

    def write() -> None:
        for file in files:
            file.write_text("x = 1\n", encoding="utf-8")

    changes, told = FileChanges(), Told()
    async with anyio.create_task_group() as group:
        for app, file in zip(apps, files, strict=True):
            changes.tell(app, told.changed, beside(group))
            await told.of(file, write)
        told.paths.clear()
        await told.of(files[1], write)
        assert files[0] not in told.paths
        group.cancel_scope.cancel()


@pytest.mark.anyio
async def test_a_look_ends_with_its_waiter() -> None:
    said, ended = threading.Event(), list[str]()

    def work(progress: Progress) -> None:
        try:
            for done in range(2_000):
                said.set()
                progress(done, 2_000)
                time.sleep(0.01)
            ended.append("by itself")
        except Exception:
            ended.append("as nobody waits")
            raise

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(looking, work)
            await to_thread.run_sync(said.wait)
            group.cancel_scope.cancel()
    assert ended == ["as nobody waits"]


@pytest.mark.anyio
async def test_a_look_is_told_of_and_fails_as_it_is() -> None:
    told: list[tuple[int, int]] = []

    def work(progress: Progress) -> str:
        progress(1, 2)
        return "found"

    def failing(_: Progress) -> None:
        raise OSError("busy")

    assert await looking(work, lambda *numbers: told.append(numbers)) == "found"
    assert told == [(1, 2)]
    with pytest.raises(OSError, match="busy"):
        await looking(failing)


@pytest.mark.anyio
async def test_where_nothing_can_be_watched_the_log_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(*_: object) -> None:
        raise OSError("no watches are left")  # as the watcher says it, without a number

    monkeypatch.setattr(watchfiles.main, "RustNotify", refused)
    journal = Journal()
    async with anyio.create_task_group() as group:
        freshness = FileChanges().freshness_of(app_with(Space(SpaceName.PROJECT, tmp_path)), beside(group))
    assert [record.__dict__["rye_facts"]["reason"] for record in caplog.records] == ["no watches are left"]
    for _ in range(2):
        freshness.bring_up_to_date(journal)
    assert journal.looks == ["everything"] * 2


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
