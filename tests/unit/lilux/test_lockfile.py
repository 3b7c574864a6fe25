"""Lockfiles are read and written at explicit paths, whole or not at all."""

from __future__ import annotations

import errno
import inspect
import json
import os
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lilux.primitives import lockfile as module
from lilux.primitives.errors import LockfileError, ToolExecutionError
from lilux.primitives.lockfile import (
    LOCKFILE_VERSION,
    MAX_LOCKFILE_BYTES,
    Lockfile,
    LockfileManager,
    LockfileRoot,
)
from tests.file_helpers import UMASKS, mode_of, names_in, run_at_once, run_python, umask

# The format as specification 001 shows it.
MAX_DEPTH = 200
"""How many lists and objects may stand inside each other."""

SPECIFIED = """{
  "lockfile_version": 1,
  "generated_at": "2026-01-30T12:00:00Z",
  "root": {
    "tool_id": "my_tool",
    "version": "1.0.0",
    "integrity": "abc123def456..."
  },
  "resolved_chain": [
    {
      "tool_id": "subprocess",
      "version": "1.0.0",
      "integrity": "def789ghi012...",
      "executor": "subprocess"
    }
  ],
  "registry": {
    "url": "https://registry.example.com",
    "fetched_at": "2026-01-30T12:00:00Z"
  }
}
"""

ROOT = {"tool_id": "t", "version": "1", "integrity": "i"}
DOCUMENT: dict[str, Any] = {
    "lockfile_version": 1,
    "generated_at": "2026-01-30T12:00:00Z",
    "root": ROOT,
    "resolved_chain": [],
}

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
OBJECT = st.dictionaries(st.text(), JSON, max_size=4)
EXTRA = OBJECT.map(lambda found: {f"x-{name}": value for name, value in found.items()})
LOCKFILES = st.builds(
    Lockfile,
    lockfile_version=st.just(LOCKFILE_VERSION),
    generated_at=st.text(),
    root=st.builds(LockfileRoot, tool_id=st.text(), version=st.text(), integrity=st.text(), extra=EXTRA),
    resolved_chain=st.lists(JSON, max_size=4),
    registry=st.none() | OBJECT,
    verified_deps=st.none() | OBJECT,
    extra=EXTRA,
)

manager = LockfileManager()


def make(**fields: Any) -> Lockfile:
    """A small lockfile."""
    values: dict[str, Any] = {
        "lockfile_version": 1,
        "generated_at": "2026-01-30T12:00:00Z",
        "root": LockfileRoot(tool_id="test", version="1.0.0", integrity="abc123"),
        "resolved_chain": [],
    }
    return Lockfile(**values | fields)


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth - 1):
        value = [value]
    return value


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "test@1.0.0.lock.json"


