"""Attack: something beside a signed tool is put there, changed, moved or linked, to run with it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rye_mcp.executor.job.snapshot import SnapshotStore
from rye_mcp.trust.scope import SignerKind
from tests.carry_world import ANCHOR, Scene
from tests.trust_world import World, new_key, refused

IMPORTS = "import json\nprint(json.__file__)"


def anchored(world: World, says: str = "") -> Scene:
    scene = Scene.begin(world, says=says)
    scene.sign("tools/demo/__init__.py", b"# a package\n")
    return scene


def test_an_unsigned_module_beside_a_tool_is_not_carried(world: World, own_place: Path) -> None:
    """Python looks into the directory of a script first: there is nothing but what was verified."""
    scene = Scene.begin(world, says=IMPORTS)
    scene.write("tools/demo/json.py", b"raise SystemExit('evil')\n")
    store = SnapshotStore(own_place / "snapshots")
    with store.create(scene.carried()) as snapshot:
        run = subprocess.run(
            [sys.executable, "-s", "-B", str(snapshot.tool_path)], check=True, capture_output=True, text=True
        )
        names = [path.name for path in snapshot.tool_dir.iterdir()]
    assert "json/__init__.py" in run.stdout
    assert names == ["report.py"]
    store.close()


def test_an_unsigned_module_in_an_anchor_refuses_the_run(world: World) -> None:
    scene = anchored(world)
    scene.write("tools/demo/json.py")
    refused("unsigned", scene.carried)


def test_somebody_elses_signature_does_not_count(world: World) -> None:
    scene = anchored(world)
    file = world.file(b"x = 1\n", item_id="demo/helper")
    world.stored(world.signed_by_another_program(file, new_key()))
    refused("untrusted_key", scene.carried)


def test_a_signed_module_under_another_name_is_refused(world: World) -> None:
    scene = anchored(world)
    content = scene.sign("tools/demo/helper.py", b"x = 1\n")
    scene.write("tools/demo/json.py", content)
    refused("bad_signature", scene.carried)


@pytest.mark.parametrize("where", ["tools/other", "tools/demo/sub", "tools"])
def test_a_manifest_of_another_directory_lists_nothing(world: World, where: str) -> None:
    """What is harmless there may be anything here: `data.json` that is read, `json.py` that is run."""
    scene = Scene.begin(world)
    other = Scene(world, tool=f"{where.removeprefix('tools').removeprefix('/')}/x".removeprefix("/"))
    other.bring({"json.py": b"x = 1\n"}, where)
    shutil.copy(scene.root / where / "deps.manifest.yaml", scene.directory / "deps.manifest.yaml")
    scene.write("tools/demo/json.py")
    refused("bad_signature", scene.carried)


def test_a_manifest_of_a_tool_does_not_count_for_its_namesake_elsewhere(world: World) -> None:
    scene = Scene.begin(world)
    scene.bring({"data.json": b"{}"})
    moved = scene.root / "tools/Demo"
    scene.directory.rename(moved)
    moved.rename(scene.root / "tools/demo2")
    other = Scene(world, tool="demo2/report")
    refused("bad_signature", other.carried)


def test_a_listing_that_was_extended_is_refused(world: World) -> None:
    scene = Scene.begin(world)
    scene.bring({"data.json": b"{}"})
    manifest = scene.directory / "deps.manifest.yaml"
    scene.write("tools/demo/json.py")
    line = manifest.read_bytes().split(b"\n", 1)[0]
    scene.list_files({"data.json": b"{}", "json.py": b"x = 1\n"})
    extended = manifest.read_bytes().split(b"\n", 1)[1]
    manifest.write_bytes(line + b"\n" + extended)
    refused("content_changed", scene.carried)
    manifest.write_bytes(extended)
    refused("unsigned", scene.carried)


def test_a_listing_that_a_stranger_signed_is_refused(world: World) -> None:
    scene = Scene.begin(world)
    scene.bring({"json.py": b"x = 1\n"})
    scene.world.stored(world.signed_by_another_program(scene.list_files({"json.py": b"x = 1\n"}), new_key()))
    refused(None, scene.carried)


def test_an_agent_exchanges_nothing_that_a_persons_tool_rests_on(world: World) -> None:
    """The tool may be allowed secrets, as a person vouches for it; whatever it imports gets them too."""
    scene = anchored(world)
    scene.sign("tools/demo/helper.py", b"x = 1\n", world.key(SignerKind.AGENT))
    refused("out_of_scope", scene.carried)


@pytest.mark.parametrize("linked", ["tools", "tools/demo", "tools/demo/sub", "tools/demo/sub/data.py"])
@pytest.mark.parametrize("listed", [True, False])
def test_a_link_at_any_component_leads_nowhere(world: World, linked: str, listed: bool) -> None:
    scene = anchored(world)
    content = scene.sign("tools/demo/sub/data.py", b"x = 1\n")
    if listed:
        scene.list_files({"sub/data.py": content})
    place, elsewhere = scene.root / linked, world.root / "elsewhere"
    place.rename(elsewhere)
    place.symlink_to(elsewhere)
    if linked == "tools/demo/sub" and not listed:
        assert scene.names() == ["__init__.py"]  # not entered, so there is nothing in it
    else:
        refused("unsafe_path", scene.carried)


@pytest.mark.parametrize("listed", [True, False])
def test_a_pipe_in_the_place_of_a_file_is_refused_without_waiting(world: World, listed: bool) -> None:
    scene = anchored(world)
    os.mkfifo(scene.directory / "helper.py")
    if listed:
        scene.list_files({"helper.py": b""})
    error = refused("unsafe_path", scene.carried)
    assert "FIFO" in error.message


def test_a_directory_full_of_names_is_not_walked_through_for_ever(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rye_mcp.spaces.source_tree.MAX_LISTED_NAMES", 100)
    scene = anchored(world)
    for number in range(101):
        (scene.directory / f"{number}.txt").touch()
    refused("too_large", scene.carried)


def test_a_tool_does_not_reach_above_its_directory_by_a_listing(world: World) -> None:
    """`render_listing` writes no such path; who signs by another program cannot either."""
    scene = Scene.begin(world)
    file = scene.list_files({"aaaaaaaaaaaaaaaa": b"x"})
    text = file.content.split(b"\n", 1)[1].replace(b"aaaaaaaaaaaaaaaa", b"../../keys/x.pem")
    world.stored(world.signed(type(file)(file.space, file.item_type, file.item_id, ".yaml", file.path, text)))
    refused("invalid_item", scene.carried)


def test_keys_and_decisions_are_no_dependencies(world: World) -> None:
    """Above the topmost directory of tools is what nobody but the user may read."""
    runtime = ANCHOR.replace("mode: auto", "mode: always\n  root: tool_parent")
    scene = Scene.begin(world, runtime, tool="report")
    refused("invalid_item", scene.carried)
