"""A bundle is read back as it was written, and nothing else is read."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lilux import _json
from rye_mcp.errors import RyeError
from rye_mcp.executor.bundle import MAX_DEPTH, MAX_HEAD_VALUES, Bundle, BundleSpaces
from rye_mcp.executor.caller import Caller, TraceContext
from rye_mcp.executor.chain.files import Source
from rye_mcp.items import SpaceName
from rye_mcp.permissions import ANY_HOST, Access, Host, Permissions
from rye_mcp.runs.ids import new_run_id
from rye_mcp.spaces import Spaces
from tests.trust_world import refused

TOOL = (SpaceName.PROJECT, "tools/demo/hello.py")
RUNTIME = (SpaceName.SYSTEM, "tools/rye/core/runtimes/python_script_runtime.yaml")
PLAIN = Bundle(
    package="0.1.0",
    chain=(TOOL, RUNTIME),
    files=(Source(*TOOL, b"print()"), Source(*RUNTIME, b"a: b")),
    lock=b"{}",
    parameters={"name": "Ada"},
    permissions=Permissions(env=frozenset({"API_TOKEN"})),
    caller=Caller("agent", "inspector", new_run_id(), 1),
)

CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"))

names = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
texts = st.text(st.characters(blacklist_categories=["Cs"]), max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=10,
)
traces = st.just(TraceContext(f"00-{'a' * 32}-{'b' * 16}-01", "x=y")) | st.none()
callers = st.builds(
    Caller,
    st.sampled_from(["person", "agent"]),
    st.none() | texts,
    st.none() | st.builds(new_run_id),
    st.integers(0, MAX_DEPTH),
    traces,
)
permissions = st.builds(
    Permissions,
    project=st.sampled_from(Access),
    net=st.sampled_from([frozenset[Host](), frozenset({ANY_HOST}), frozenset({Host.parse("api.test")})]),
    env=st.frozensets(st.from_regex(r"[A-Z]{3,8}", fullmatch=True), max_size=3),
)


@st.composite
def bundles(draw: st.DrawFn) -> Bundle:
    space = st.sampled_from(SpaceName)
    places = draw(st.sets(st.tuples(space, names.map("tools/demo/{}.py".format)), min_size=1, max_size=5))
    files = tuple(
        Source(*place, draw(st.binary(max_size=50)), draw(st.booleans())) for place in sorted(places)
    )
    chain = draw(st.lists(st.sampled_from(sorted(places)), min_size=1, max_size=5))
    return Bundle(
        draw(texts),
        tuple(chain),
        files,
        draw(texts).encode(),
        draw(st.dictionaries(texts, values, max_size=4)),
        draw(permissions),
        draw(callers),
        draw(st.none() | names.map("tools/demo/{}".format)),
        draw(st.none() | st.floats(0.001, 1e6)),
    )


def whole(head: Any, contents: bytes = b"print()a: b") -> bytes:
    """A bundle with any head at all, whose digest is good."""
    text = (
        head if isinstance(head, bytes) else json.dumps(head, sort_keys=True, separators=(",", ":")).encode()
    )
    body = b"rye-bundle 1\n" + len(text).to_bytes(8) + text + contents
    return body + hashlib.sha256(body).digest()


def head_of(bundle: Bundle) -> dict[str, Any]:
    data = bundle.to_bytes()
    length = int.from_bytes(data[13:21])
    head: dict[str, Any] = json.loads(data[21 : 21 + length])
    return head


@settings(deadline=None)
@given(bundles())
def test_what_is_written_is_read_back_and_written_alike(bundle: Bundle) -> None:
    data = bundle.to_bytes()
    read = Bundle.from_bytes(data)
    assert read == bundle
    assert read.to_bytes() == data


def test_a_changed_byte_anywhere_is_refused() -> None:
    data = PLAIN.to_bytes()
    for position in range(len(data)):
        changed = bytearray(data)
        changed[position] ^= 1
        with pytest.raises(RyeError):
            Bundle.from_bytes(bytes(changed))


@pytest.mark.parametrize("cut", [0, 12, 20, 200, -1])
def test_a_part_of_one_is_refused(cut: int) -> None:
    with pytest.raises(RyeError):
        Bundle.from_bytes(PLAIN.to_bytes()[:cut])


WRONG: dict[str, dict[str, Any]] = {
    "a key that nobody knows": {"more": 1},
    "no chain": {"chain": []},
    "a chain of other files": {"chain": [["project", "tools/demo/other.py"]]},
    "a chain of things": {"chain": "tools"},
    "a place in no space": {"chain": [["cloud", "tools/demo/hello.py"]]},
    "a way out of the space": {"marker": "tools/../trusted_keys/a"},
    "an absolute path": {"marker": "/tools/a"},
    "a path beside the tools": {"marker": "trusted_keys/a"},
    "a path with an end": {"marker": "tools/a\0b"},
    "parameters that are none": {"parameters": []},
    "permissions that are none": {"permissions": {"fly": True}},
    "permissions in another form": {"permissions": {"project": "none"}},
    "no time at all": {"timeout": 0},
    "a time that is a flag": {"timeout": True},
    "a lockfile that is none": {"lock": 1},
    "a caller of another kind": {"caller": {"kind": "dog"}},
    "a parent that is no run": {"caller": {"parent": "1"}},
    "a depth without end": {"caller": {"depth": MAX_DEPTH + 1}},
    "a trace that is none": {"caller": {"trace": ["00", None]}},
    "a client that talks": {"caller": {"client": "x" * 1001}},
}


@pytest.mark.parametrize("case", WRONG)
def test_a_head_that_says_anything_else_is_refused(case: str) -> None:
    head = head_of(PLAIN)
    for name, value in WRONG[case].items():
        head[name] = {**head["caller"], **value} if name == "caller" else value
    with pytest.raises(RyeError) as caught:
        Bundle.from_bytes(whole(head))
    assert caught.value.code == "invalid_item"
    Bundle.from_bytes(whole(head_of(PLAIN)))


@pytest.mark.parametrize(
    "files",
    [
        [],
        [["project", "tools/demo/hello.py", 7]],
        "files",
        [["project", "tools/demo/hello.py", 100, "0" * 64, False]],
        [["project", "tools/demo/hello.py", -1, "0" * 64, False]],
        [["project", "tools/demo/hello.py", 7, "0" * 64, False]],
        [["project", "tools/demo/hello.py", 7, hashlib.sha256(b"print()").hexdigest(), 1]],
    ],
)
def test_files_that_are_not_as_they_are_listed_are_refused(files: Any) -> None:
    with pytest.raises(RyeError):
        Bundle.from_bytes(whole({**head_of(PLAIN), "files": files}))


def test_files_in_another_order_are_refused() -> None:
    head = head_of(PLAIN)
    data = whole({**head, "files": head["files"][::-1]}, b"a: bprint()")
    with pytest.raises(RyeError, match="in order"):
        Bundle.from_bytes(data)


@pytest.mark.parametrize("head", [b"", b"{", b"[]", b"\xff", b'{"chain":1,"chain":2}', b"[" * 100_000])
def test_a_head_that_is_no_object_is_refused(head: bytes) -> None:
    with pytest.raises(RyeError):
        Bundle.from_bytes(whole(head))


def test_the_same_in_another_form_is_refused() -> None:
    spaced = json.dumps(head_of(PLAIN), sort_keys=True).encode()
    with pytest.raises(RyeError, match="its one form"):
        Bundle.from_bytes(whole(spaced))


def test_what_is_too_long_is_refused_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    from rye_mcp.executor import bundle

    data = PLAIN.to_bytes()
    monkeypatch.setattr(bundle, "MAX_BUNDLE_BYTES", len(data) - 1)
    refused("too_large", PLAIN.to_bytes)
    refused("too_large", lambda: Bundle.from_bytes(data))


def test_too_many_values_are_refused_before_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read without a pause holds up every other call of a worker, and the answers to its pings."""
    many = {**head_of(PLAIN), "parameters": {"x": [[]] * MAX_HEAD_VALUES}}
    data = whole(many)
    read: list[int] = []
    decode = _json.decode

    def noted(text: bytes) -> Any:
        read.append(len(text))
        return decode(text)

    monkeypatch.setattr(_json, "decode", noted)
    refused("too_large", lambda: Bundle.from_bytes(data))
    assert read == []
    refused("too_large", replace(PLAIN, parameters=many["parameters"]).to_bytes)
    most = replace(PLAIN, parameters={"x": [1] * _json.MAX_VALUES})
    assert Bundle.from_bytes(most.to_bytes()) == most
    assert len(read) == 1


def test_values_that_json_cannot_hold_are_refused() -> None:
    with pytest.raises(RyeError, match="JSON"):
        replace(PLAIN, parameters={"x": float("nan")}).to_bytes()


@pytest.fixture
def spaces(tmp_path: Path) -> BundleSpaces:
    """Those of a machine that has a bundle and an empty project."""
    (tmp_path / "project/.ai").mkdir(parents=True)
    return BundleSpaces(PLAIN, Spaces.locate(tmp_path / "project", user=tmp_path / "home"))


def test_the_tool_of_a_bundle_is_found_by_its_own_name_alone(spaces: BundleSpaces) -> None:
    assert spaces.find("demo/hello").item.content == b"print()"
    refused("item_not_found", lambda: spaces.find("demo/other"))


def test_a_file_of_a_bundle_has_the_limits_of_one_on_the_disk(spaces: BundleSpaces) -> None:
    tree = spaces.open_tree(spaces.find("demo/hello").item.space)
    found = tree.read(TOOL[1], limit=len(b"print()"))
    assert found is not None
    assert found.content == b"print()"
    refused("too_large", lambda: tree.read(TOOL[1], limit=len(b"print()") - 1))