def refused(path: Path, content: bytes | str) -> str:
    """The message for a file that is no lockfile."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(LockfileError) as caught:
        manager.load(path)
    assert caught.value.path == path
    assert str(path) in str(caught.value)
    return str(caught.value).replace(str(path), "PATH")


def test_the_public_names_are_those_listed() -> None:
    public = {
        name
        for name, item in vars(module).items()
        if not name.startswith("_") and getattr(item, "__module__", module.__name__) == module.__name__
        if not inspect.ismodule(item) and name != "annotations"
    }
    assert public == set(module.__all__)


# --- what specification 001 shows -----------------------------------------------


def test_save_and_load(tmp_path: Path) -> None:
    lockfile = Lockfile(
        lockfile_version=1,
        generated_at="2026-01-30T12:00:00Z",
        root=LockfileRoot(tool_id="test", version="1.0.0", integrity="abc123"),
        resolved_chain=[],
    )
    path = tmp_path / "test@1.0.0.lock.json"
    manager.save(lockfile, path)
    loaded = manager.load(path)
    assert loaded.root.tool_id == "test"
    assert loaded.root.version == "1.0.0"
    assert loaded == lockfile


def test_load_nonexistent() -> None:
    with pytest.raises(FileNotFoundError):
        manager.load(Path("/nonexistent/path.lock.json"))


def test_the_format_of_the_specification_is_read_and_written_to_the_byte(path: Path) -> None:
    path.write_text(SPECIFIED)
    lockfile = manager.load(path)
    assert lockfile == Lockfile(
        1,
        "2026-01-30T12:00:00Z",
        LockfileRoot("my_tool", "1.0.0", "abc123def456..."),
        [
            {
                "tool_id": "subprocess",
                "version": "1.0.0",
                "integrity": "def789ghi012...",
                "executor": "subprocess",
            }
        ],
        {"url": "https://registry.example.com", "fetched_at": "2026-01-30T12:00:00Z"},
    )
    manager.save(lockfile, path)
    assert path.read_text() == SPECIFIED


def test_the_orchestrator_loads_and_saves_as_the_specification_shows(path: Path) -> None:
    assert not manager.exists(path)
    lockfile = make(resolved_chain=[{"tool_id": "subprocess", "version": "1.0.0", "integrity": "..."}])
    saved_path = manager.save(lockfile, path)
    assert manager.exists(path)
    assert len(manager.load(saved_path).resolved_chain) == 1


def test_a_malformed_lockfile_is_told_from_a_missing_one(path: Path) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        manager.load(path)
    assert not isinstance(missing.value, ValueError)
    assert missing.value.filename == str(path)
    path.write_text("{}")
    with pytest.raises(LockfileError) as malformed:
        manager.load(path)
    assert isinstance(malformed.value, ValueError)
    assert isinstance(malformed.value, ToolExecutionError)


def test_load_only_takes_an_explicit_path() -> None:
    assert list(inspect.signature(manager.load).parameters) == ["path"]
    with pytest.raises(TypeError):
        manager.load(tool_id="tool", version="1.0.0")  # type: ignore[call-arg]


def test_save_returns_the_path_where_the_lockfile_was_saved(path: Path) -> None:
    assert manager.save(make(), path) == path


def test_exists_says_whether_a_lockfile_is_at_the_path(path: Path) -> None:
    assert manager.exists(path) is False
    path.write_text("anything")
    assert manager.exists(path) is True
    assert manager.exists(path / "below") is False


def test_save_does_not_create_parent_directories(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        manager.save(make(), tmp_path / "a" / "b" / "x.lock.json")
    assert caught.value.filename == str(tmp_path / "a" / "b")
    assert names_in(tmp_path) == []


def test_a_parent_that_is_a_file_is_a_directory_that_does_not_exist(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileNotFoundError):
        manager.save(make(), tmp_path / "file" / "x.lock.json")
    with pytest.raises(FileNotFoundError) as caught:
        manager.load(tmp_path / "file" / "x.lock.json")
    assert caught.value.filename == str(tmp_path / "file" / "x.lock.json")


def test_no_configuration_is_read_and_no_environment_looked_at(path: Path) -> None:
    """Every file that is opened is the lockfile, its temporary twin, or their directory."""
    script = """
        from lilux.primitives.lockfile import Lockfile, LockfileManager, LockfileRoot
        import os, sys
        opened = []
        sys.addaudithook(lambda event, given: opened.append(given[0]) if event == "open" else None)
        os.environ = os.environb = None
        path = sys.argv[1]
        LockfileManager().save(Lockfile(1, "", LockfileRoot("", "", ""), []), path)
        LockfileManager().load(path)
        print(*[os.fspath(name) for name in opened if not isinstance(name, int)], sep="\\n")
    """
    names = run_python(script, path).splitlines()
    twins = [name for name in names if name.startswith(".lilux-")]
    assert len(twins) == 1
    assert set(names) == {str(path), str(path.parent), *twins}


def test_lilux_does_input_and_output_only_and_judges_no_pin(path: Path) -> None:
    """Versions, times and hashes that mean nothing are the orchestrator's to refuse."""
    lockfile = make(
        generated_at="yesterday",
        root=LockfileRoot(tool_id="", version="latest", integrity="none"),
        resolved_chain=[{"tool_id": "a", "integrity": "none"}, {}],
        verified_deps={"../../etc/passwd": "none"},
    )
    manager.save(lockfile, path)
    assert manager.load(path) == lockfile


# --- what specification 000 adds ------------------------------------------------


def test_a_lockfile_has_the_specified_fields_in_the_specified_order() -> None:
    assert [*inspect.signature(Lockfile).parameters][:6] == [
        "lockfile_version",
        "generated_at",
        "root",
        "resolved_chain",
        "registry",
        "verified_deps",
    ]
    assert [*inspect.signature(LockfileRoot).parameters][:3] == ["tool_id", "version", "integrity"]
    lockfile = Lockfile(1, "now", LockfileRoot("t", "1", "i"), [])
    assert (lockfile.registry, lockfile.verified_deps) == (None, None)


