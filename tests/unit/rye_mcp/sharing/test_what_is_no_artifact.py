"""Manifests and objects of git that are well-formed, and describe what is no shared directory."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from rye_mcp.errors import RyeError
from rye_mcp.sharing.artifact import (
    ARTIFACT_TYPE,
    FILE_TYPE,
    MAX_MANIFEST_BYTES,
    PATH_ANNOTATION,
    digest_of,
    read_manifest,
)
from rye_mcp.sharing.git import DIRECTORY, FILE, fetched
from rye_mcp.sharing.reference import GitReference
from rye_mcp.trust.dependency_manifest import MAX_CARRIED_BYTES, MAX_LISTED_BYTES
from tests.trust_world import refused

# --- manifests ---

TOO_MANY = MAX_CARRIED_BYTES // MAX_LISTED_BYTES + 1
EMPTY = {"mediaType": "application/vnd.oci.empty.v1+json"}


def layer(number: int = 0, **changes: Any) -> dict[str, Any]:
    path = f"tools/demo/tool{number}.py"
    return {
        "mediaType": FILE_TYPE,
        "digest": digest_of(b""),
        "size": 0,
        "annotations": {PATH_ANNOTATION: path},
    } | changes


def manifest(*layers: dict[str, Any]) -> bytes:
    return json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "artifactType": ARTIFACT_TYPE,
            "config": EMPTY,
            "layers": layers,
        }
    ).encode()


MANIFESTS = {
    "too long": (manifest(layer()) + b" " * MAX_MANIFEST_BYTES, "a manifest of at most"),
    "no table": (b"[]", "a manifest of OCI"),
    "no annotations": (manifest(layer(annotations=None)), "a layer with the annotation"),
    "no digest": (manifest(layer(digest=None)), "a SHA256"),
    "another digest": (manifest(layer(digest="md5:0")), "a SHA256"),
    "too much together": (
        manifest(
            *(layer(each, size=MAX_LISTED_BYTES) for each in range(MAX_CARRIED_BYTES // MAX_LISTED_BYTES + 1))
        ),
        "bytes in all layers",
    ),
}


def test_the_manifest_that_the_cases_change_is_one() -> None:
    assert [each.path for each in read_manifest(manifest(layer()))] == ["tools/demo/tool0.py"]


@pytest.mark.parametrize("case", MANIFESTS)
def test_another_manifest_names_no_files(case: str) -> None:
    data, expected = MANIFESTS[case]
    assert expected in refused("invalid_artifact", lambda: read_manifest(data)).message


# --- objects of git ---

GIT = """\
#!/bin/sh
case " $* " in
*" init "*) mkdir -p "$GIT_DIR/refs/rye" ;;
*" fetch "*) cp "$0.ref" "$GIT_DIR/refs/rye/pulled" ;;
*" cat-file "*) cat "$0.objects" ;;
esac
"""

Object = tuple[str, bytes, bytes]


def made(kind: bytes, content: bytes) -> Object:
    data = b"%b %d\0%b" % (kind, len(content), content)
    return hashlib.sha1(data, usedforsecurity=False).hexdigest(), kind, content


def tree_of(*entries: tuple[bytes, bytes, Object]) -> Object:
    return made(b"tree", b"".join(b"%b %b\0" % each[:2] + bytes.fromhex(each[2][0]) for each in entries))


def commit_of(tree: Object) -> Object:
    return made(b"commit", f"tree {tree[0]}\nauthor mia\n\nsays\n".encode())


def nested(levels: int) -> list[Object]:
    trees = [tree_of()]
    for _ in range(levels):
        trees.append(tree_of((DIRECTORY, b"d", trees[-1])))
    return trees[::-1]


async def paths(
    place: Path, objects: Iterable[Object], *, revision: str = "main", said: bytes = b""
) -> list[str]:
    """The paths below a commit, as a git says that has fetched these objects, the first by its reference."""
    program, all_objects = place / "git", tuple(objects)
    program.write_text(GIT)
    program.chmod(0o755)
    (place / "git.ref").write_text(all_objects[0][0])
    written = (b"%b %b %d\n%b\n" % (name.encode(), kind, len(data), data) for name, kind, data in all_objects)
    (place / "git.objects").write_bytes(b"".join(written) + said)
    environment = {"PATH": f"{place}{os.pathsep}/usr/bin{os.pathsep}/bin"}
    reference = GitReference("https://example.com/x", revision)
    async with fetched(reference, "", environment, lambda _: None) as commit:
        tree = commit.directory("")
        assert tree is not None
        return [each.path for each in commit.below(tree)]


BLOB = made(b"blob", b"hello")
TREE = tree_of((FILE, b"file", BLOB))
COMMIT = commit_of(TREE)
TAG = made(b"tag", f"object {COMMIT[0]}\ntype commit\ntag v1\n".encode())
OF_A_TREE = made(b"tag", f"object {TREE[0]}\ntype tree\ntag v1\n".encode())
UP, CUT = tree_of((DIRECTORY, b"..", TREE)), made(b"tree", b"100644 file\0short")
POSING = commit_of(BLOB)


@pytest.mark.parametrize("first", [COMMIT, TAG], ids=["commit", "tag"])
async def test_a_commit_is_read_behind_its_tag_too(tmp_path: Path, first: Object) -> None:
    assert await paths(tmp_path, [first, COMMIT, TREE, BLOB]) == ["file"]
    assert len(await paths(tmp_path, [commit_of(nested(40)[0]), *nested(40)])) == 40


CASES: dict[str, tuple[list[Object], dict[str, Any], str]] = {
    "the tag of a tree": ([OF_A_TREE, TREE, BLOB], {}, "a commit as main"),
    "another commit": ([COMMIT, TREE, BLOB], {"revision": "0" * 40}, "the commit 0000"),
    "a missing object": ([COMMIT, TREE], {"said": f"{BLOB[0]} missing\n".encode()}, "every object"),
    "a file as tree": ([POSING, BLOB], {}, "a tree as"),
    "a name that leads up": ([commit_of(UP), UP, TREE, BLOB], {}, "a directory of git"),
    "a tree that is cut": ([commit_of(CUT), CUT], {}, "a directory of git"),
    "a tree that is too deep": ([commit_of(nested(42)[0]), *nested(42)], {}, "files and directories"),
}


@pytest.mark.parametrize("case", CASES)
async def test_other_objects_are_no_commit(tmp_path: Path, case: str) -> None:
    objects, options, expected = CASES[case]
    with pytest.raises(RyeError) as caught:
        await paths(tmp_path, objects, **options)
    assert caught.value.code == "invalid_artifact"
    assert expected in caught.value.message
