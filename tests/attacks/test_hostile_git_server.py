"""Attack: a git server sends without end, packs much into little, or leads elsewhere."""

from __future__ import annotations

import gzip
import os
import resource
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest

from rye_mcp.errors import RyeError
from rye_mcp.sharing import checkout, git
from rye_mcp.sharing.checkout import checked_out
from tests.http_server import Connection, Request, authority, serve, server_tls
from tests.registry_world import commit

LIMIT = 1 << 20


@pytest.fixture
def low_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is half a gigabyte: too much for a test to send."""
    monkeypatch.setattr(git, "MAX_FETCHED_BYTES", LIMIT)
    monkeypatch.setattr(checkout, "MAX_FETCHED_BYTES", LIMIT)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    return place


async def files_of(source: str, **variables: str) -> list[str]:
    """The paths in a repository, as they were written."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", **variables}
    async with checked_out(source, environment, lambda _: None) as found:
        return sorted(path.relative_to(found.directory).as_posix() for path in found.directory.rglob("*"))


async def is_refused(code: str, source: str, **variables: str) -> RyeError:
    with pytest.raises(RyeError) as caught:
        await files_of(source, **variables)
    assert caught.value.code == code, caught.value.message
    return caught.value


def tree_of_trees(place: Path, *, depth: int, width: int) -> str:
    """A commit whose one blob is found at `width ** depth` paths."""

    def git(*arguments: str, given: str = "") -> str:
        names = ("-c", "user.name=m", "-c", "user.email=m@example.com")
        done = subprocess.run(
            ["git", *names, *arguments], cwd=place, input=given, capture_output=True, check=True, text=True
        )
        return done.stdout.strip()

    git("init", "--quiet", "--initial-branch=main")
    entry = f"100644 blob {git('hash-object', '-w', '--stdin', given='x' * 10_000)}"
    for _ in range(depth):
        rows = "".join(f"{entry}\t{number}\n" for number in range(width))
        entry = f"040000 tree {git('mktree', given=rows)}"
    made = git("commit-tree", entry.split()[2], "-m", "x")
    git("update-ref", "refs/heads/main", made)
    return made


@pytest.mark.usefixtures("low_limit")
@pytest.mark.parametrize("content", ["random", "zeros"])
async def test_no_more_is_kept_than_the_limit(tmp_path: Path, temporary: Path, content: str) -> None:
    """One pack is too large as it is sent, the other one as it is unpacked."""
    project = tmp_path / "project"
    project.mkdir()
    size = 3 * LIMIT
    (project / "large").write_bytes(os.urandom(size) if content == "random" else bytes(size))
    commit(project)
    await is_refused("too_large", f"file://{project}")
    assert os.listdir(temporary) == []  # noqa: PTH208


@pytest.mark.usefixtures("low_limit", "temporary")
async def test_what_is_small_in_git_is_not_written_a_thousand_times(tmp_path: Path) -> None:
    tree_of_trees(tmp_path, depth=3, width=10)
    assert (await is_refused("invalid_artifact", f"file://{tmp_path}@main")).message.endswith("found more")


@pytest.mark.usefixtures("low_limit", "temporary")
async def test_a_tree_that_is_listed_without_end_is_ended(tmp_path: Path) -> None:
    tree_of_trees(tmp_path, depth=9, width=10)
    await is_refused("too_large", f"file://{tmp_path}@main")