def test_a_lockfile_is_saved_as_indented_json(path: Path) -> None:
    manager.save(make(), path)
    assert path.read_text().startswith('{\n  "lockfile_version": 1,\n')
    assert path.read_text().endswith("\n}\n")


def test_dependency_verification_hashes_are_kept(path: Path) -> None:
    lockfile = make(verified_deps={"lib/é.py": "00ff", "lib/a.py": "11ee"})
    manager.save(lockfile, path)
    assert manager.load(path) == lockfile
    assert [*(manager.load(path).verified_deps or {})] == ["lib/é.py", "lib/a.py"]


def test_what_is_optional_may_be_missing_or_null(path: Path) -> None:
    path.write_text(json.dumps(DOCUMENT | {"registry": None, "verified_deps": None}))
    assert manager.load(path).registry is None
    manager.save(manager.load(path), path)
    assert json.loads(path.read_text()) == DOCUMENT


@pytest.mark.parametrize("name", ["lockfile_version", "generated_at", "root", "resolved_chain"])
def test_a_required_field_that_is_missing_is_named(path: Path, name: str) -> None:
    document = {key: value for key, value in DOCUMENT.items() if key != name}
    assert f"{name}: expected" in refused(path, json.dumps(document))
    assert "found nothing" in refused(path, json.dumps(document))


@pytest.mark.parametrize("name", ["tool_id", "version", "integrity"])
def test_a_field_that_is_missing_in_the_root_is_named(path: Path, name: str) -> None:
    root = {key: value for key, value in ROOT.items() if key != name}
    message = refused(path, json.dumps(DOCUMENT | {"root": root}))
    assert message == f"malformed lockfile PATH: root.{name}: expected a string, found nothing"


@pytest.mark.parametrize(
    ("change", "issue"),
    [
        ({"lockfile_version": "1"}, "lockfile_version: expected an integer, found a string"),
        ({"lockfile_version": True}, "lockfile_version: expected an integer, found a boolean"),
        ({"lockfile_version": 1.0}, "lockfile_version: expected an integer, found a number"),
        ({"lockfile_version": None}, "lockfile_version: expected an integer, found null"),
        ({"lockfile_version": 0}, "lockfile_version: expected 1, found 0"),
        ({"lockfile_version": -1}, "lockfile_version: expected 1, found -1"),
        ({"generated_at": 5}, "generated_at: expected a string, found an integer"),
        ({"root": []}, "root: expected an object, found a list"),
        ({"root": ROOT | {"integrity": None}}, "root.integrity: expected a string, found null"),
        ({"resolved_chain": {}}, "resolved_chain: expected a list, found an object"),
        ({"resolved_chain": None}, "resolved_chain: expected a list, found null"),
        ({"registry": "x"}, "registry: expected an object, found a string"),
        ({"registry": False}, "registry: expected an object, found a boolean"),
        ({"verified_deps": []}, "verified_deps: expected an object, found a list"),
    ],
)
def test_a_field_of_another_type_is_refused_on_load_and_on_save(
    path: Path, change: dict[str, Any], issue: str
) -> None:
    assert refused(path, json.dumps(DOCUMENT | change)) == f"malformed lockfile PATH: {issue}"


@pytest.mark.parametrize("text", ["[]", "null", "1", '"x"', "true"])
def test_json_that_is_no_object_is_refused(path: Path, text: str) -> None:
    assert "expected an object, found" in refused(path, text)


def test_everything_that_is_wrong_is_listed_and_not_only_the_first(path: Path) -> None:
    message = refused(path, json.dumps({"lockfile_version": "1", "root": {"version": 1}, "registry": 1}))
    for name in ["lockfile_version", "generated_at", "resolved_chain", "root.tool_id", "root.version"]:
        assert f" {name}: expected" in message
    assert " root.integrity: expected" in message
    assert " registry: expected" in message


def test_a_newer_format_is_refused_and_called_so(path: Path) -> None:
    """What else is in there may mean anything, so nothing else is reported."""
    message = refused(path, json.dumps({"lockfile_version": 2, "root": "of another form"}))
    assert "expected 1, found the newer 2" in message
    assert "root" not in message
    with pytest.raises(LockfileError, match="newer 2"):
        manager.save(make(lockfile_version=2), path)


# --- what stays as it is --------------------------------------------------------


