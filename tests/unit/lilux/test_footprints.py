"""What was found out from files is found out again as soon as anything that was looked at has changed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lilux import _footprints
from lilux._footprints import MAX_KEPT, MAX_PATHS, Footprint, Remembered, note, note_file, unnoted


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes are told apart at once, as on a file system that counts in nanoseconds."""
    monkeypatch.setattr(_footprints, "SETTLED_NS", -(10**12))


def listing(*paths: Path) -> Callable[[], list[bytes | None]]:
    """Work that reads these files, and a list that is another one each time that it is done."""

    def work() -> list[bytes | None]:
        for path in paths:
            note(lambda path=path: path)  # type: ignore[misc]
        return [path.read_bytes() if path.is_file() else None for path in paths]

    return work


def _exchange_by_link(path: Path) -> None:
    path.rename(path.with_name("other"))
    path.symlink_to("other")


def _exchange_directory(path: Path) -> None:
    path.parent.rename(path.parent.with_name("moved"))
    path.parent.mkdir()
    path.write_bytes(b"before")


CHANGES: dict[str, Callable[[Path], object]] = {
    "written": lambda path: path.write_bytes(b"longer than before"),
    "gone": lambda path: path.unlink(),
    "of another mode": lambda path: path.chmod(0o600),
    "a link": _exchange_by_link,
    "in an exchanged directory": _exchange_directory,
}


@pytest.mark.parametrize("change", CHANGES)
def test_it_is_done_again_when_a_file_is_changed(tmp_path: Path, change: str) -> None:
    path = tmp_path / "directory/file"
    path.parent.mkdir()
    path.write_bytes(b"before")
    remembered: Remembered[list[bytes | None]] = Remembered()
    first = remembered.value("a", listing(path))
    assert remembered.value("a", listing(path)) is first
    CHANGES[change](path)
    again = remembered.value("a", listing(path))
    assert again is not first
    assert remembered.value("a", listing(path)) is again


def test_a_file_that_comes_to_a_place_that_was_looked_at_counts(tmp_path: Path) -> None:
    remembered: Remembered[list[bytes | None]] = Remembered()
    missing = tmp_path / "missing"
    assert remembered.value("a", listing(missing)) == [None]
    missing.write_bytes(b"there")
    assert remembered.value("a", listing(missing)) == [b"there"]


def test_a_change_that_its_stamp_may_not_show_is_not_relied_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_footprints, "SETTLED_NS", 3600 * 10**9)
    path = tmp_path / "file"
    path.write_bytes(b"new")
    remembered: Remembered[list[bytes | None]] = Remembered()
    assert remembered.value("a", listing(path)) is not remembered.value("a", listing(path))


def test_what_changes_while_it_is_read_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"before")
    remembered: Remembered[bytes] = Remembered()

    def work() -> bytes:
        note(lambda: path)
        found = path.read_bytes()
        path.write_bytes(b"after that")
        return found

    assert remembered.value("a", work) == b"before"
    assert remembered.value("a", path.read_bytes) == b"after that"


def test_other_work_that_uses_it_has_its_footprint_too(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"before")
    inner: Remembered[list[bytes | None]] = Remembered()
    outer: Remembered[list[bytes | None]] = Remembered()
    for _ in range(2):  # at first the inner work is done, then it is remembered
        outer.value(object(), lambda: inner.value("a", listing(path)))
    first = outer.value("b", lambda: inner.value("a", listing(path)))
    path.write_bytes(b"after that")
    assert outer.value("b", lambda: inner.value("a", listing(path))) is not first


def test_an_error_is_not_remembered(tmp_path: Path) -> None:
    remembered: Remembered[list[bytes | None]] = Remembered()

    def work() -> list[bytes | None]:
        raise OSError

    with pytest.raises(OSError):  # noqa: PT011 - the one above
        remembered.value("a", work)
    assert remembered.value("a", listing()) == []


def test_keys_and_paths_have_limits(tmp_path: Path) -> None:
    remembered: Remembered[list[bytes | None]] = Remembered()
    paths = [tmp_path / str(number) for number in range(MAX_PATHS + 1)]
    assert remembered.value("a", listing(*paths)) is not remembered.value("a", listing(*paths))
    assert remembered.value("a", listing(*paths[1:])) is remembered.value("a", listing(*paths[1:]))
    for key in range(MAX_KEPT + 1):
        remembered.value(key, listing())
    assert len(remembered._kept) <= MAX_KEPT


def test_nobody_makes_a_path_where_no_footprint_is_kept(tmp_path: Path) -> None:
    made: list[Path] = []

    def path() -> Path:
        made.append(tmp_path)
        return tmp_path

    note(path)
    assert not made
    Remembered[None]().value("a", lambda: note(path))
    assert made == [tmp_path]


def test_a_footprint_tells_its_paths(tmp_path: Path) -> None:
    footprint = Footprint()
    footprint.add(os.fspath(tmp_path))
    assert footprint.paths == {str(tmp_path)}


def test_of_a_directory_on_the_way_counts_which_and_whose_it_is_and_not_what_is_in_it(tmp_path: Path) -> None:
    path = tmp_path / "directory/file"
    path.parent.mkdir()
    path.write_bytes(b"before")
    remembered: Remembered[object] = Remembered()

    def looked() -> object:
        note_file(str(path), [str(path.parent)])
        return object()

    def found() -> object:
        return remembered.value("a", looked)

    first = found()
    path.with_name("other").write_bytes(b"")
    assert found() is first
    path.parent.chmod(0o777)
    assert found() is not first


def test_a_directory_that_was_listed_counts_whole_although_it_is_on_the_way_too(tmp_path: Path) -> None:
    path, way = tmp_path / "file", [str(tmp_path)]
    for order in ((0, 1), (1, 0)):
        looks = [lambda: note(lambda: tmp_path), lambda: note_file(str(path), way)]
        remembered: Remembered[object] = Remembered()
        inner: Remembered[None] = Remembered()

        def found() -> object:
            for number in order:  # noqa: B023 - called in this round only
                inner.value(number, looks[number])  # noqa: B023
            return object()

        first = remembered.value("a", found)
        (tmp_path / f"other{order[0]}").write_bytes(b"")
        assert remembered.value("a", found) is not first


def test_what_is_looked_at_in_an_unnoted_block_is_in_no_footprint(tmp_path: Path) -> None:
    footprints = list[Footprint]()

    def work() -> None:
        note(lambda: tmp_path)
        with unnoted():
            note(lambda: tmp_path / "file")

    remembered: Remembered[None] = Remembered()
    remembered.value("a", work)
    footprints.append(remembered._kept["a"][0])
    assert footprints[0].paths == {str(tmp_path)}


def test_what_is_not_worth_it_is_not_kept_and_no_more_than_the_most() -> None:
    remembered: Remembered[list[int]] = Remembered(most=2, worth=bool)
    for key in range(3):
        remembered.value(key, lambda: [1])
        remembered.value(f"empty {key}", list)
    assert [*remembered._kept] == [2]
