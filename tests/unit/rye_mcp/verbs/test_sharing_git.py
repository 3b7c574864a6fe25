"""Signed items from a commit of a repository: which one is pinned, and what of it is taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from rye_mcp.errors import RyeError
from rye_mcp.verbs.lock import LockUpdateRequest, lock_update
from tests.registry_world import Member, author_in, commit, git, member_in, url
from tests.verb_world import person

TOOLS = ("tools/demo/bye.py", "tools/demo/hello.py")


@pytest.fixture
def alice(tmp_path: Path) -> Member:
    return author_in(tmp_path / "alice")


@pytest.fixture
def bob(tmp_path: Path) -> Member:
    return member_in(tmp_path / "bob")


async def refused_with(code: str, doing: object) -> RyeError:
    with pytest.raises(RyeError) as caught:
        await doing  # type: ignore[misc]
    assert caught.value.code == code, caught.value.message
    return caught.value


@pytest.mark.parametrize("kind", ["commit", "branch", "tag"])
async def test_a_name_is_resolved_once_and_the_commit_is_pinned(
    alice: Member, bob: Member, kind: str
) -> None:
    first = commit(alice.world.project)
    git(alice.world.project, "tag", "--annotate", "--message", "one", "v1")
    name = {"commit": first, "branch": "main", "tag": "v1"}[kind]
    pulled = await bob.pull(f"{url(alice)}@{name}")
    assert pulled.digest == f"git:{first}"
    assert pulled.written == TOOLS
    assert f'digest = "git:{first}"' in bob.files()["sources.toml"].decode()
    alice.write(text="print('later')")
    commit(alice.world.project)
    (bob.space / TOOLS[0]).unlink()
    await bob.sync()
    assert b"later" not in bob.files()[TOOLS[1]]
    assert TOOLS[0] in bob.files()


async def test_only_what_can_be_shared_is_taken_and_only_what_is_vouched_for(
    alice: Member, bob: Member, tmp_path: Path
) -> None:
    lock_update(LockUpdateRequest("demo/hello"), person(alice.world))
    alice.write(text="print('later')")
    lock_update(LockUpdateRequest("demo/bye"), person(alice.world))
    alice.world.propose(member_in(tmp_path / "carol").document)
    (alice.space / "config").mkdir()
    (alice.space / "config/rye.yaml").write_text("lock: auto\n")
    (alice.space / "tools/.notes").write_text("mine\n")
    commit(alice.world.project)
    pulled = await bob.pull(f"{url(alice)}@main")
    assert pulled.written == ("lockfiles/demo/bye@1.2.0.lock.json", *TOOLS)
    assert sorted(path for path in bob.files() if path.startswith("trusted_keys/")) == [
        f"trusted_keys/{alice.document.file_name}"
    ]
    assert "config/rye.yaml" not in bob.files()


async def test_what_nobody_signed_stops_the_pull(alice: Member, bob: Member) -> None:
    (alice.space / "tools/demo/draft.py").write_text('"""Nothing yet."""\n')
    commit(alice.world.project)
    before = bob.files()
    await refused_with("unsigned", bob.pull(f"{url(alice)}@main"))
    assert bob.files() == before


async def test_a_directory_of_a_repository_can_be_the_source(
    alice: Member, bob: Member, tmp_path: Path
) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    alice.world.project.rename(whole / "tools")
    commit(whole)
    pulled = await bob.pull(f"git+file://{whole}@main#tools")
    assert pulled.written == TOOLS
    await refused_with("artifact_not_found", bob.pull(f"git+file://{whole}@main"))
    await refused_with("artifact_not_found", bob.pull(f"git+file://{whole}@main#others"))


async def test_a_program_stays_one(alice: Member, bob: Member) -> None:
    path = alice.space / TOOLS[0]
    path.chmod(0o755)
    commit(alice.world.project)
    await bob.pull(f"{url(alice)}@main")
    assert (bob.space / TOOLS[0]).stat().st_mode & 0o777 == 0o755
    assert (bob.space / TOOLS[1]).stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("name", ["none", "a" * 40, "v9"])
async def test_what_the_repository_has_not(alice: Member, bob: Member, name: str) -> None:
    commit(alice.world.project)
    await refused_with("artifact_not_found", bob.pull(f"{url(alice)}@{name}"))


async def test_a_repository_that_is_not_there(bob: Member, tmp_path: Path) -> None:
    await refused_with("registry_unreachable", bob.pull(f"git+file://{tmp_path}/none@main"))
