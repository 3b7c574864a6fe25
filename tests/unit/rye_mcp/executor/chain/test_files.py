"""What a tool brings along: what is listed, what has to be authentic, and nothing besides."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rye_mcp.errors import RyeError
from rye_mcp.executor.chain import files
from rye_mcp.executor.chain.verify_deps import rules_of
from rye_mcp.items import SpaceName
from rye_mcp.trust.dependency_manifest import MAX_LISTED_BYTES
from rye_mcp.trust.scope import Role, Scope, SignerKind
from rye_mcp.trust.trust_document import TrustDocument
from tests.carry_world import ANCHOR, Scene, sha256
from tests.trust_world import World, new_key, refused

LIBRARY = 'anchor: {lib: lib}\nconfig: {args: ["{runtime_lib}/call.py"]}\n'


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path.resolve())


def anchored(world: World, **options: Any) -> Scene:
    """A tool whose anchor is active: `__init__.py` stands beside it, signed."""
    scene = Scene.begin(world, **options)
    scene.sign("tools/demo/__init__.py", b"# a package\n")
    return scene


def test_a_tool_by_itself_carries_itself(world: World) -> None:
    scene = Scene.begin(world)
    scene.write("tools/demo/data.json")
    scene.write("tools/demo/other.py")
    carried = scene.carried()
    content = (scene.directory / "report.py").read_bytes()
    assert [file.relative for file in carried.files] == ["tools/demo/report.py"]
    assert carried.tool.content == content
    assert carried.tool.digest == sha256(content)
    assert (carried.anchor, carried.library, carried.digests) == (None, (), {})
    assert (carried.sealed, carried.why_not_sealed) == (True, None)


def test_what_is_listed_is_carried_without_an_anchor(world: World) -> None:
    scene = Scene.begin(world, "")
    scene.bring({"data/prices.json": b"{}", "logo.png": b"\x89PNG\r\n\x00", "größe.txt": b"1"})
    scene.write("tools/demo/data/other.json")
    carried = scene.carried()
    assert scene.names() == ["data/prices.json", "größe.txt", "logo.png"]
    assert carried.digests["tools/demo/logo.png"] == sha256(b"\x89PNG\r\n\x00")
    assert carried.files[1].content == b"{}"


def test_every_matching_file_of_an_active_anchor_is_verified_and_carried(world: World) -> None:
    scene = anchored(world)
    scene.sign("tools/demo/helper.py", b"x = 1\n")
    scene.sign("tools/demo/sub/deep/more.py", b"y = 1\n")
    scene.write("tools/demo/notes.txt", b"not asked for")
    assert scene.names() == ["__init__.py", "helper.py", "sub/deep/more.py"]


def test_without_a_marker_nothing_is_asked_for(world: World) -> None:
    scene = Scene.begin(world)
    scene.write("tools/demo/helper.py")
    assert scene.names() == []


def test_one_file_that_nobody_signed_refuses_the_run_and_says_what_to_do(world: World) -> None:
    scene = anchored(world)
    path = scene.write("tools/demo/sub/a helper.py")
    error = refused("unsigned", scene.carried)
    assert str(path) in error.message
    assert error.message.startswith("demo/report rests on tools/demo/sub/a helper.py: ")
    assert error.hint == "rye sign demo/report --with 'sub/a helper.py'"
    assert error.details["item_id"] == "demo/report"
    assert error.details["dependency"] == "tools/demo/sub/a helper.py"


def test_all_that_is_not_authentic_is_named_at_once(world: World) -> None:
    scene = anchored(world)
    scene.write("tools/demo/a.py")
    signed = scene.sign("tools/demo/b.py", b"x = 1\n")
    scene.write("tools/demo/b.py", signed + b"evil()\n")
    (scene.directory / "c.py").symlink_to("a.py")
    error = refused(None, scene.carried)
    found = {issue["dependency"]: issue["code"] for issue in error.details["issues"]}
    assert found == {
        "tools/demo/a.py": "unsigned",
        "tools/demo/b.py": "content_changed",
        "tools/demo/c.py": "unsafe_path",
    }


def test_a_file_that_is_no_item_has_to_be_listed(world: World) -> None:
    scene = anchored(world)
    path = "tools/demo/" + "d/" * 9 + "too deep for an id.py"
    scene.write(path)
    refused("unsigned", scene.carried)
    scene.list_files({path.removeprefix("tools/demo/"): b"x = 1\n"})
    assert len(scene.names()) == 2


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("scope: anchor", ["__init__.py", "a.py", "sub/b.py", "sub/tests/c.py"]),
        ("scope: tool_dir", ["__init__.py", "a.py", "sub/b.py", "sub/tests/c.py"]),
        ("scope: tool_dir, recursive: false", ["__init__.py", "a.py"]),
        ("scope: tool_siblings", ["__init__.py", "a.py"]),
        ("scope: tool_file", []),
        ("enabled: false", []),
        ("exclude_dirs: [tests]", ["__init__.py", "a.py", "sub/b.py"]),
        ("exclude_dirs: [sub]", ["__init__.py", "a.py"]),
        ('extensions: [".json"]', []),
    ],
)
def test_the_rules_say_which_files(world: World, rules: str, expected: list[str]) -> None:
    extensions = "" if "extensions" in rules else ', extensions: [".py"]'
    scene = anchored(world, runtime=f"anchor: {{mode: auto}}\nverify_deps: {{{rules}{extensions}}}\n")
    for name in ("a", "sub/b", "sub/tests/c"):
        scene.sign(f"tools/demo/{name}.py", b"x = 1\n")
    assert scene.names() == expected


def test_rules_without_extensions_ask_for_every_file(world: World) -> None:
    scene = anchored(world, runtime="anchor: {mode: auto}\nverify_deps: {scope: anchor}\n")
    scene.write("tools/demo/README")
    refused("unsigned", scene.carried)
    scene.list_files({"README": b"x = 1\n"})
    assert scene.names() == ["README", "__init__.py"]


def test_a_scope_other_than_the_anchor_asks_without_one(world: World) -> None:
    scene = Scene.begin(world, 'verify_deps: {scope: tool_dir, extensions: [".py"]}\n')
    scene.write("tools/demo/helper.py")
    refused("unsigned", scene.carried)


def test_what_is_hidden_or_bytecode_is_never_looked_at(world: World) -> None:
    scene = anchored(world)
    for name in (".git/hook.py", ".hidden.py", "__pycache__/helper.py"):
        scene.write(f"tools/demo/{name}")
    assert scene.names() == ["__init__.py"]


def test_the_anchor_of_the_parent_reaches_its_other_directories(world: World) -> None:
    runtime = ANCHOR.replace("mode: auto", "mode: always\n  root: tool_parent")
    scene = Scene.begin(world, runtime, tool="demo/reports/report")
    scene.sign("tools/demo/common/util.py", b"x = 1\n")
    scene.write("tools/demo/data.json", b"{}")
    scene.list_files({"data.json": b"{}"}, "tools/demo")
    scene.write("tools/demo/reports/own.json", b"[]")
    scene.list_files({"own.json": b"[]"})
    scene.write("tools/outside.py")
    assert [file.relative for file in scene.carried().files] == [
        "tools/demo/reports/report.py",
        "tools/demo/common/util.py",
        "tools/demo/data.json",
        "tools/demo/reports/own.json",
    ]


def test_what_two_manifests_list_has_to_be_the_same(world: World) -> None:
    runtime = ANCHOR.replace("mode: auto", "mode: always\n  root: tool_parent")
    scene = Scene.begin(world, runtime, tool="demo/reports/report")
    scene.write("tools/demo/reports/own.json", b"[]")
    scene.list_files({"own.json": b"[]"})
    scene.list_files({"reports/own.json": b"[]"}, "tools/demo")
    assert scene.names() == ["own.json"]
    scene.list_files({"reports/own.json": b"{}"}, "tools/demo")
    refused("content_changed", scene.carried)


def test_a_file_that_can_be_executed_stays_so(world: World) -> None:
    scene = Scene.begin(world)
    scene.bring({"run.sh": b"#!/bin/sh\n", "plain.sh": b"#!/bin/sh\n"})
    (scene.directory / "run.sh").chmod(0o755)
    assert {file.relative: file.executable for file in scene.carried().files[1:]} == {
        "tools/demo/plain.sh": False,
        "tools/demo/run.sh": True,
    }


# --- what is listed ---


def test_a_listed_file_with_other_bytes_is_refused_though_it_be_signed(world: World) -> None:
    scene = Scene.begin(world)
    scene.bring({"data.json": b"{}"})
    scene.write("tools/demo/data.json", b"[]")
    error = refused("content_changed", scene.carried)
    assert "rye sign demo/report --with data.json" in error.hint
    scene.sign("tools/demo/helper.py", b"x = 1\n")
    scene.list_files({"helper.py": b"y = 1\n"})
    refused("content_changed", scene.carried)


def test_a_listed_file_that_is_missing_is_refused(world: World) -> None:
    scene = Scene.begin(world)
    scene.list_files({"data.json": b"{}"})
    assert "found none" in refused("content_changed", scene.carried).message


def test_the_tool_itself_may_be_listed_as_it_is(world: World) -> None:
    scene = Scene.begin(world)
    scene.list_files({"report.py": (scene.directory / "report.py").read_bytes()})
    assert scene.names() == []
    scene.list_files({"report.py": b"another"})
    refused("content_changed", scene.carried)


def test_a_listed_file_is_as_large_as_its_limit(world: World) -> None:
    scene = Scene.begin(world)
    with (scene.directory / "big.bin").open("wb") as stream:
        stream.truncate(MAX_LISTED_BYTES)
    scene.list_files({"big.bin": bytes(MAX_LISTED_BYTES)})
    assert scene.names() == ["big.bin"]
    with (scene.directory / "big.bin").open("ab") as stream:
        stream.write(b"x")
    refused("too_large", scene.carried)


def test_all_files_together_have_a_limit(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene.begin(world, LIBRARY)
    scene.sign("tools/base/lib/call.py", b"x = 1\n")
    scene.bring({"a": bytes(4000), "b": bytes(4000)})
    total = sum(len(file.content) for file in (*scene.carried().files, *scene.carried().library))
    monkeypatch.setattr(files, "MAX_CARRIED_BYTES", total)
    scene.carried()
    monkeypatch.setattr(files, "MAX_CARRIED_BYTES", total - 1)
    refused("too_large", scene.carried)
    monkeypatch.setattr(files, "MAX_CARRIED_BYTES", 7999)
    refused("too_large", scene.carried)


def test_files_that_differ_only_in_case_are_refused_wherever_they_come_from(world: World) -> None:
    scene = anchored(world)
    scene.bring({"Helper.py": b"x = 1\n"})
    scene.sign("tools/demo/helper.py", b"x = 2\n")
    error = refused("ambiguous_item", scene.carried)
    assert "Helper.py" in error.message
    assert "helper.py" in error.message


# --- who signed ---


@pytest.mark.parametrize("listed", [True, False], ids=["listed", "signed itself"])
@pytest.mark.parametrize(
    ("tool", "dependency", "code"),
    [
        (SignerKind.PERSON, SignerKind.PERSON, None),
        (SignerKind.AGENT, SignerKind.PERSON, None),
        (SignerKind.AGENT, SignerKind.AGENT, None),
        (SignerKind.PERSON, SignerKind.AGENT, "out_of_scope"),
    ],
)
def test_what_a_person_signed_rests_on_nothing_that_an_agent_signed(
    world: World, listed: bool, tool: SignerKind, dependency: SignerKind, code: str | None
) -> None:
    scene = Scene.begin(world, key=world.key(tool))
    scene.sign("tools/demo/__init__.py", b"", world.key(tool))
    if listed:
        scene.write("tools/demo/helper.py")
        scene.list_files({"helper.py": b"x = 1\n"}, key=world.key(dependency))
    else:
        scene.sign("tools/demo/helper.py", b"x = 1\n", world.key(dependency))
    if code is None:
        assert scene.names() == ["__init__.py", "helper.py"]
    else:
        error = refused(code, scene.carried)
        assert "rye sign demo/report" in error.hint


def test_trust_that_ends_ends_for_dependencies_too(world: World) -> None:
    scene = anchored(world)
    trust = world.trust()
    scene.carried(trust)
    (world.user_space / "trusted_keys" / f"{world.key().public.fingerprint}.toml").unlink()
    refused("untrusted_key", lambda: scene.carried(trust))


def test_a_tool_of_the_user_space_brings_its_own(world: World) -> None:
    scene = anchored(world, space=SpaceName.USER)
    scene.bring({"data.json": b"{}"})
    assert scene.names() == ["__init__.py", "data.json"]
    assert scene.carried().source == world.user_space


# --- the library of a runtime ---


def test_the_library_of_a_runtime_is_carried_beside_the_tools(world: World) -> None:
    scene = Scene.begin(world, LIBRARY)
    scene.sign("tools/base/lib/call.py", b"x = 1\n")
    scene.sign("tools/base/lib/sub/more.py", b"x = 1\n")
    carried = scene.carried()
    assert [file.relative for file in carried.library] == ["lib/call.py", "lib/sub/more.py"]
    assert carried.library_source == scene.root / "tools/base/lib"
    assert carried.digests.keys() == {"lib/call.py", "lib/sub/more.py"}


def unsigned_file(scene: Scene) -> None:
    scene.write("tools/base/lib/more.py")


def signed_by_an_agent(scene: Scene) -> None:
    scene.sign("tools/base/lib/more.py", b"x = 1\n", scene.world.key(SignerKind.AGENT))


def listed_by_an_agent(scene: Scene) -> None:
    scene.write("tools/base/lib/more.py")
    scene.list_files({"lib/more.py": b"x = 1\n"}, "tools/base", scene.world.key(SignerKind.AGENT))


@pytest.mark.parametrize(
    ("change", "code"),
    [(unsigned_file, "unsigned"), (signed_by_an_agent, "out_of_scope"), (listed_by_an_agent, "out_of_scope")],
)
def test_a_library_is_signed_as_a_runtime_is(
    world: World, change: Callable[[Scene], None], code: str
) -> None:
    scene = Scene.begin(world, LIBRARY, key=world.key(SignerKind.AGENT))
    scene.sign("tools/base/lib/call.py", b"x = 1\n")
    scene.carried()
    change(scene)
    error = refused(code, scene.carried)
    assert error.details["item_id"] == "base/runtime"


def test_a_signer_trusted_for_tools_alone_signs_no_library(world: World) -> None:
    scene = Scene.begin(world, LIBRARY)
    key = new_key()
    world.trust_key(TrustDocument.create(key.public, "zoe", scope=Scope(roles=frozenset({Role.TOOL}))))
    scene.sign("tools/base/lib/call.py", b"x = 1\n", key)
    refused("out_of_scope", scene.carried)


def test_a_library_may_be_listed_and_no_more_of_the_runtimes_directory_is_carried(world: World) -> None:
    scene = Scene.begin(world, LIBRARY)
    scene.bring({"lib/call.py": b"x = 1\n", "other.bin": b"x"}, "tools/base")
    assert [file.relative for file in scene.carried().library] == ["lib/call.py"]


@pytest.mark.parametrize(
    ("runtime", "marker", "is_carried"),
    [
        ("anchor: {lib: lib}\n", True, False),
        ('anchor: {lib: lib, cwd: "{runtime_lib}"}\n', True, True),
        ('anchor: {lib: lib, cwd: "{runtime_lib}"}\n', False, False),
        ('anchor: {lib: lib, env_paths: {A: {append: ["{runtime_lib}"]}}}\n', True, True),
        ('anchor: {lib: lib}\nconfig: {env: {A: [{b: "{{key}}"}], key: runtime_lib}}\n', False, True),
    ],
)
def test_a_library_is_carried_only_where_its_place_is_asked_for(
    world: World, runtime: str, marker: bool, is_carried: bool
) -> None:
    scene = Scene.begin(world, runtime)
    scene.sign("tools/base/lib/call.py", b"x = 1\n")
    if marker:
        scene.write("tools/demo/__init__.py", b"")
    assert bool(scene.carried().library) is is_carried


def test_a_library_that_is_not_there_is_refused(world: World) -> None:
    error = refused("invalid_item", Scene.begin(world, LIBRARY).carried)
    assert "found no files" in error.message


# --- a project as the anchor ---


def test_a_project_as_the_anchor_is_not_sealed_and_needs_to_be_approved(world: World) -> None:
    scene = Scene.begin(world, "anchor: {mode: always, root: project_path}\n")
    assert refused("person_required", scene.carried).hint == "rye trust project"
    trust = world.trust()
    assert trust.approvals is not None
    trust.approvals.approve_project()
    carried = scene.carried()
    assert carried.sealed is False
    assert carried.why_not_sealed is not None
    assert carried.anchor is not None
    assert carried.anchor.source == world.project


# --- rules that make no sense ---


@pytest.mark.parametrize(
    "field",
    [
        "enabled: 'yes'",
        "scope: everything",
        "recursive: 1",
        "extensions: .py",
        "extensions: [py]",
        "extensions: ['./x']",
        "exclude_dirs: tests",
        "exclude_dirs: [1]",
        "other: 1",
    ],
)
def test_rules_that_make_no_sense_are_refused_with_their_field(world: World, field: str) -> None:
    scene = Scene.begin(world, f"verify_deps: {{{field}}}\n")
    with pytest.raises(RyeError) as caught:
        rules_of(scene.chain(world.trust()))
    assert caught.value.code == "invalid_item"
    (issue,) = caught.value.details["issues"]
    assert issue["field"] == f"verify_deps.{field.partition(':')[0]}"
