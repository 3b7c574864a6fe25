"""What names an artifact or a commit, what a challenge offers, and what `sources.toml` may say."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from rye_mcp.errors import RyeError
from rye_mcp.items import Space, SpaceName
from rye_mcp.sharing.artifact import SharedFile, read_manifest, write_manifest
from rye_mcp.sharing.credentials import challenges_in
from rye_mcp.sharing.reference import GitReference, Reference, is_loopback, parse_reference
from rye_mcp.sharing.sources import Pin, Source, Sources, read_sources
from tests.trust_world import refused

DIGEST = "sha256:" + "a" * 64
COMMIT = "b" * 40


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("localhost/tools:1", Reference("localhost", "tools", "1")),
        ("localhost:5000/team/tools:1.0", Reference("localhost:5000", "team/tools", "1.0")),
        ("ghcr.io/team/my-tools_x:a", Reference("ghcr.io", "team/my-tools_x", "a")),
        (f"ghcr.io/a/b@{DIGEST}", Reference("ghcr.io", "a/b", None, DIGEST)),
        (f"ghcr.io/a/b:1@{DIGEST}", Reference("ghcr.io", "a/b", "1", DIGEST)),
        ("[::1]:5000/tools:1", Reference("[::1]:5000", "tools", "1")),
        (f"git+https://example.com/a.git@{COMMIT}", GitReference("https://example.com/a.git", COMMIT)),
        ("git+https://example.com/a@main#x/y", GitReference("https://example.com/a", "main", "x/y")),
        ("git+file:///srv/a.git@v1", GitReference("file:///srv/a.git", "v1")),
    ],
)
def test_a_reference_is_written_as_it_is_read(text: str, expected: object) -> None:
    found = parse_reference(text)
    assert found == expected
    assert str(found) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tools:1",
        "team/tools:1",
        "ghcr.io/tools",
        "ghcr.io/Tools:1",
        "ghcr.io/../tools:1",
        "ghcr.io//tools:1",
        "ghcr.io/tools:",
        "ghcr.io/tools:a b",
        "ghcr.io/tools:1?x=y",
        "ghcr.io/tools@sha256:abc",
        f"ghcr.io/tools@{DIGEST.upper()}",
        "https://ghcr.io/tools:1",
        "user:password@ghcr.io/tools:1",
        "-x.io/tools:1",
        "ghcr.io/" + "a" * 300 + ":1",
        "git+https://example.com/a.git",
        "git+https://user:password@example.com/a@main",
        "git+http://example.com/a@main",
        "git+ssh://example.com/a@main",
        "git+ext::sh -c touch% /tmp/x@main",
        "git+file://-x/a@main",
        "git+https://example.com/a@--upload-pack=touch",
        "git+https://example.com/a@main..next",
        "git+https://example.com/a@main#../x",
        "git+https://example.com/a@main#/x",
        "git+https://example.com/a@" + "m" * 3000,
    ],
)
def test_what_is_no_reference_is_refused(text: str) -> None:
    refused("invalid_reference", lambda: parse_reference(text))


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", True),
        ("LOCALHOST:5000", True),
        ("127.0.0.1:5000", True),
        ("127.9.9.9", True),
        ("[::1]:5000", True),
        ("::1", True),
        ("localhost.example.com", False),
        ("registry.example.com:5000", False),
        ("10.0.0.1", False),
        ("0.0.0.0", False),  # noqa: S104 - a name to look at
    ],
)
def test_this_machine_is_known_by_its_name_or_its_address(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ('Bearer realm="https://a/t",service="s"', [("bearer", {"realm": "https://a/t", "service": "s"})]),
        ('Basic realm="x"', [("basic", {"realm": "x"})]),
        ('Basic realm="x, y", Bearer realm="z"', [("basic", {"realm": "x, y"}), ("bearer", {"realm": "z"})]),
        (r'bearer realm="a\"b"', [("bearer", {"realm": 'a"b'})]),
        ("Bearer realm=plain", [("bearer", {"realm": "plain"})]),
        ("Negotiate", []),
        ("Basic", [("basic", {})]),
        ("", []),
    ],
)
def test_a_challenge_is_read_as_it_was_meant(header: str, expected: object) -> None:
    assert [(each.scheme, each.parameters) for each in challenges_in(header)] == expected


def test_the_same_files_make_the_same_manifest_whatever_their_order() -> None:
    files = [SharedFile("tools/b.py", b"b"), SharedFile("tools/a.py", b"", executable=True)]
    manifest = write_manifest(files)
    assert manifest == write_manifest(reversed(files))
    layers = read_manifest(manifest)
    assert [(each.path, each.size, each.executable) for each in layers] == [
        ("tools/a.py", 0, True),
        ("tools/b.py", 1, False),
    ]


PIN = Pin("c" * 64, "d" * 64)
SOURCE = Source(Reference("ghcr.io", "a/b", "1"), DIGEST, {"tools/a.py": PIN, "tools/é.json": Pin("e" * 64)})
OTHER = Source(GitReference("https://example.com/a", "main", "x"), f"git:{COMMIT}", {"knowledge/a.md": PIN})


def test_the_sources_are_read_as_they_are_written(tmp_path: Path) -> None:
    sources = Sources().having(OTHER).having(SOURCE)
    data = sources.render()
    (tmp_path / "sources.toml").write_bytes(data)
    found = read_sources(Space(SpaceName.PROJECT, tmp_path))
    assert found.sources == sources.sources == (SOURCE, OTHER)
    assert found.before == data
    assert found.render() == data
    assert tomllib.loads(data.decode())["source"][1]["digest"] == f"git:{COMMIT}"
    assert read_sources(Space(SpaceName.PROJECT, tmp_path / "none")) == Sources()


def test_a_commit_is_the_digest_of_a_source_in_git(tmp_path: Path) -> None:
    """What the list below changes in it is all that is wrong with those texts."""
    (tmp_path / "sources.toml").write_text(FROM_GIT, encoding="ascii")
    [source] = read_sources(Space(SpaceName.PROJECT, tmp_path)).sources
    assert str(source.pinned) == f"git+https://example.com/a@{COMMIT}"


def test_a_source_takes_the_place_of_the_one_of_its_name() -> None:
    later = Source(Reference("ghcr.io", "a/b", "2"), DIGEST)
    assert Sources().having(SOURCE).having(later).sources == (later,)


HEAD = f'version = 1\n[[source]]\nref = "ghcr.io/a/b:1"\ndigest = "{DIGEST}"\n'
FROM_GIT = f'version = 1\n[[source]]\nref = "git+https://example.com/a@main"\ndigest = "git:{COMMIT}"\n'
FILE = f'"tools/a.py" = {{ sha256 = "{"c" * 64}" }}\n'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "version = 2\n",
        "version = true\n",
        "version = 1\nmore = 1\n",
        "version = 1\nsource = 1\n",
        "version = 1\n[[source]]\n",
        HEAD.replace('"ghcr.io/a/b:1"', "1"),
        HEAD.replace(f'"{DIGEST}"', "1"),
        "version = 1\nsource = [1]\n",
        HEAD + "files = 1\n",
        HEAD.replace("ghcr.io/a/b:1", "a/b"),
        HEAD.replace("sha256", "md5"),
        HEAD.replace(DIGEST, f"git:{COMMIT}"),
        FROM_GIT.replace(f'"git:{COMMIT}"', "1"),
        FROM_GIT.replace("git:", ""),
        FROM_GIT.replace(COMMIT, "main"),
        HEAD.replace("ghcr.io/a/b:1", "git+https://example.com/a@main"),
        HEAD + "more = 1\n",
        HEAD + "[source.files]\n" + FILE.replace("tools/a.py", "../a.py"),
        HEAD + "[source.files]\n" + FILE.replace("tools/a.py", "config/rye.yaml"),
        HEAD + "[source.files]\n" + FILE.replace("c" * 64, "c"),
        HEAD + "[source.files]\n" + FILE.replace(f'"{"c" * 64}"', "1"),
        HEAD + "[source.files]\n" + FILE.replace(" }", ', signer = "x" }'),
        HEAD + "[source.files]\n" + FILE.replace(" }", ", more = 1 }"),
        HEAD + "[source.files]\n" + FILE + FILE,
        HEAD + "[source.files]\n" + FILE + HEAD.partition("\n")[2],
        HEAD
        + "[source.files]\n"
        + FILE
        + HEAD.partition("\n")[2].replace("a/b", "a/c")
        + "[source.files]\n"
        + FILE,
        "version = 1\nsource = [" + "[" * 3000,
        "a." * 3000 + "b = 1\n",
        "\ud800",
    ],
)
def test_a_list_of_sources_that_says_anything_else_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "sources.toml").write_bytes(text.encode("utf-8", "surrogatepass"))
    error = refused("malformed_sources", lambda: read_sources(Space(SpaceName.PROJECT, tmp_path)))
    assert isinstance(error, RyeError)
    assert error.where == str(tmp_path / "sources.toml")
