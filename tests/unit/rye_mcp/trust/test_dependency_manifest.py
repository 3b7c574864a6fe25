"""What lists the files of a directory: one form, honest paths, and a door of its own in the gate."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ruamel.yaml import YAML

from rye_mcp.items import ItemType, SpaceName
from rye_mcp.trust.dependency_manifest import (
    manifest_file,
    parse_listing,
    render_listing,
    verify_manifest,
)
from rye_mcp.trust.listing import folded
from rye_mcp.trust.scope import Role, SignerKind
from rye_mcp.trust.verify import verify_item, verify_listing
from tests.trust_world import World, new_key, refused

ONE, OTHER = "1" * 64, "e" * 64
FILES = {"data/prices.json": ONE, 'a "quoted" name.txt': OTHER, "größe.csv": ONE, "helpers.py": "0" * 64}


@pytest.mark.parametrize("files", [FILES, {"x": ONE}, {}])
def test_what_is_rendered_is_what_is_read_here_and_by_any_other_program(
    world: World, files: dict[str, str]
) -> None:
    listing = render_listing(files)
    assert dict(parse_listing(manifest_file(world.space(), "tools/demo", listing))) == files
    assert YAML(typ="safe", pure=True).load(listing) == {"version": 1, "files": files}


def test_the_same_files_give_the_same_bytes() -> None:
    assert render_listing(FILES) == render_listing(dict(reversed(FILES.items())))


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/etc/passwd",
        "../other/secret.py",
        "a/../b",
        "./a",
        "a//b",
        "a/",
        "a\\b",
        "a\nb",
        "a\tb",
        "a\x00b",
        "a\u202eb",
        "a\u200bb",
        "__pycache__/a.cpython-311.pyc",
        "a/__pycache__/b.py",
        "a.pyc",
        "a.PYC",
        "deps.manifest.yaml",
        "sub/deps.manifest.yaml",
        "x" * 256,
        "/".join("x" * 33),
        "half\udc80",
    ],
)
def test_an_invalid_path_is_not_listed(path: str) -> None:
    refused("invalid_item", lambda: render_listing({path: ONE}))


@pytest.mark.parametrize(
    "paths",
    [
        ("a.json", "A.json"),
        ("Data/a", "data/b"),
        ("stra\u00dfe", "STRASSE"),
        ("\u00e9", "e\u0301"),
        ("a", "a/b"),
        ("A", "a/b"),
    ],
)
def test_two_paths_that_some_file_system_cannot_tell_apart_are_not_listed(paths: tuple[str, str]) -> None:
    refused("invalid_item", lambda: render_listing(dict.fromkeys(paths, ONE)))


@pytest.mark.parametrize(
    "digest", ["", "1" * 63, "1" * 65, "G" * 64, "E" * 64, "1" * 63 + "\n", f'{ONE}"\n  "b": "{ONE}']
)
def test_what_is_no_hash_is_not_listed(digest: str) -> None:
    refused("invalid_item", lambda: render_listing({"a": digest}))


GOOD = f'version: 1\nfiles:\n  "a": "{ONE}"\n  "b": "{OTHER}"\n'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "version: 1\n",
        "version: 1\nfiles:\n",
        GOOD[:-1],
        GOOD + "\n",
        GOOD + "# more\n",
        GOOD + "other: true\n",
        GOOD.replace("version: 1", "version: 2"),
        GOOD.replace("version: 1", "version:  1"),
        "---\n" + GOOD,
        GOOD.replace('"a"', "a"),
        GOOD.replace('"a"', "'a'"),
        GOOD.replace('"a"', '"\\x61"'),
        GOOD.replace(f'"{ONE}"', ONE),
        GOOD.replace("  ", "    "),
        GOOD.replace('"b"', '"a"'),
        GOOD.replace('"a"', '"c"'),
        GOOD.replace('"a"', '"../a"'),
        GOOD.replace('"a"', "&x a"),
        f"version: 1\nfiles: {{a: {ONE}}}\n",
    ],
)
def test_any_other_form_is_refused(world: World, text: str) -> None:
    file = manifest_file(world.space(), "tools/demo", text.encode())
    refused("invalid_item", lambda: parse_listing(file))
    signed = world.signed(file)
    refused("invalid_item", lambda: verify_manifest(signed, world.trust(), role=Role.TOOL))


def test_what_passes_says_where_it_is_and_who_signed(world: World) -> None:
    file = world.signed(manifest_file(world.space(), "tools/demo/deep", render_listing(FILES)))
    manifest = verify_manifest(file, world.trust(), role=Role.TOOL)
    assert manifest.directory == "tools/demo/deep"
    assert dict(manifest.files) == FILES
    assert manifest.signer.kind is SignerKind.PERSON


@pytest.mark.parametrize(
    "directory", ["", ".", "knowledge/demo", "tools/de mo", "tools//demo", "tools/a/../b"]
)
def test_no_other_directory_has_one(world: World, directory: str) -> None:
    def sign_and_verify() -> None:
        signed = world.signed(manifest_file(world.space(), directory, render_listing(FILES)))
        verify_manifest(signed, world.trust(), role=Role.TOOL)

    refused("invalid_id", sign_and_verify)


def test_the_topmost_directory_of_tools_has_one_too(world: World) -> None:
    file = world.signed(manifest_file(world.space(), "tools", render_listing(FILES)))
    assert verify_manifest(file, world.trust(), role=Role.TOOL).directory == "tools"


def test_it_never_passes_as_an_item_nor_an_item_as_one(world: World) -> None:
    file = world.signed(manifest_file(world.space(), "tools/demo", render_listing(FILES)))
    refused("invalid_id", lambda: verify_item(file, world.trust(), role=Role.TOOL))
    item = world.signed()
    refused("invalid_id", lambda: verify_listing(item, world.trust(), role=Role.TOOL))
    other = replace(file, item_type=ItemType.KNOWLEDGE)
    refused("invalid_id", lambda: verify_listing(other, world.trust(), role=Role.TOOL))


@pytest.mark.parametrize(
    ("code", "content"),
    [("unsigned", None), ("content_changed", {"helpers.py": ONE})],
    ids=["unsigned", "changed"],
)
def test_what_is_not_authentic_does_not_pass(world: World, code: str, content: dict[str, str] | None) -> None:
    file = manifest_file(world.space(), "tools/demo", render_listing(FILES))
    if content is not None:
        line = world.signed(file).content.split(b"\n", 1)[0]
        file = replace(file, content=line + b"\n" + render_listing(content))
    refused(code, lambda: verify_manifest(file, world.trust(), role=Role.TOOL))


@pytest.mark.parametrize(
    ("kind", "space", "role", "code"),
    [
        (SignerKind.AGENT, SpaceName.PROJECT, Role.TOOL, None),
        (SignerKind.AGENT, SpaceName.PROJECT, Role.RUNTIME, "out_of_scope"),
        (SignerKind.AGENT, SpaceName.USER, Role.TOOL, "out_of_scope"),
        (SignerKind.PERSON, SpaceName.USER, Role.RUNTIME, None),
    ],
)
def test_a_signer_that_may_not_sign_the_item_may_not_sign_its_listing(
    world: World, kind: SignerKind, space: SpaceName, role: Role, code: str | None
) -> None:
    file = manifest_file(world.space(space), "tools/demo", render_listing(FILES))
    signed = world.signed(file, world.key(kind))
    if code is None:
        assert verify_manifest(signed, world.trust(), role=role).signer.kind is kind
    else:
        refused(code, lambda: verify_manifest(signed, world.trust(), role=role))


def test_a_stranger_signs_none(world: World) -> None:
    file = manifest_file(world.space(), "tools/demo", render_listing(FILES))
    signed = world.signed_by_another_program(file, new_key())
    refused("untrusted_key", lambda: verify_manifest(signed, world.trust(), role=Role.TOOL))


@pytest.mark.parametrize(("one", "other"), [("A/b", "a/B"), ("\u00c9", "e\u0301"), ("\ufb01x", "FIX")])
def test_what_some_file_system_takes_for_the_same_is_folded_to_the_same(one: str, other: str) -> None:
    assert folded(one) == folded(other)