def test_unknown_fields_are_kept_at_the_top_in_the_root_and_in_entries(path: Path) -> None:
    document = {
        **DOCUMENT,
        "root": ROOT | {"signer": {"kind": "person"}},
        "resolved_chain": [{"item_id": "a", "later": [1, None]}],
        "registry": {"package": "p", "later": 1},
        "verified_deps": {"a.py": "00", "later": {"x": 1.5}},
        "later": {"deep": [True]},
        "another": None,
    }
    path.write_text(json.dumps(document))
    lockfile = manager.load(path)
    assert lockfile.extra == {"later": {"deep": [True]}, "another": None}
    assert lockfile.root.extra == {"signer": {"kind": "person"}}
    manager.save(lockfile, path)
    assert json.loads(path.read_text()) == document
    assert manager.load(path) == lockfile


@pytest.mark.parametrize(
    "element", [{"item_id": "a"}, {"tool_id": "a"}, "text", 5, None, [1, [2]], 1.5, True]
)
def test_an_element_of_the_chain_may_be_any_json(path: Path, element: Any) -> None:
    manager.save(make(resolved_chain=[element, element]), path)
    assert manager.load(path).resolved_chain == [element, element]


def test_a_field_that_is_known_cannot_be_hidden_by_an_unknown_one(path: Path) -> None:
    root = LockfileRoot("t", "1", "i", extra={"integrity": "another"})
    with pytest.raises(LockfileError) as caught:
        manager.save(make(root=root, extra={"registry": {}, "root": ROOT}), path)
    message = str(caught.value)
    assert "root.extra: expected fields that are not known, found integrity" in message
    assert " extra: expected fields that are not known, found registry" in message
    assert " extra: expected fields that are not known, found root" in message
    assert not path.exists()


def test_the_same_lockfile_always_has_the_same_bytes_with_the_known_fields_first(path: Path) -> None:
    document = {"zz": 1, "resolved_chain": [], "aa": 2, "root": {"x": 1, **ROOT}, "verified_deps": {}}
    path.write_text(json.dumps({**document, "registry": {}, "generated_at": "", "lockfile_version": 1}))
    manager.save(manager.load(path), path)
    first = path.read_bytes()
    keys = [
        "lockfile_version",
        "generated_at",
        "root",
        "resolved_chain",
        "registry",
        "verified_deps",
        "zz",
        "aa",
    ]
    assert [*json.loads(first)] == keys
    assert [*json.loads(first)["root"]] == ["tool_id", "version", "integrity", "x"]
    manager.save(manager.load(path), path)
    assert path.read_bytes() == first


@given(lockfile=LOCKFILES)
def test_what_is_saved_is_what_is_loaded(lockfile: Lockfile) -> None:
    data = lockfile.to_bytes()
    assert Lockfile.from_bytes(data) == lockfile
    assert Lockfile.from_bytes(data).to_bytes() == data
    assert data.isascii()


@given(data=st.binary() | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_a_lockfile_or_a_lockfile_error(data: bytes) -> None:
    try:
        lockfile = Lockfile.from_bytes(data)
    except LockfileError:
        return
    assert Lockfile.from_bytes(lockfile.to_bytes()) == lockfile


@given(cut=st.integers(min_value=0, max_value=len(SPECIFIED) - 3), junk=st.binary(max_size=3))
def test_no_beginning_of_a_lockfile_passes_for_one(cut: int, junk: bytes) -> None:
    with pytest.raises(LockfileError):
        Lockfile.from_bytes(SPECIFIED.encode()[:cut] + junk.replace(b"}", b""))


# --- bad input ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "issue"),
    [
        (b"", "line 1, column 1: expected JSON"),
        (b"\0" * 4096, "line 1, column 1: expected JSON"),
        (SPECIFIED.encode()[:200], "expected JSON"),
        (SPECIFIED.encode() + b"{}", "line 22, column 1: expected JSON: Extra data"),
        (b"{'lockfile_version': 1}", "line 1, column 2: expected JSON"),
        (b"\xef\xbb\xbf{}", "byte 0: expected JSON, found a byte order mark"),
        ("{}".encode("utf-16"), "byte 0: expected UTF-8, found 0xff"),
        ("{}".encode("utf-32-be"), "line 1, column 1: expected JSON"),
        (b'{"a": "\xe9"}', "byte 7: expected UTF-8, found 0xe9"),
        (b'{"a": NaN}', "expected a finite number, found NaN"),
        (b'{"a": [-Infinity]}', "expected a finite number, found -Infinity"),
        (b'{"a": 1e999}', "expected a number in the range of float, found 1e999"),
        (b'{"a": ' + b"1" * 5000 + b"}", "expected a number that can be read"),
        (b'{"a": 1, "b": {"c": 1, "c": 2}, "a": 3}', 'expected each key once in an object, found "c" again'),
        (b'{"a": 1, "b": {"c": 1, "c": 2}, "a": 3}', 'expected each key once in an object, found "a" again'),
        (b"[" * 100_000, "expected at most 200 lists and objects inside each other"),
        (b'{"a":' * 100_000, "expected at most 200 lists and objects inside each other"),
        (b"[" * 300 + b"]" * 300, "expected at most 200 lists and objects inside each other"),
    ],
    ids=lambda value: repr(value[:30]),
)
def test_what_is_no_json_is_refused_with_its_place(path: Path, content: bytes, issue: str) -> None:
    assert issue in refused(path, content)


