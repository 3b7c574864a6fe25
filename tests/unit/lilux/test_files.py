"""Files are written whole and read within a limit."""

from __future__ import annotations

import errno
import os
import socket
import threading
import time
from pathlib import Path

import pytest

from lilux import _files
from tests.file_helpers import UMASKS, mode_of, names_in, run_at_once, run_python, umask

MODES = [0o600, 0o644, 0o400]

PATHS = (
    "file",
    "link",
    "link_to_link",
    "linked/file",
    "linked/../file",
    "missing",
    "broken",
    "linked/missing",
    "loop",
    "",
)
"""Below a directory with all of these; the first one is the directory itself."""


@pytest.mark.parametrize("relative", PATHS)
def test_a_real_path_is_what_the_standard_library_says(
    tmp_path: Path, relative: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "directory").mkdir()
    for place in ("file", "directory/file"):
        (tmp_path / place).touch()
    links = {
        "link": "file",
        "link_to_link": "link",
        "linked": "directory",
        "broken": "nothing",
        "loop": "loop",
    }
    for name, target in links.items():
        (tmp_path / name).symlink_to(target)
    path = str(tmp_path / relative)
    assert _files.real_path(path) == os.path.realpath(path)
    monkeypatch.chdir(tmp_path)
    assert _files.real_path(relative or ".") == os.path.realpath(relative or ".")


@pytest.mark.parametrize("mask", UMASKS, ids=oct)
@pytest.mark.parametrize("mode", MODES, ids=oct)
def test_a_file_gets_exactly_its_mode_whatever_the_umask(tmp_path: Path, mask: int, mode: int) -> None:
    path = tmp_path / "file"
    with umask(mask):
        _files.write_whole(path, b"content", mode=mode)
    assert mode_of(path) == mode
    assert names_in(tmp_path) == ["file"]


@pytest.mark.parametrize("mask", UMASKS, ids=oct)
def test_a_file_is_never_looser_than_its_mode_at_any_line_of_the_way(tmp_path: Path, mask: int) -> None:
    """A tracer looks at every file of the directory after each line, with the loosest umask and others."""
    script = """
        import os, stat, sys
        from lilux import _files
        directory, seen = sys.argv[1], set()

        def look(frame, event, argument):
            for entry in os.scandir(directory):
                seen.add(stat.S_IMODE(entry.stat(follow_symlinks=False).st_mode))
            return look

        os.umask(int(sys.argv[2]))
        sys.settrace(look)
        for replace in (True, False):
            _files.write_whole(f"{directory}/{replace}", b"secret", mode=0o600, replace=replace)
        sys.settrace(None)
        print(*seen)
    """
    seen = {int(mode) for mode in run_python(script, tmp_path, mask).split()}
    assert 0o600 in seen
    assert all(mode & ~0o600 == 0 for mode in seen)


def test_a_file_is_replaced_as_a_whole_and_gets_the_new_mode(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"a much longer old content")
    path.chmod(0o666)
    _files.write_whole(path, b"new", mode=0o644)
    assert (path.read_bytes(), mode_of(path)) == (b"new", 0o644)


