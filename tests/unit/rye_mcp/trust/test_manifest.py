"""The system space: what its manifest lists is what there is, and the package pins the manifest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rye_mcp.errors import RyeError
from rye_mcp.items import SYSTEM_MANIFEST_KIND, SYSTEM_MANIFEST_NAME, ItemFile, ItemType, Space, SpaceName
from rye_mcp.trust.manifest import SystemManifest, render_manifest
from rye_mcp.trust.scope import Evidence, Role
from rye_mcp.trust.verify import Trust, verify_item
from scripts.reference import seal
from tests.trust_world import refused

SYSTEM_SPACE = seal.system_space_of_package()
ITEM = "rye/core/primitives/subprocess"


def system_file(content: bytes | None = None, item_id: str = ITEM, extension: str = ".yaml") -> ItemFile:
    path = SYSTEM_SPACE / f"tools/{item_id}{extension}"
    space = Space(SpaceName.SYSTEM, SYSTEM_SPACE)
    return ItemFile(
        space, ItemType.TOOL, item_id, extension, path, path.read_bytes() if content is None else content
    )


def trust(tmp_path: Path, system_space: Path = SYSTEM_SPACE) -> Trust:
    return Trust(user_space=tmp_path / ".ai", system_space=system_space, environment={})


def test_the_manifest_and_its_pin_are_not_stale(capsys: pytest.CaptureFixture[str]) -> None:
    assert seal.main(["--check"]) == 0, capsys.readouterr().out


def test_the_manifest_marks_the_system_space() -> None:
    manifest = json.loads((SYSTEM_SPACE / SYSTEM_MANIFEST_NAME).read_bytes())
    assert manifest["kind"] == SYSTEM_MANIFEST_KIND
    assert f"tools/{ITEM}.yaml" in manifest["files"]
    assert SYSTEM_MANIFEST_NAME not in manifest["files"]


def test_a_system_item_passes_by_the_manifest(tmp_path: Path) -> None:
    file = system_file()
    item = verify_item(file, trust(tmp_path), role=Role.PRIMITIVE)
    assert (item.evidence, item.timestamp, item.role) == (Evidence.MANIFEST, None, Role.PRIMITIVE)
    assert item.digest == hashlib.sha256(file.content).hexdigest()
    signer = item.signer.as_dict()
    assert (signer["kind"], signer["fingerprint"]) == ("system", None)
    assert signer["owner"].startswith("rye-mcp ")


def test_the_same_files_give_the_same_manifest(tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        (tmp_path / name).write_text(name)
    files = seal.list_files(tmp_path)
    assert list(files) == ["a", "b", "c"]
    assert render_manifest(files) == render_manifest(dict(reversed(files.items())))


def test_sealing_leaves_out_what_python_leaves_behind(tmp_path: Path) -> None:
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__/item.pyc").touch()
    (tmp_path / SYSTEM_MANIFEST_NAME).touch()
    assert not seal.list_files(tmp_path)


@pytest.mark.parametrize(
    "make",
    [lambda path: (path / "link").symlink_to("/etc/passwd"), lambda path: (path / ".hidden").touch()],
    ids=["link", "hidden"],
)
def test_sealing_refuses_what_no_item_may_be(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path)
    refused("unsafe_path", lambda: seal.list_files(tmp_path))


def test_sealing_pins_exactly_the_manifest() -> None:
    module = 'MANIFEST_SHA256: Final = "old"\nrest = "kept"\n'
    pinned = hashlib.sha256(b"manifest").hexdigest()
    assert seal.render_pin(b"manifest", module) == f'MANIFEST_SHA256: Final = "{pinned}"\nrest = "kept"\n'
    with pytest.raises(RyeError, match="expected a line"):
        seal.render_pin(b"manifest", "nothing\n")


@pytest.mark.parametrize(
    "manifest",
    [[], {}, {"kind": SYSTEM_MANIFEST_KIND, "version": 2, "files": {}}, {"kind": "other", "version": 1}],
    ids=str,
)
def test_what_is_pinned_and_no_manifest_is_refused(tmp_path: Path, manifest: object) -> None:
    data = json.dumps(manifest).encode()
    pin = hashlib.sha256(data).hexdigest()
    refused("malformed_trust", lambda: SystemManifest.parse(data, tmp_path, pin=pin))


def test_sealing_writes_both_files_and_the_gate_then_lets_pass_what_is_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, pin_file = tmp_path / ".ai", tmp_path / "sealed.py"
    (root / "tools/rye").mkdir(parents=True)
    item = root / "tools/rye/new.yaml"
    item.write_bytes(b"name: new\n")
    pin_file.write_text('MANIFEST_SHA256: Final = "none"\n')

    def sealed(*arguments: str) -> int:
        return seal.main(arguments, system_space=root, pin_file=pin_file)

    assert sealed("--check") == 1
    assert capsys.readouterr().out.count("stale: ") == 2
    assert sealed() == 0
    assert sealed("--check") == 0
    pin = pin_file.read_text().split('"')[1]
    file = ItemFile(Space(SpaceName.SYSTEM, root), ItemType.TOOL, "rye/new", ".yaml", item, item.read_bytes())
    trust = Trust(user_space=tmp_path / "user", system_space=root, environment={}, system_pin=pin)
    assert verify_item(file, trust, role=Role.TOOL).evidence is Evidence.MANIFEST
    item.write_bytes(b"name: newer\n")
    assert sealed("--check") == 1