def test_a_duplicate_key_cannot_hide_another_pin(path: Path) -> None:
    text = json.dumps(DOCUMENT)[:-1] + ', "root": {"tool_id": "t", "version": "1", "integrity": "other"}}'
    assert 'found "root" again' in refused(path, text)


def test_a_lockfile_that_is_a_directory_is_refused_on_load_and_on_save(path: Path) -> None:
    path.mkdir()
    with pytest.raises(LockfileError, match="expected a regular file, found a directory") as caught:
        manager.load(path)
    assert caught.value.path == path
    with pytest.raises(LockfileError, match="found a directory") as caught:
        manager.save(make(), path)
    assert caught.value.path == path
    assert names_in(path.parent) == [path.name]


def test_a_lockfile_that_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        for path in (tmp_path / "pipe", tmp_path / "socket", Path("/dev/zero")):
            with pytest.raises(LockfileError):
                manager.load(path)


def test_a_lockfile_of_100_mb_is_refused_within_time_and_memory(path: Path) -> None:
    with path.open("wb") as file:
        file.write(b'{"a": "')
        file.truncate(100_000_000)
    script = """
        import resource, sys
        from lilux.primitives.lockfile import LockfileManager
        from lilux.primitives.errors import LockfileError
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            LockfileManager().load(sys.argv[1])
        except LockfileError as exc:
            print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, exc)
    """
    started = time.monotonic()
    kilobytes, message = run_python(script, path).split(maxsplit=1)
    assert time.monotonic() - started < 10
    assert int(kilobytes) < 3 * MAX_LOCKFILE_BYTES / 1024
    assert f"expected at most {MAX_LOCKFILE_BYTES} bytes, found more" in message


def test_a_lockfile_of_the_largest_size_is_read_and_one_byte_more_is_not(path: Path) -> None:
    text = json.dumps(DOCUMENT | {"x": ""})
    filler = "x" * (MAX_LOCKFILE_BYTES - len(text))
    path.write_text(json.dumps(DOCUMENT | {"x": filler}))
    assert path.stat().st_size == MAX_LOCKFILE_BYTES
    assert manager.load(path).extra == {"x": filler}
    with path.open("a") as file:
        file.write(" ")
    with pytest.raises(LockfileError, match="found more"):
        manager.load(path)


def test_a_file_that_may_not_be_read_stays_a_permission_error(path: Path) -> None:
    manager.save(make(), path)
    path.chmod(0)
    path.parent.chmod(0o755)
    script = """
        import os, sys
        from lilux.primitives.lockfile import LockfileManager
        os.chdir(sys.argv[1])
        if os.geteuid() == 0:
            os.setresuid(65534, 65534, 65534)
        try:
            LockfileManager().load(sys.argv[2])
        except PermissionError as exc:
            print(exc.filename)
    """
    assert run_python(script, path.parent, path.name) == f"{path.name}\n"


