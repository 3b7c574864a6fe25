"""Anchors: the fields of the specification, merged over the chain, and when one is active."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rye_mcp.errors import RyeError
from rye_mcp.executor.chain.anchor import EnvPaths, anchor_of, library_of
from rye_mcp.executor.chain.builder import Chain, ChainBuilder
from tests.space_helpers import Ground

SPECIFIED = """\
anchor:
  enabled: true
  mode: auto
  markers_any: ["__init__.py", "pyproject.toml"]
  root: tool_dir
  lib: lib/python
  env_paths:
    PYTHONPATH:
      prepend: ["{anchor_path}", "{runtime_lib}"]
"""


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    ground = Ground.in_directory(tmp_path)
    ground.write(
        "system", "tools/rye/core/primitives/subprocess.yaml", b"tool_type: primitive\nexecutor_id: null\n"
    )
    return ground


def chain_of(ground: Ground, runtime: str = "", tool: str = "", item_id: str = "demo/report") -> Chain:
    head = "tool_type: runtime\nexecutor_id: rye/core/primitives/subprocess\n"
    ground.write("user", "tools/base/runtime.yaml", (head + runtime).encode())
    tool = f"tool_type: script\nexecutor_id: base/runtime\n{tool}"
    ground.write("project", f"tools/{item_id}.yaml", tool.encode())
    return ChainBuilder(ground.spaces, lambda _: None).build(item_id)


def issues(ground: Ground, runtime: str = "", tool: str = "") -> list[dict[str, Any]]:
    chain = chain_of(ground, runtime, tool)
    with pytest.raises(RyeError) as caught:
        anchor_of(chain, None)
    assert caught.value.code == "invalid_item"
    found: list[dict[str, Any]] = caught.value.details["issues"]
    return found


def test_the_example_of_the_specification(ground: Ground) -> None:
    chain = chain_of(ground, SPECIFIED)
    assert anchor_of(chain, None) is None
    ground.write("project", "tools/demo/pyproject.toml")
    anchor = anchor_of(chain, None)
    assert anchor is not None
    assert anchor.root_kind == "tool_dir"
    assert anchor.source == ground.as_space(chain.root.space).root / "tools/demo"
    assert anchor.relative == "tools/demo"
    assert anchor.env_paths == {"PYTHONPATH": EnvPaths(("{anchor_path}", "{runtime_lib}"), ())}
    assert anchor.cwd is None


def test_a_chain_that_says_nothing_has_none(ground: Ground) -> None:
    ground.write("project", "tools/demo/__init__.py")
    assert anchor_of(chain_of(ground), None) is None


@pytest.mark.parametrize(
    ("mode", "marker", "active"),
    [
        ("auto", True, True),
        ("auto", False, False),
        ("always", False, True),
        ("never", True, False),
        (None, True, True),
        (None, False, False),
    ],
)
def test_the_mode_decides_whether_it_is_active(
    ground: Ground, mode: str | None, marker: bool, active: bool
) -> None:
    if marker:
        ground.write("project", "tools/demo/__init__.py")
    declared = f"anchor:\n  mode: {mode}\n" if mode else "anchor:\n  root: tool_dir\n"
    assert (anchor_of(chain_of(ground, declared), None) is not None) is active


def test_one_that_is_not_enabled_is_never_active(ground: Ground) -> None:
    assert anchor_of(chain_of(ground, "anchor: {enabled: false, mode: always}\n"), None) is None


@pytest.mark.parametrize("kind", ["link", "directory"])
def test_only_a_regular_file_is_a_marker(ground: Ground, kind: str) -> None:
    chain = chain_of(ground, SPECIFIED)
    marker = ground.space("project") / "tools/demo/__init__.py"
    if kind == "link":
        marker.symlink_to(ground.canary)
    else:
        marker.mkdir()
    assert anchor_of(chain, None) is None


def test_the_tool_has_the_last_word_field_by_field(ground: Ground) -> None:
    own = """\
