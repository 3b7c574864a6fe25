"""`rye init` below the command: whose a project is, and what is written to it."""

from pathlib import Path

import pytest

from rye_mcp.initialization import (
    GITIGNORE_LINES,
    InitializedProject,
    InitializedUser,
    initialize_project,
    initialize_user,
)
from rye_mcp.trust.decisions import Change, find_proposal
from rye_mcp.trust.scope import SignerKind
from rye_mcp.trust.trust_document import TrustDocument
from tests.trust_world import World, new_key, refused


@pytest.fixture
def world(tmp_path: Path) -> World:
    (tmp_path / "project").mkdir()
    return World(tmp_path)


def user(world: World) -> InitializedUser:
    return initialize_user(world.user_space, world.keys, world.trust(), owner="leo")


def project(world: World, *, propose: bool = True) -> InitializedProject:
    return initialize_project(world.project, user(world), world.trust(), propose=propose)


def everything(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_a_user_gets_a_key_pair_and_a_space(world: World) -> None:
    done = user(world)
    assert (done.made, done.owner) == (True, "leo")
    assert done.key == world.keys.show(SignerKind.PERSON)
    assert all((world.user_space / name).is_dir() for name in ("tools", "directives", "knowledge"))


def test_a_missing_project_is_made(world: World) -> None:
    done = project(world)
    assert (done.made, done.yours, done.proposed) == (True, True, Change.WRITTEN)
    assert done.ignored == GITIGNORE_LINES
    assert all((world.project / ".ai" / name).is_dir() for name in ("tools", "directives", "knowledge"))
    proposed = find_proposal(world.trust(), world.keys.show(SignerKind.PERSON).key_id)
    assert proposed.owner == "leo"


def test_doing_it_again_changes_nothing(world: World) -> None:
    project(world)
    before = everything(world.root)
    again = project(world)
    assert (again.made, again.yours, again.proposed, again.ignored) == (False, True, None, ())
    assert everything(world.root) == before


def test_a_key_is_proposed_only_on_wish(world: World) -> None:
    assert project(world, propose=False).proposed is None
    assert not (world.project / ".ai/trusted_keys").exists()


@pytest.mark.parametrize("there", ["nothing in it", "tools", "a proposal"])
def test_a_project_that_was_there_is_not_yours_and_stays_as_it_came(world: World, there: str) -> None:
    (world.project / ".ai").mkdir()
    if there == "tools":
        world.stored(world.file())
    elif there == "a proposal":
        world.propose(TrustDocument.create(new_key().public, "mallory"))
    before = everything(world.project)
    done = project(world)
    assert (done.made, done.yours, done.proposed, done.ignored) == (False, False, None, ())
    assert everything(world.project) == before
    assert not world.trust().approvals.read().approved  # type: ignore[union-attr]


def test_a_project_that_was_approved_is_completed(world: World) -> None:
    (world.project / ".ai").mkdir()
    approvals = world.trust().approvals
    assert approvals is not None
    approvals.approve_project()
    done = project(world)
    assert (done.made, done.yours, done.ignored) == (False, True, GITIGNORE_LINES)
    assert (world.project / ".ai/tools").is_dir()


def test_a_link_in_the_place_of_the_space_is_not_followed(world: World) -> None:
    (world.project / ".ai").symlink_to(world.root / "nowhere")
    refused("unsafe_path", lambda: project(world))
    assert not (world.root / "nowhere").exists()
    assert not world.trust().approvals.read().approved  # type: ignore[union-attr]


def test_a_file_in_the_place_of_the_space_is_refused(world: World) -> None:
    (world.project / ".ai").write_text("a file")
    refused("unsafe_path", lambda: project(world))


def test_lines_of_gitignore_are_added_to_those_that_are_there(world: World) -> None:
    path = world.project / ".gitignore"
    path.write_text("/.env\n*.log")
    path.chmod(0o600)
    assert project(world).ignored == tuple(line for line in GITIGNORE_LINES if line != "/.env")
    lines = path.read_text().splitlines()
    assert lines[:2] == ["/.env", "*.log"]
    assert lines.count("/.env") == 1
    assert set(GITIGNORE_LINES) < set(lines)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_gitignore_that_leads_elsewhere_is_left_alone(world: World) -> None:
    canary = world.root / "bashrc"
    canary.write_text("alive\n")
    (world.project / ".gitignore").symlink_to(canary)
    done = project(world)
    assert canary.read_text() == "alive\n"
    assert done.ignored == ()
    assert ".gitignore stays as it is" in done.notices[0]


def test_a_user_who_cannot_have_a_key_gets_no_half_made_project(world: World) -> None:
    world.user_space.parent.write_text("a file in the way")
    refused("unsafe_path", lambda: project(world))
    assert everything(world.project) == {}
    assert not (world.project / ".ai").exists()


def test_a_new_worktree_approves_no_main_repository_that_was_not_approved(world: World) -> None:
    main, tree = world.root / "main", world.project
    administration = main / ".git/worktrees/project"
    administration.mkdir(parents=True)
    (main / ".git/HEAD").write_text("ref: refs/heads/main\n")
    for name in ("objects", "refs"):
        (main / ".git" / name).mkdir()
    (tree / ".git").write_text(f"gitdir: {administration}\n")
    (administration / "gitdir").write_text(f"{tree / '.git'}\n")
    (main / ".ai").mkdir()
    done = project(world)
    assert (done.made, done.yours) == (True, False)
    assert not world.trust().approvals.read().approved  # type: ignore[union-attr]
    (main / ".ai").rmdir()
    (tree / ".ai").rmdir()
    assert project(world).yours