def test_a_hard_limit_of_the_user_that_is_lower_is_kept() -> None:
    """Only root could raise it, so a shell that tried to would end before git is started."""
    lower = {resource.RLIMIT_FSIZE: 1 << 20, resource.RLIMIT_DATA: 1 << 30}

    def lower_them() -> None:
        for which, most in lower.items():
            resource.setrlimit(which, (most, most))

    program = "from rye_mcp.sharing.git import limits; print(*limits())"
    said = subprocess.run(
        [sys.executable, "-B", "-c", program],
        preexec_fn=lower_them,
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.split() == [str(each) for each in lower.values()]


# --- over https ---


def packet(text: str) -> bytes:
    return f"{len(text) + 4:04x}{text}".encode()


def repository_at(place: Path) -> Callable[[Connection, Request], Awaitable[None]]:
    """What a git server answers for a repository."""

    async def answer(connection: Connection, request: Request) -> None:
        body = request.body
        if request.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        advertises = request.method == "GET"
        said = await anyio.run_process(
            ["git", "upload-pack", "--stateless-rpc", *["--advertise-refs"] * advertises, str(place)],
            env={**os.environ, "GIT_PROTOCOL": request.headers.get("git-protocol", "")},
            input=body,
            check=False,
        )
        head = packet("# service=git-upload-pack\n") + b"0000" if advertises else b""
        kind = "advertisement" if advertises else "result"
        await connection.reply(
            body=head + said.stdout, headers={"Content-Type": f"application/x-git-upload-pack-{kind}"}
        )

    return answer


@pytest.fixture
def certificates(tmp_path: Path) -> str:
    place = tmp_path / "authority.pem"
    authority().cert_pem.write_to_path(place)
    return str(place)


async def test_the_authorities_of_the_user_count_and_nothing_is_sent_without_one(
    tmp_path: Path, certificates: str
) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project/a.md").write_text("a\n")
    commit(tmp_path / "project")
    async with serve(repository_at(tmp_path / "project/.git"), tls=server_tls("localhost")) as server:
        source = f"https://localhost:{server.port}/x.git"
        await is_refused("registry_unreachable", source)
        await is_refused("registry_unreachable", source, GIT_SSL_NO_VERIFY="1")
        await is_refused("registry_unreachable", source, GIT_SSL_CAINFO=Path(certificates).name)
        assert server.requests == []
        assert await files_of(source, GIT_SSL_CAINFO=certificates) == ["a.md"]


async def test_the_configuration_of_the_user_names_authorities(tmp_path: Path, certificates: str) -> None:
    (tmp_path / "project").mkdir()
    commit_of_a_file = tmp_path / "project/a.md"
    commit_of_a_file.write_text("a\n")
    commit(tmp_path / "project")
    (tmp_path / "home").mkdir()
    (tmp_path / "home/.gitconfig").write_text(f"[http]\n\tsslCAInfo = {certificates}\n")
    async with serve(repository_at(tmp_path / "project/.git"), tls=server_tls("localhost")) as server:
        source = f"https://localhost:{server.port}/x.git"
        assert await files_of(source, HOME=str(tmp_path / "home")) == ["a.md"]


@pytest.mark.parametrize("scheme", ["http", "file", "ext"])
async def test_a_redirect_leads_to_no_other_protocol(tmp_path: Path, scheme: str, certificates: str) -> None:
    canary = tmp_path / "canary"
    async with serve(repository_at(tmp_path)) as plain:
        places = {
            "http": f"{plain.url}/x.git/info/refs",
            "file": f"file://{tmp_path}/info/refs",
            "ext": f"ext::touch% {canary}",
        }

        async def redirects(connection: Connection, request: Request) -> None:
            await connection.reply("302 Found", headers={"Location": places[scheme]})

        async with serve(redirects, tls=server_tls("localhost")) as server:
            source = f"https://localhost:{server.port}/x.git"
            await is_refused("registry_unreachable", source, GIT_SSL_CAINFO=certificates)
            assert server.requests
    assert not plain.requests
    assert not canary.exists()


async def test_a_server_without_packs_of_its_own_is_not_searched(tmp_path: Path, certificates: str) -> None:
    """A server that only has files could have a client fetch as many as it names, one by one."""

    async def dumb(connection: Connection, request: Request) -> None:
        await connection.reply(body=f"{'a' * 40}\trefs/heads/main\n".encode())

    async with serve(dumb, tls=server_tls("localhost")) as server:
        source = f"https://localhost:{server.port}/x.git@main"
        await is_refused("registry_unreachable", source, GIT_SSL_CAINFO=certificates)
        assert {request.target.partition("?")[0] for request in server.requests} == {
            "/x.git/info/refs",
            "/x.git/HEAD",
        }