anchor:
  mode: always
  env_paths:
    NODE_PATH: {append: ["{anchor_path}"]}
  cwd: "{anchor_path}"
"""
    anchor = anchor_of(chain_of(ground, SPECIFIED, own), None)
    assert anchor is not None
    assert anchor.env_paths == {
        "PYTHONPATH": EnvPaths(("{anchor_path}", "{runtime_lib}"), ()),
        "NODE_PATH": EnvPaths((), ("{anchor_path}",)),
    }
    assert anchor.cwd == "{anchor_path}"
    assert anchor_of(chain_of(ground, SPECIFIED, "anchor: {mode: never}\n"), None) is None


def test_the_parent_is_one_directory_further_up(ground: Ground) -> None:
    declared = "anchor: {mode: always, root: tool_parent}\n"
    anchor = anchor_of(chain_of(ground, declared, item_id="demo/deep/report"), None)
    assert anchor is not None
    assert anchor.relative == "tools/demo"


def test_the_parent_is_never_above_the_directory_of_tools(ground: Ground) -> None:
    declared = "anchor: {mode: always, root: tool_parent}\n"
    for item_id, relative in (("demo/report", "tools"), ("report", None)):
        chain = chain_of(ground, declared, item_id=item_id)
        if relative is None:
            with pytest.raises(RyeError, match="below another directory"):
                anchor_of(chain, None)
        else:
            anchor = anchor_of(chain, None)
            assert anchor is not None
            assert anchor.relative == relative


def test_a_project_can_be_one_when_there_is_one(ground: Ground) -> None:
    chain = chain_of(ground, "anchor: {mode: always, root: project_path}\n")
    anchor = anchor_of(chain, ground.root / "project")
    assert anchor is not None
    assert (anchor.source, anchor.relative) == (ground.root / "project", None)
    with pytest.raises(RyeError) as caught:
        anchor_of(chain, None)
    assert caught.value.code == "no_project"


@pytest.mark.parametrize(
    "field",
    [
        "enabled: 1",
        "mode: sometimes",
        "mode: [auto]",
        "markers_any: __init__.py",
        "markers_any: [../__init__.py]",
        "markers_any: ['..']",
        "markers_any: ['']",
        "root: /etc",
        "root: {}",
        "lib: ../lib",
        "lib: /usr/lib",
        "lib: ''",
        "lib: .hidden",
        "lib: a//b",
        "lib: [lib]",
        "env_paths: []",
        "env_paths: {'A=B': {prepend: [x]}}",
        "env_paths: {A: [x]}",
        "env_paths: {A: {before: [x]}}",
        "env_paths: {A: {prepend: x}}",
        "env_paths: {A: {prepend: [1]}}",
        "cwd: 1",
        "cwd: ''",
        "unknown: true",
    ],
)
def test_what_makes_no_sense_is_refused_with_its_field(ground: Ground, field: str) -> None:
    (issue,) = issues(ground, f"anchor: {{{field}}}\n")
    assert issue["field"] == f"anchor.{field.partition(':')[0]}"
    assert issue["item_id"] == "base/runtime"
    assert "expected" in issue["message"]


def test_every_issue_is_reported_at_once_with_its_element(ground: Ground) -> None:
    found = issues(ground, "anchor: {mode: x, root: y}\n", "anchor: {cwd: 1, lib: lib}\n")
    assert [(issue["item_id"], issue["field"]) for issue in found] == [
        ("base/runtime", "anchor.mode"),
        ("base/runtime", "anchor.root"),
        ("demo/report", "anchor.cwd"),
        ("demo/report", "anchor.lib"),
    ]


def test_a_library_is_beside_the_runtime_whether_the_anchor_is_active_or_not(ground: Ground) -> None:
    chain = chain_of(ground, SPECIFIED)
    assert anchor_of(chain, None) is None
    library = library_of(chain)
    assert library is not None
    assert (library.runtime.item_id, library.relative) == ("base/runtime", "tools/base/lib/python")
    assert library_of(chain_of(ground, "anchor: {mode: always}\n")) is None
