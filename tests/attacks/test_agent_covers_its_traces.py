"""Attack: an agent makes the last commit say nothing of a person, or asks for the same under another name.

Nothing was ever verified in these clones: what is known of persons stands in files, lockfiles and commits.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread

from rye_mcp.errors import RyeError
from rye_mcp.items import ItemFile, SpaceName
from rye_mcp.trust.approvals import Decision
from rye_mcp.trust.keys import SigningKey
from rye_mcp.trust.scope import SignerKind
from rye_mcp.trust.trust_document import TrustDocument
from rye_mcp.verbs.execute import ExecuteRequest, execute
from rye_mcp.verbs.lock import LockUpdateRequest, lock_update
from rye_mcp.verbs.sign import SignRequest, sign
from tests.git_world import WHO, git
from tests.mcp_world import *  # noqa: F403
from tests.mcp_world import Mode, Workshop, facts
from tests.people import Person, Publication
from tests.trust_world import World, new_key, refused
from tests.verb_world import agent, app_of, path_of, person, put, tool

pytestmark = pytest.mark.anyio

LINE = "rye:signed:"
COMMIT, SHELL = "rye/git/commit", "rye/bash/bash"
GIT = "git -c user.name=A -c user.email=a@example.org"


@pytest.fixture(autouse=True)
def identity(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in WHO.items():
        monkeypatch.setenv(name, value)


def committed(project: Path, message: str = "all of it") -> str:
    """Commit everything; the name of the commit."""
    git(project, "init", "-q")
    git(project, "add", "--all")
    git(project, "commit", "-qm", message)
    return git(project, "rev-parse", "HEAD")


def forget(world: World) -> None:
    """Remove the user's record, as in a clone where nothing was ever verified."""
    shutil.rmtree(world.state / "signers", ignore_errors=True)


def taken(path: Path) -> None:
    """What the agent makes of a file: no line, and its own code."""
    kept = [line for line in path.read_text().splitlines(keepends=True) if LINE not in line]
    path.write_text("".join(kept) + "\nprint('of the agent')\n")


# --- over MCP, by the tools of the system ---


def by_the_tool(item: str) -> list[tuple[str, dict[str, Any]]]:
    return [(COMMIT, {"message": "mine", "paths": [item]})]


def by_a_shell(item: str) -> list[tuple[str, dict[str, Any]]]:
    return [(SHELL, {"command": f"{GIT} commit -qam mine"})]


def by_another_history(item: str) -> list[tuple[str, dict[str, Any]]]:
    command = (
        f"git checkout -q --orphan other && {GIT} commit -qam mine && git reflog expire --expire=now --all"
    )
    return [(SHELL, {"command": command})]


def by_no_repository(item: str) -> list[tuple[str, dict[str, Any]]]:
    """Away with all that can be removed: what git takes commands from stays, as no tool can write it."""
    return [(SHELL, {"command": "rm -rf .git; git init -q; ! git rev-parse -q --verify HEAD"})]


@pytest.mark.first_case
@pytest.mark.parametrize(
    "moves", [by_the_tool, by_a_shell, by_another_history, by_no_repository], ids=lambda each: each.__name__
)
async def test_what_an_agent_does_to_the_repository_makes_nothing_its_own(
    published: Publication,
    tmp_path: Path,
    mode: Mode,
    moves: Callable[[str], list[tuple[str, dict[str, Any]]]],
) -> None:
    origin, clone = published.clone(tmp_path), tmp_path / "of bob"
    committed(origin)
    await to_thread.run_sync(git, tmp_path, "clone", "-q", str(origin), str(clone))
    for name in ("name", "email"):
        await to_thread.run_sync(git, clone, "config", f"user.{name}", "bob@example.org")
    bob = Person("bob", tmp_path / "bob")
    bob.begin(tmp_path / "elsewhere")
    path = clone / ".ai/tools/demo/hello.py"
    async with Workshop(bob, clone).served(mode) as client:
        taken(path)
        for item_id, parameters in moves(".ai/tools/demo/hello.py"):
            done = await client.call_tool("execute", {"item_id": item_id, "parameters": parameters})
            assert facts(done)["status"] == "success", facts(done)
    async with Workshop(bob, clone).served(mode) as client:
        error = facts(await client.call_tool("sign", {"item_id": "demo/hello"}))
        assert error["code"] == "person_required", error
    assert LINE not in path.read_text()