def test_a_file_that_must_not_be_replaced_stays(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(FileExistsError) as caught:
        _files.write_whole(path, b"new", mode=0o600, replace=False)
    assert caught.value.filename == str(path)
    assert path.read_bytes() == b"old"
    assert names_in(tmp_path) == ["file"]


def test_a_symlink_is_replaced_and_never_written_through(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"untouched")
    link.symlink_to(target)
    _files.write_whole(link, b"new", mode=0o644)
    assert target.read_bytes() == b"untouched"
    assert not link.is_symlink()
    assert link.read_bytes() == b"new"


def test_no_parent_directory_is_made(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        _files.write_whole(tmp_path / "missing" / "file", b"", mode=0o644)
    assert caught.value.filename == str(tmp_path / "missing")


def test_a_directory_in_the_way_is_an_error_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.mkdir()
    with pytest.raises(IsADirectoryError) as caught:
        _files.write_whole(path, b"", mode=0o644)
    assert caught.value.filename == str(path)
    assert names_in(tmp_path) == ["file"]


@pytest.mark.parametrize("durable", [True, False])
def test_on_a_full_disk_the_old_file_stays_whole_and_nothing_else_is_left(
    tmp_path: Path, durable: bool
) -> None:
    """The limit on file sizes ends a write half-way, as a full disk does."""
    path = tmp_path / "file"
    path.write_bytes(b"old")
    script = """
        import resource, sys
        from lilux import _files
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        try:
            _files.write_whole(sys.argv[1], b"n" * 200_000, mode=0o644, durable=sys.argv[2] == "True")
        except OSError as exc:
            print(exc.errno, exc.filename)
    """
    assert run_python(script, path, durable).split() == [str(errno.EFBIG), str(path)]
    assert path.read_bytes() == b"old"
    assert names_in(tmp_path) == ["file"]


def test_writers_at_once_leave_one_whole_file_and_readers_never_see_less(tmp_path: Path) -> None:
    path = tmp_path / "file"
    contents = {letter * 100_000 for letter in "abcd"}
    path.write_text(min(contents))
    script = """
        from lilux import _files
        path, letter = sys.argv[1:]
        for _ in range(30):
            _files.write_whole(path, letter.encode() * 100_000, mode=0o644, durable=False)
            print(open(path).read()[:100_001:12_500])
    """
    seen = run_at_once(script, [(path, letter) for letter in "abcd"])
    assert {line for each in seen for line in each.splitlines()} <= {letter * 8 for letter in "abcd"}
    assert path.read_text() in contents
    assert names_in(tmp_path) == ["file"]


@pytest.mark.parametrize("size", [0, 1, 9, 10])
def test_up_to_the_limit_everything_is_read(tmp_path: Path, size: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * size)
    assert _files.read_capped(path, 10) == b"x" * size


def test_above_the_limit_nothing_is_read_to_the_end(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(OSError, match="at most 10 bytes") as caught:
        _files.read_capped(path, 10)
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, str(path))


def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    pipe, endpoint = tmp_path / "pipe", tmp_path / "socket"
    os.mkfifo(pipe)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(endpoint))
        for path in (pipe, endpoint, Path("/dev/zero"), tmp_path):
            with pytest.raises(OSError) as caught:  # noqa: PT011 - the kind differs, the file is named
                _files.read_capped(path, 10)
            assert caught.value.filename == str(path)


def test_a_symlink_that_a_user_names_is_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"content")
    (tmp_path / "link").symlink_to("target")
    assert _files.read_capped(tmp_path / "link", 10) == b"content"


@pytest.mark.parametrize("mask", UMASKS, ids=oct)
def test_a_directory_gets_exactly_its_mode(tmp_path: Path, mask: int) -> None:
    path = tmp_path / "directory"
    with umask(mask):
        _files.make_directory(path, mode=0o700)
    assert mode_of(path) == 0o700


def test_a_directory_that_exists_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "parents" / "are" / "made"
    _files.make_directory(path, mode=0o700)
    path.chmod(0o750)
    _files.make_directory(path, mode=0o700)
    assert mode_of(path) == 0o750


def test_a_lock_keeps_others_out_until_it_is_given_back(tmp_path: Path) -> None:
    order: list[str] = []

    def wait_for_it() -> None:
        with _files.open_directory(tmp_path) as directory, _files.lock(directory):
            order.append("second")

    waiter = threading.Thread(target=wait_for_it)
    with _files.open_directory(tmp_path) as directory, _files.lock(directory):
        waiter.start()
        waiter.join(0.1)
        order.append("first")
    waiter.join()
    assert order == ["first", "second"]


def test_a_lock_that_somebody_keeps_is_an_error_in_time(tmp_path: Path) -> None:
    with _files.open_directory(tmp_path) as mine, _files.open_directory(tmp_path) as theirs:
        with _files.lock(theirs, shared=True), _files.lock(mine, shared=True):
            pass
        started = time.monotonic()
        with (
            _files.lock(theirs, shared=True),
            pytest.raises(TimeoutError),
            _files.lock(mine, timeout_s=0.05),
        ):
            pass
        assert time.monotonic() - started < 5
        with _files.lock(mine):
            pass


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    before = names_in(Path("/proc/self/fd"))
    path = tmp_path / "file"
    for _ in range(3):
        _files.write_whole(path, b"1234", mode=0o644)
        with pytest.raises(FileExistsError):
            _files.write_whole(path, b"", mode=0o600, replace=False)
        _files.read_capped(path, 4)
        with pytest.raises(OSError, match="at most"):
            _files.read_capped(path, 3)
    assert names_in(Path("/proc/self/fd")) == before
