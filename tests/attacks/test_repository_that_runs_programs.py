"""Attack: a repository brings programs, links and wrong objects for whoever pulls from it."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from rye_mcp.errors import RyeError
from rye_mcp.sharing.fetching import Network
from rye_mcp.sharing.reference import parse_reference
from tests.registry_world import Member, author_in, commit, git, member_in, url
from tests.verb_world import app_of


@pytest.fixture
def alice(tmp_path: Path) -> Member:
    return author_in(tmp_path / "alice")


@pytest.fixture
def bob(tmp_path: Path) -> Member:
    return member_in(tmp_path / "bob")


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    return tmp_path / "canary"


def nothing_ran(canary: Path) -> None:
    assert not canary.exists()


async def is_refused(bob: Member, reference: str, code: str) -> None:
    before = bob.files()
    with pytest.raises(RyeError) as caught:
        await bob.pull(reference)
    assert caught.value.code == code, caught.value.message
    assert bob.files() == before


async def test_nothing_that_a_repository_names_is_started(alice: Member, bob: Member, canary: Path) -> None:
    project = alice.world.project
    touch = f"touch {shlex.quote(str(canary))}"
    (project / ".gitattributes").write_text("* filter=evil diff=evil merge=evil export-subst\n")
    (project / ".gitmodules").write_text(f'[submodule "x"]\n\tpath = x\n\turl = ext::sh -c "{touch}"\n')
    commit(project)
    for name in ("post-checkout", "pre-push", "post-upload", "reference-transaction", "post-merge"):
        hook = project / ".git/hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\n{touch}\n")
        hook.chmod(0o755)
    for option, value in {
        "filter.evil.smudge": touch,
        "filter.evil.process": touch,
        "uploadpack.packObjectsHook": f"sh -c '{touch}'",
        "core.fsmonitor": touch,
        "core.alternateRefsCommand": touch,
        "core.gitProxy": touch,
        "credential.helper": f"!{touch}",
        "alias.fetch": f"!{touch}",
    }.items():
        git(project, "config", option, value)
    pulled = await bob.pull(f"{url(alice)}@main")
    nothing_ran(canary)
    assert pulled.written == ("tools/demo/bye.py", "tools/demo/hello.py")


async def test_a_git_of_the_project_is_not_started(
    alice: Member, bob: Member, canary: Path, tmp_path: Path
) -> None:
    commit(alice.world.project)
    clone = tmp_path / "clone/bin"
    clone.mkdir(parents=True)
    (clone.parent / ".ai").mkdir()
    (clone / "git").write_text(f"#!/bin/sh\ntouch {shlex.quote(str(canary))}\n")
    (clone / "git").chmod(0o755)
    why_not = app_of(bob.world).trust.directories.why_not
    environment = {"HOME": str(tmp_path), "PATH": f"{clone}:/usr/bin:/bin"}
    digest, _ = await Network(environment, why_not).fetch(parse_reference(f"{url(alice)}@main"))
    assert digest.startswith("git:")
    nothing_ran(canary)


async def test_variables_of_git_lead_nowhere_else(
    alice: Member, bob: Member, canary: Path, tmp_path: Path
) -> None:
    commit(alice.world.project)
    touch = f"touch {shlex.quote(str(canary))}"
    bob.world.environment |= {
        "GIT_SSH_COMMAND": touch,
        "GIT_PROXY_COMMAND": touch,
        "GIT_TRACE": str(canary),
        "GIT_EXEC_PATH": str(tmp_path),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "uploadpack.packObjectsHook",
        "GIT_CONFIG_VALUE_0": f"sh -c '{touch}'",
    }
    await bob.pull(f"{url(alice)}@main")
    nothing_ran(canary)


@pytest.mark.parametrize("kind", ["link", "linked directory", "submodule"])
async def test_what_is_no_file_stops_the_pull(alice: Member, bob: Member, kind: str, tmp_path: Path) -> None:
    (tmp_path / "secret.py").write_text("secret\n")
    match kind:
        case "link":
            (alice.space / "tools/demo/linked.py").symlink_to(tmp_path / "secret.py")
        case "linked directory":
            (alice.space / "tools/linked").symlink_to(tmp_path)
        case _:
            other = alice.space / "tools/other"
            other.mkdir()
            (other / "x").write_text("x\n")
            commit(other)
    commit(alice.world.project)
    await is_refused(bob, f"{url(alice)}@main", "invalid_artifact")


@pytest.mark.parametrize("path", ["tools/demo/aux\u202e.py", "tools/demo/a\tb.py", "tools/Demo/bye.py"])
async def test_a_path_that_no_shared_file_has(alice: Member, bob: Member, path: str) -> None:
    place = alice.space / path
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(b"text\n")
    commit(alice.world.project)
    await is_refused(bob, f"{url(alice)}@main", "invalid_artifact")


EXCHANGING = """\
#!/bin/sh
case " $* " in
*" cat-file "*) /usr/bin/git "$@" | sed s/bye/bad/ ;;
*) exec /usr/bin/git "$@" ;;
esac
"""


async def test_objects_that_are_not_what_their_names_say(alice: Member, bob: Member, tmp_path: Path) -> None:
    """A git that does not look itself changes nothing: each object is compared with its name again."""
    commit(alice.world.project)
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "git").write_text(EXCHANGING)
    (programs / "git").chmod(0o755)
    bob.world.environment["PATH"] = f"{programs}:/usr/bin:/bin"
    await is_refused(bob, f"{url(alice)}@main", "invalid_artifact")