async def test_where_nothing_can_be_written_down_nothing_runs_for_an_agent(world: World) -> None:
    """It might make another commit. A person goes on, and so does an agent once that is fixed."""
    put(world, tool(), signed=True)
    committed(world.project)
    forget(world)
    world.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    (world.state / "signers").write_bytes(b"in the way")
    request = ExecuteRequest(SHELL, parameters={"command": "true"})
    app = app_of(world)
    try:
        with pytest.raises(RyeError) as caught:
            await execute(request, app.context(SignerKind.AGENT))
        assert caught.value.code == "unsafe_path"
        await execute(request, app.context(SignerKind.PERSON))
        (world.state / "signers").unlink()
        await execute(request, app.context(SignerKind.AGENT))
    finally:
        await app.executor().close()


# --- commits, by themselves ---


def test_commits_since_the_last_look_count_as_well(world: World) -> None:
    """A person commits a tool, and an agent makes the next commit before it asks for anything."""
    put(world, tool(), "demo/first", signed=True)
    committed(world.project)
    forget(world)
    context = agent(world)
    put(world, tool("print('new')"), "demo/new")
    sign(SignRequest("demo/new"), context)
    file = put(world, tool("print(2)"), signed=True)
    committed(world.project, "of a person")
    forget_persons(world)
    taken(file.path)
    committed(world.project, "of the agent")
    refused("person_required", lambda: sign(SignRequest("demo/hello"), context))
    refused("person_required", lambda: sign(SignRequest("demo/hello"), agent(world)))


def forget_persons(world: World) -> None:
    """Forget what was verified, and not which commits were looked at."""
    for record in (world.state / "signers").glob("*.tsv"):
        if not record.name.endswith(".agents.tsv"):
            record.unlink()


def on_a_branch_of_any_name(project: Path) -> None:
    git(project, "checkout", "-q", "-b", "fix(core),ü!")


def under_a_second_name(project: Path) -> None:
    git(project, "symbolic-ref", "refs/heads/second", git(project, "symbolic-ref", "HEAD"))
    git(project, "symbolic-ref", "HEAD", "refs/heads/second")


@pytest.mark.parametrize(
    "kept", [on_a_branch_of_any_name, under_a_second_name], ids=lambda each: each.__name__
)
def test_whatever_a_branch_is_called_its_last_commit_counts(
    world: World, kept: Callable[[Path], None]
) -> None:
    file = put(world, tool(), signed=True)
    committed(world.project)
    kept(world.project)
    forget(world)
    taken(file.path)
    refused("person_required", lambda: sign(SignRequest("demo/hello"), agent(world)))


@pytest.mark.parametrize(
    ("path", "mode", "as_git_writes"),
    [("tools/demo", b"100664 hello.py", b"100644 hello.py"), ("tools", b"040000 demo", b"40000 demo")],
    ids=["a file", "a directory"],
)
def test_modes_that_git_once_wrote_and_still_takes_count(
    world: World, path: str, mode: bytes, as_git_writes: bytes
) -> None:
    """An older git wrote 100664 for files, other programs 040000 for directories."""
    file = put(world, tool(), signed=True)
    committed(world.project)
    tree = objects(world.project, "cat-file", "tree", f"HEAD:.ai/{path}")
    assert as_git_writes in tree
    entry = as_tree(world.project, tree.replace(as_git_writes, mode))
    for above in (*list(Path(".ai", path).parents)[:-1], Path()):
        name = Path(".ai", path).relative_to(above).parts[0]
        tree = objects(world.project, "cat-file", "tree", f"HEAD:{above}" if above.parts else "HEAD^{tree}")
        head, _, rest = tree.partition(f"40000 {name}\0".encode())
        entry = as_tree(world.project, head + f"40000 {name}\0".encode() + entry + rest[len(entry) :])
    name = git(world.project, "commit-tree", entry.hex(), "-m", "as it once was")
    git(world.project, "update-ref", "HEAD", name)
    forget(world)
    taken(file.path)
    refused("person_required", lambda: sign(SignRequest("demo/hello"), agent(world)))


