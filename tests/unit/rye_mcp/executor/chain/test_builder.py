"""Chains: from an id to its primitive, by the files that are there now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lilux import _footprints
from rye_mcp.errors import RyeError
from rye_mcp.executor.chain.builder import MAX_CHAIN_DEPTH, ChainBuilder, ChainError, MetadataRole
from rye_mcp.executor.chain.verifier import roles_in
from rye_mcp.items import ItemFile, SpaceName
from rye_mcp.trust.scope import Role
from tests.space_helpers import Ground

PRIMITIVE = b"tool_type: primitive\nexecutor_id: null\n"


def runtime(executor: str) -> bytes:
    return f"tool_type: runtime\nexecutor_id: {executor}\n".encode()


def tool(executor: str) -> bytes:
    return f"tool_type: script\nexecutor_id: {executor}\n".encode()


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    ground = Ground.in_directory(tmp_path)
    ground.write("system", "tools/rye/core/primitives/subprocess.yaml", PRIMITIVE)
    ground.write(
        "system", "tools/rye/core/runtimes/my_runtime.yaml", runtime("rye/core/primitives/subprocess")
    )
    ground.write("project", "tools/demo/hello.yaml", tool("rye/core/runtimes/my_runtime"))
    return ground


def anybody(_: ItemFile) -> None:
    """A gate that everything passes: what is verified is not the matter of chains."""


def builder(ground: Ground, gate: Callable[[ItemFile], object] = anybody) -> ChainBuilder:
    return ChainBuilder(ground.spaces, gate)


def ids(ground: Ground, item_id: str = "demo/hello") -> list[str]:
    return [element.item_id for element in builder(ground).build(item_id).elements]


def refusal(ground: Ground, item_id: str = "demo/hello") -> RyeError:
    with pytest.raises(RyeError) as caught:
        builder(ground).build(item_id)
    return caught.value


def test_a_chain_is_ordered_from_the_tool_to_the_primitive(ground: Ground) -> None:
    chain = builder(ground).build("demo/hello")
    assert ids(ground) == ["demo/hello", "rye/core/runtimes/my_runtime", "rye/core/primitives/subprocess"]
    assert [element.space for element in chain.elements] == ["project", "system", "system"]
    assert chain.root is chain.elements[0]
    assert chain.primitive is chain.elements[-1]
    assert [*chain.upward] == [*reversed(chain.elements)]


def test_a_primitive_is_a_chain_by_itself(ground: Ground) -> None:
    assert ids(ground, "rye/core/primitives/subprocess") == ["rye/core/primitives/subprocess"]


def test_an_executor_can_be_named_by_its_last_segment(ground: Ground) -> None:
    ground.write("project", "tools/demo/hello.yaml", tool("my_runtime"))
    assert ids(ground)[1] == "rye/core/runtimes/my_runtime"


def test_from_an_element_in_one_space_only_that_one_and_those_below_are_searched(ground: Ground) -> None:
    ground.write("project", "tools/only/here.yaml", runtime("rye/core/primitives/subprocess"))
    ground.write("user", "tools/demo/mine.yaml", tool("only/here"))
    ground.write("project", "tools/demo/ours.yaml", tool("only/here"))
    assert ids(ground, "demo/ours")[1] == "only/here"
    error = refusal(ground, "demo/mine")
    assert error.code == "executor_not_found"
    assert error.details["asked_by"] == "demo/mine"


@pytest.mark.parametrize("space", list(SpaceName))
def test_the_nearest_executor_counts_and_the_others_are_shadowed(ground: Ground, space: SpaceName) -> None:
    ground.write(space, "tools/rye/core/runtimes/my_runtime.yaml", runtime("rye/core/primitives/subprocess"))
    element = builder(ground).build("demo/hello").elements[1]
    assert element.space is space
    assert [place.space.name for place in element.shadowed] == (
        [] if space is SpaceName.SYSTEM else [SpaceName.SYSTEM]
    )


# --- what no chain can be made of ---


def test_a_missing_executor_is_named_with_the_item_that_asked(ground: Ground) -> None:
    ground.write("project", "tools/demo/hello.yaml", tool("demo/runner"))
    ground.write("project", "tools/demo/runner.yaml", runtime("nowhere/to/be/found"))
    error = refusal(ground)
    assert isinstance(error, ChainError)
    assert isinstance(error, ValueError)
    assert error.code == "executor_not_found"
    assert (error.details["executor_id"], error.details["asked_by"]) == ("nowhere/to/be/found", "demo/runner")


@pytest.mark.parametrize("length", [1, 2, 3])
def test_a_chain_that_comes_back_to_itself_is_refused(ground: Ground, length: int) -> None:
    ground.write("project", "tools/demo/hello.yaml", tool("cycle/r0"))
    for number in range(length):
        ground.write("project", f"tools/cycle/r{number}.yaml", runtime(f"cycle/r{(number + 1) % length}"))
    error = refusal(ground)
    assert error.code == "executor_cycle"
    assert "cycle/r0 → " in error.message
    assert error.message.endswith("→ cycle/r0")


def test_a_tool_that_names_itself_is_refused(ground: Ground) -> None:
    ground.write("project", "tools/demo/hello.yaml", tool("demo/hello"))
    assert refusal(ground).code == "executor_cycle"


@pytest.mark.parametrize(
    ("runtimes", "code"), [(MAX_CHAIN_DEPTH - 2, None), (MAX_CHAIN_DEPTH - 1, "chain_too_deep")]
)
def test_a_chain_has_at_most_ten_elements(ground: Ground, runtimes: int, code: str | None) -> None:
    ground.write("project", "tools/demo/hello.yaml", tool("deep/r1"))
    for number in range(1, runtimes + 1):
        last = number == runtimes
        following = "rye/core/primitives/subprocess" if last else f"deep/r{number + 1}"
        ground.write("project", f"tools/deep/r{number}.yaml", runtime(following))
    if code is None:
        assert len(ids(ground)) == MAX_CHAIN_DEPTH
    else:
        assert refusal(ground).code == code


def test_a_tool_is_no_executor(ground: Ground) -> None:
    ground.write("project", "tools/demo/other.yaml", tool("rye/core/primitives/subprocess"))
    ground.write("project", "tools/demo/hello.yaml", tool("demo/other"))
    error = refusal(ground)
    assert error.code == "chain_invalid"
    assert "demo/other" in error.message


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"name: hello\n", "library"), (runtime("rye/core/primitives/subprocess"), "runtime")],
)
def test_what_names_no_executor_and_what_runs_others_is_not_run(
    ground: Ground, content: bytes, said: str
) -> None:
    ground.write("project", "tools/demo/hello.yaml", content)
    error = refusal(ground)
    assert error.code == "not_runnable"
    assert said in error.message


def test_two_files_for_one_executor_are_named(ground: Ground) -> None:
    ground.write("project", "tools/a/twice.yaml", runtime("rye/core/primitives/subprocess"))
    ground.write("project", "tools/b/twice.yaml", runtime("rye/core/primitives/subprocess"))
    ground.write("project", "tools/demo/hello.yaml", tool("twice"))
    error = refusal(ground)
    assert error.code == "ambiguous_item"
    assert {Path(path).parent.name for path in error.details["candidates"]} == {"a", "b"}


class Stranger:
    """A gate that one file does not pass."""

    def __init__(self, item_id: str) -> None:
        self._item_id = item_id

    def __call__(self, file: ItemFile) -> None:
        if file.item_id == self._item_id:
            raise RyeError(
                "unsigned", f"expected a signature in {file.path}, found none", item_id=file.item_id
            )


@pytest.mark.parametrize(
    "content",
    [
        b"name: hello\n",
        tool("words/that/nobody/verified"),
        b"tool_type: words that nobody verified\nexecutor_id: x\n",
        b"version: words that nobody verified\n",
    ],
)
def test_nothing_that_an_unverified_file_says_is_told(ground: Ground, content: bytes) -> None:
    ground.write("project", "tools/demo/hello.yaml", content)
    with pytest.raises(RyeError) as caught:
        builder(ground, Stranger("demo/hello")).build("demo/hello")
    assert caught.value.code == "unsigned"
    assert "nobody" not in str(caught.value.as_dict())


def test_nothing_that_an_unverified_executor_says_is_told(ground: Ground) -> None:
    ground.write("project", "tools/demo/hello.yaml", tool("demo/runner"))
    ground.write("project", "tools/demo/runner.yaml", runtime("words/that/nobody/verified"))
    with pytest.raises(RyeError) as caught:
        builder(ground, Stranger("demo/runner")).build("demo/hello")
    assert caught.value.code == "unsigned"


def test_the_place_decides_what_a_signer_has_to_be_trusted_for(ground: Ground) -> None:
    root, *others = roles_in(builder(ground).build("demo/hello").elements)
    assert isinstance(root, MetadataRole)
    assert others == [Role.RUNTIME, Role.PRIMITIVE]


# --- the caches ---


def test_a_chain_whose_files_are_the_same_is_the_same(ground: Ground) -> None:
    kept = builder(ground)
    assert kept.build("demo/hello") is kept.build("demo/hello")


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("demo/hello.yaml", tool("rye/core/runtimes/my_runtime") + b"version: 2.0.0\n"),
        ("rye/core/runtimes/my_runtime.yaml", runtime("rye/core/primitives/subprocess")),
    ],
)
def test_a_change_and_a_new_override_are_seen_at_once(ground: Ground, path: str, content: bytes) -> None:
    kept = builder(ground)
    before = kept.build("demo/hello")
    written = ground.write("project", f"tools/{path}", content)
    after = kept.build("demo/hello")
    assert written not in [element.path for element in before.elements if element.file.content == content]
    assert [element.file.content for element in after.elements if element.path == written] == [content]


def test_an_override_that_is_gone_is_seen_at_once(ground: Ground) -> None:
    override = ground.write(
        "user", "tools/rye/core/runtimes/my_runtime.yaml", runtime("rye/core/primitives/subprocess")
    )
    kept = builder(ground)
    assert kept.build("demo/hello").elements[1].space is SpaceName.USER
    override.unlink()
    assert kept.build("demo/hello").elements[1].space is SpaceName.SYSTEM


def test_a_file_that_changed_within_the_same_size_and_time_is_seen(ground: Ground) -> None:
    import os

    path = ground.write("project", "tools/demo/hello.yaml", tool("my_runtime") + b"description: one\n")
    kept = builder(ground)
    kept.build("demo/hello")
    times = (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    path.write_bytes(tool("my_runtime") + b"description: two\n")
    os.utime(path, ns=times)
    assert kept.build("demo/hello").root.metadata.description == "two"


def test_a_chain_is_remembered_for_the_root_that_was_read_and_for_no_later_one(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later root may be at the same address as one that is gone."""
    monkeypatch.setattr(_footprints, "SETTLED_NS", -(10**12))
    remembering = ChainBuilder(ground.spaces, anybody, remembers=True)
    root = remembering.find("demo/hello")
    chain = remembering.follow(root)
    assert remembering.follow(replace(root)) is chain  # another thread reads the same at the same time
    edited = replace(root.file, content=root.file.content + b"# edited\n")
    for _ in range(100):
        later = replace(root, file=edited)
        assert remembering.follow(later).root.file is edited