@pytest.mark.parametrize(
    ("fields", "issue"),
    [
        ({"lockfile_version": "1"}, "lockfile_version: expected an integer, found a string"),
        ({"lockfile_version": True}, "lockfile_version: expected an integer, found a boolean"),
        ({"generated_at": None}, "generated_at: expected a string, found null"),
        ({"root": None}, "root: expected an object, found null"),
        ({"root": LockfileRoot("t", "1", None)}, "root.integrity: expected a string, found null"),  # type: ignore[arg-type]
        ({"resolved_chain": "x"}, "resolved_chain: expected a list, found a string"),
        ({"registry": "x"}, "registry: expected an object, found a string"),
        (
            {"resolved_chain": [{"a": float("nan")}]},
            "$.resolved_chain[0].a: expected a finite number, found nan",
        ),
        ({"resolved_chain": [{1: 2}]}, "$.resolved_chain[0]: expected strings as keys, found 1 (int)"),
        ({"verified_deps": {"a": b"x"}}, "$.verified_deps.a: expected a JSON value, found bytes"),
        ({"resolved_chain": [nested(MAX_DEPTH)]}, "expected at most 200 lists and objects inside each other"),
        ({"extra": {"a": nested(5_000)}}, "expected at most 200 lists and objects inside each other"),
        ({"extra": {"a": "x" * MAX_LOCKFILE_BYTES}}, f"expected at most {MAX_LOCKFILE_BYTES} bytes, found"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else next(iter(value)),
)
def test_save_refuses_what_load_would_refuse_and_leaves_the_old_file(
    path: Path, fields: dict[str, Any], issue: str
) -> None:
    path.write_text(SPECIFIED)
    with pytest.raises(LockfileError) as caught:
        manager.save(make(**fields), path)
    assert issue in str(caught.value)
    assert str(path) in str(caught.value)
    assert caught.value.path == path
    assert path.read_text() == SPECIFIED
    assert names_in(path.parent) == [path.name]


def test_the_deepest_content_that_is_saved_can_be_loaded(path: Path) -> None:
    lockfile = make(resolved_chain=[nested(MAX_DEPTH - 2)])
    manager.save(lockfile, path)
    assert manager.load(path) == lockfile


def test_a_tuple_is_saved_as_the_list_that_it_is(path: Path) -> None:
    manager.save(make(resolved_chain=("a", ("b",))), path)
    assert manager.load(path).resolved_chain == ["a", ["b"]]


# --- how it is written ----------------------------------------------------------


@pytest.mark.parametrize("mask", UMASKS, ids=oct)
def test_a_lockfile_can_be_read_by_everybody_whatever_the_umask(path: Path, mask: int) -> None:
    with umask(mask):
        manager.save(make(), path)
    assert mode_of(path) == 0o644


def test_on_a_full_disk_the_old_lockfile_stays_whole_and_nothing_else_is_left(path: Path) -> None:
    path.write_text(SPECIFIED)
    script = """
        import resource, sys
        from lilux.primitives.lockfile import Lockfile, LockfileManager, LockfileRoot
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
        lockfile = Lockfile(1, "", LockfileRoot("t", "1", "i"), ["x" * 100_000])
        try:
            LockfileManager().save(lockfile, sys.argv[1])
        except OSError as exc:
            print(exc.errno, exc.filename)
    """
    assert run_python(script, path).split() == [str(errno.EFBIG), str(path)]
    assert path.read_text() == SPECIFIED
    assert names_in(path.parent) == [path.name]


@pytest.mark.thorough
def test_writers_at_once_leave_one_whole_lockfile_and_readers_never_see_less(path: Path) -> None:
    script = """
        from lilux.primitives.lockfile import Lockfile, LockfileManager, LockfileRoot
        path, name = sys.argv[1:]
        manager = LockfileManager()
        for _ in range(20):
            manager.save(Lockfile(1, name, LockfileRoot(name, "1", "i"), [name] * 5_000), path)
            found = manager.load(path)
            print({found.generated_at, found.root.tool_id, *found.resolved_chain}, len(found.resolved_chain))
    """
    seen = run_at_once(script, [(path, name) for name in "abc"])
    lines = {line for each in seen for line in each.splitlines()}
    assert lines <= {f"{{'{name}'}} 5000" for name in "abc"}
    assert set(manager.load(path).resolved_chain) < {"a", "b", "c"}
    assert names_in(path.parent) == [path.name]


def test_a_lockfile_is_on_the_disk_when_save_returns(path: Path) -> None:
    """The file before its new name, and the directory after it: in this order nothing can be lost."""
    script = """
        import os, sys
        from lilux.primitives.lockfile import Lockfile, LockfileManager, LockfileRoot
        calls = []

        def noted(name, function):
            def call(*given, **named):
                kind = "directory" if name == "fsync" and os.path.isdir(f"/proc/self/fd/{given[0]}") else ""
                calls.append(f"{name} {kind}".strip())
                return function(*given, **named)
            return call

        for name in ("fsync", "replace"):
            setattr(os, name, noted(name, getattr(os, name)))
        LockfileManager().save(Lockfile(1, "", LockfileRoot("t", "1", "i"), []), sys.argv[1])
        print(*calls, sep=", ")
    """
    assert run_python(script, path).strip() == "fsync, replace, fsync directory"