def with_a_long_message(world: World) -> None:
    (world.project / "message").write_text("x" * (9 << 20))
    git(world.project, "commit", "-q", "--allow-empty", "-F", "message")


def with_many_directories(world: World) -> None:
    """Below one that is read first, as a file in each: only commits hold them."""
    empty = objects(world.project, "hash-object", "-w", "--stdin", given=b"").decode().strip()
    lines = (f"100644 {empty}\t.ai/tools/zz/{number}/a.txt\n" for number in range(4_100))
    objects(world.project, "update-index", "--index-info", given="".join(lines).encode())
    git(world.project, "commit", "-qm", "more")


@pytest.mark.thorough
@pytest.mark.parametrize(
    "larger", [with_a_long_message, with_many_directories], ids=lambda each: each.__name__
)
def test_where_a_commit_is_too_large_to_be_read_no_agent_signs(
    world: World, larger: Callable[[World], None]
) -> None:
    """Nobody knows what it holds of persons. A person goes on, and so does what an agent runs."""
    file = put(world, tool(), signed=True)
    committed(world.project)
    larger(world)
    forget(world)
    taken(file.path)
    refused("person_required", lambda: sign(SignRequest("demo/hello"), agent(world)))
    again = refused("person_required", lambda: sign(SignRequest("demo/hello"), agent(world)))
    assert "the last commit holds more" in again.message
    put(world, tool(), "demo/other")
    sign(SignRequest("demo/other"), person(world))


def objects(project: Path, *arguments: str, given: bytes | None = None) -> bytes:
    """What git prints, to the byte."""
    return subprocess.run(
        ["git", *arguments], cwd=project, input=given, capture_output=True, check=True
    ).stdout


def as_tree(project: Path, tree: bytes) -> bytes:
    """The id of a directory with these entries."""
    options = ("-t", "tree", "-w", "--literally", "--stdin")
    return bytes.fromhex(objects(project, "hash-object", *options, given=tree).decode())


def test_a_commit_that_a_clone_of_a_clone_borrows_counts(world: World, tmp_path: Path) -> None:
    file = put(world, tool(), signed=True)
    committed(world.project)
    first, second = tmp_path / "first", tmp_path / "second"
    git(tmp_path, "clone", "-q", "--shared", str(world.project), str(first))
    git(tmp_path, "clone", "-q", "--shared", str(first), str(second))
    (world.project / ".git").rename(tmp_path / "lender")
    (first / ".git/objects/info/alternates").write_text(f"{tmp_path / 'lender/objects'}\n")
    (second / ".git").rename(world.project / ".git")
    forget(world)
    taken(file.path)
    refused("person_required", lambda: sign(SignRequest("demo/hello"), agent(world)))


@pytest.mark.parametrize("asked_first", [False, True])
def test_a_copy_that_was_made_before_the_original_is_gone(world: World, asked_first: bool) -> None:
    """The copy would be the agent's, to change and to sign, under the old name too."""
    file = put(world, tool(), signed=True)
    committed(world.project)
    forget(world)
    copy = put(world, tool(), "demo/copy")
    if asked_first:
        refused("person_required", lambda: sign(SignRequest("demo/copy"), agent(world)))
    file.path.unlink()
    if asked_first:
        committed(world.project, "of the agent")
    refused("person_required", lambda: sign(SignRequest("demo/copy"), agent(world)))
    copy.path.rename(file.path)
    refused("person_required", lambda: sign(SignRequest("demo/hello"), agent(world)))


def test_what_a_commit_claims_is_no_more_than_a_claim(world: World) -> None:
    """A key that the user comes to trust as an agent's takes nothing from anybody."""
    theirs = new_key(SignerKind.AGENT)
    document = TrustDocument.create(theirs.public, "mia's agent", kind=SignerKind.AGENT)
    world.propose(document)
    file = world.stored(world.signed(world.file(tool()), theirs))
    committed(world.project)
    put(world, tool("print(2)"), "demo/new")
    sign(SignRequest("demo/new"), agent(world))
    refused("untrusted_key", lambda: world.verify(file))
    world.trust().store.decide(document, Decision.ACCEPTED)
    assert world.verify(file).signer.kind is SignerKind.AGENT
    taken(file.path)
    sign(SignRequest("demo/hello"), agent(world))


def test_a_signature_of_an_agent_over_what_a_commit_holds_is_refused(world: World) -> None:
    """What an agent with a shell signs by itself does not pass, once the commit was looked at."""
    stranger = new_key()
    world.stored(world.signed(world.file(tool()), stranger))
    committed(world.project)
    put(world, tool("print(2)"), "demo/new")
    sign(SignRequest("demo/new"), agent(world))
    theirs = signed_by_itself(world, world.key(SignerKind.AGENT))
    committed(world.project, "of the agent")
    error = refused("signer_changed", lambda: world.verify(theirs))
    assert f"as the key {stranger.public.fingerprint} signed demo/hello before" in error.message


def signed_by_itself(world: World, key: SigningKey) -> ItemFile:
    return world.stored(world.signed_by_another_program(world.file(tool("print(3)")), key))


# --- other letters ---


@pytest.mark.parametrize("item_id", ["demo/Hello", "Demo/hello"])
def test_a_lockfile_keeps_an_id_in_whatever_letters(world: World, item_id: str) -> None:
    file = put(world, tool(), signed=True)
    lock_update(LockUpdateRequest("demo/hello"), person(world))
    forget(world)
    file.path.unlink()
    put(world, tool("print(2)"), item_id)
    refused("person_required", lambda: sign(SignRequest(item_id), agent(world)))


@pytest.mark.parametrize("item_id", ["demo/Hello", "DEMO/hello"])
def test_the_user_space_keeps_an_id_in_whatever_letters(world: World, item_id: str) -> None:
    put(world, b"echo\n", extension=".sh", space=SpaceName.USER)
    put(world, tool("print(2)"), item_id)
    refused("person_required", lambda: sign(SignRequest(item_id), agent(world)))
    theirs = world.file(tool("print(3)"), item_id=item_id)
    signed = world.stored(world.signed_by_another_program(theirs, world.key(SignerKind.AGENT)))
    refused("signer_changed", lambda: world.verify(signed))


@pytest.mark.parametrize("in_the_way", ["file", "link"])
def test_what_stands_in_the_way_in_the_user_space(world: World, in_the_way: str, tmp_path: Path) -> None:
    """A file holds no items; behind a link there could be some."""
    place = path_of(world, SpaceName.USER, "demo", "")
    place.parent.mkdir(parents=True)
    put(world, tool())
    if in_the_way == "file":
        place.write_text("#!/bin/sh\n")
        sign(SignRequest("demo/hello"), agent(world))
    else:
        place.symlink_to(tmp_path)
        refused("person_required", lambda: sign(SignRequest("demo/hello"), agent(world)))


@pytest.mark.parametrize("evidence", ["lockfile", "user space"])
def test_a_directory_keeps_its_ids_in_whatever_letters(world: World, evidence: str) -> None:
    if evidence == "user space":
        put(world, tool(), "Demo/hello", space=SpaceName.USER)
    else:
        file = put(world, tool(), "Demo/hello", signed=True)
        lock_update(LockUpdateRequest("Demo/hello"), person(world))
        forget(world)
        file.path.unlink()
    put(world, tool("print(2)"))
    refused("person_required", lambda: sign(SignRequest("demo/hello"), agent(world)))
