"""Somebody's project claims to be a worktree of a repository that the user has approved."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from rye_mcp.trust.approvals import Approvals, Decision, identify_project
from rye_mcp.trust.trust_document import TrustDocument
from tests.people import Person
from tests.trust_world import World, new_key, refused


def git(*arguments: object) -> None:
    identity = ["-c", "user.name=leo", "-c", "user.email=leo@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, *map(str, arguments)], check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    path = tmp_path / "main"
    git("init", path)
    git("-C", path, "commit", "--allow-empty", "-m", "first")
    git("-C", path, "worktree", "add", tmp_path / "worktree")
    return path


def is_approved(project: Path, state: Path) -> bool:
    return Approvals(project, state).read().approved


def test_a_real_worktree_counts_as_its_repository(repository: Path, world: World) -> None:
    assert identify_project(world.root / "worktree") == repository
    Approvals(repository, world.state).approve_project()
    assert is_approved(world.root / "worktree", world.state)
    Approvals(world.root / "worktree", world.state).approve_project(approved=False)
    assert not is_approved(repository, world.state)


def hostile(root: Path, link: str) -> Path:
    project = root / "hostile"
    project.mkdir()
    (project / ".git").write_text(link)
    return project


@pytest.mark.parametrize("end", ["", "\n", "\n\n"], ids=repr)
def test_a_claim_is_not_enough(repository: Path, world: World, end: str) -> None:
    Approvals(repository, world.state).approve_project()
    project = hostile(world.root, f"gitdir: {repository}/.git/worktrees/worktree{end}")
    assert identify_project(project) == project
    assert not is_approved(project, world.state)


@pytest.mark.parametrize(
    "link", ["gitdir: {0}/.git", "gitdir: {0}", "{0}/.git/worktrees/worktree", "", "gitdir: "]
)
def test_other_links_do_not_count(repository: Path, world: World, link: str) -> None:
    Approvals(repository, world.state).approve_project()
    project = hostile(world.root, link.format(repository))
    assert identify_project(project) == project


def test_a_repository_that_a_project_brings_along_is_not_approved(repository: Path, world: World) -> None:
    """Both links hold, inside of the project: whoever made it can have made that repository too."""
    Approvals(repository, world.state).approve_project()
    project = hostile(world.root, "gitdir: inner/.git/worktrees/x\n")
    administration = project / "inner/.git/worktrees/x"
    administration.mkdir(parents=True)
    (administration / "gitdir").write_text(f"{project}/.git\n")
    assert identify_project(project) == project
    assert not is_approved(project, world.state)


def test_a_clone_below_an_approved_project_is_not_that_one(repository: Path, world: World) -> None:
    """Both links hold, as git writes them, but the clone lies inside what was approved."""
    Approvals(repository, world.state).approve_project()
    project = repository / "vendor"
    administration = repository / ".git/worktrees/x"
    for directory in (project, administration):
        directory.mkdir()
    (administration / "gitdir").write_text(f"{project}/.git\n")
    (project / ".git").write_text(f"gitdir: {administration}\n")
    assert identify_project(project) == project
    assert not is_approved(project, world.state)


@pytest.mark.parametrize("place", ["a/b", "vendor/worktrees", ".git/x"])
def test_a_file_that_a_repository_brings_makes_no_worktree(
    repository: Path, world: World, place: str
) -> None:
    """Both links hold, and three directories up is what was approved; but anybody can commit that file."""
    Approvals(repository, world.state).approve_project()
    administration = repository / place / "x"
    administration.mkdir(parents=True)
    project = hostile(world.root, f"gitdir: {administration}\n")
    (administration / "gitdir").write_text(f"{project}/.git\n")
    assert identify_project(project) == project
    assert not is_approved(project, world.state)


def test_a_link_to_the_directory_of_git_is_followed_nowhere(repository: Path, world: World) -> None:
    Approvals(repository, world.state).approve_project()
    project = world.root / "hostile"
    project.mkdir()
    (project / ".git").symlink_to(world.root / "worktree/.git")
    assert identify_project(project) == project


def test_a_link_to_a_project_is_that_project(repository: Path, world: World) -> None:
    link = world.root / "link"
    link.symlink_to(repository)
    Approvals(link, world.state).approve_project()
    assert is_approved(repository, world.state)


@pytest.mark.parametrize(
    "content", [b"\0", b"gitdir: \0\n", b"gitdir: " + b"x" * 10_000, b"\xff\xfe"], ids=repr
)
def test_an_invalid_link_does_no_harm(world: World, content: bytes) -> None:
    project = world.root / "hostile"
    project.mkdir()
    (project / ".git").write_bytes(content)
    assert identify_project(project) == project


def packed(place: Path, name: str, main: Path) -> Path:
    """A project that came in an archive with its repository; nothing in it is absolute."""
    administration, project = main / ".git/worktrees" / name, place / name
    administration.mkdir(parents=True)
    project.mkdir(parents=True)
    for directory in ("objects", "refs"):
        (main / ".git" / directory).mkdir(exist_ok=True)
    (main / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (project / ".git").write_text(f"gitdir: {os.path.relpath(administration, project)}\n")
    (administration / "gitdir").write_text(f"{os.path.relpath(project, administration)}/.git\n")
    return project


ABSOLUTE = ("{0}", "/proc/self/cwd/../../../..{0}")
"""How a link that an archive brings can be absolute: by a guess, or by way of the process."""


@pytest.mark.parametrize("decided", ["approved", "accepted"])
@pytest.mark.parametrize("where", [".", "main"])
def test_what_an_archive_brings_is_approved_one_by_one(world: World, where: str, decided: str) -> None:
    place = world.root / "archive"
    docs, build = (packed(place, name, place / where) for name in ("docs", "build"))
    for project in (docs, place / where):
        decisions = Approvals(project, world.state)
        assert decisions.project == project
        decisions.approve_project()
        decisions.decide({"0" * 64: "1" * 64}, Decision.ACCEPTED)
    found = Approvals(build, world.state).read()
    assert not (found.approved if decided == "approved" else found.proposals)


@pytest.mark.parametrize("spelled", ABSOLUTE)
def test_an_absolute_link_is_spelled_as_git_spells_it(
    world: World, monkeypatch: pytest.MonkeyPatch, spelled: str
) -> None:
    """A guess of the whole path is right now and then; then the repository still has to be beside it."""
    monkeypatch.chdir("/")
    place = world.root / "archive"
    main = place if spelled == "{0}" else place / "main"
    build = packed(place, "build", main)
    (build / ".git").write_text(f"gitdir: {spelled.format(main / '.git/worktrees/build')}\n")
    (main / ".git/worktrees/build/gitdir").write_text(f"{build}/.git\n")
    assert identify_project(build) == build
    Approvals(main, world.state).approve_project()
    assert not is_approved(build, world.state)


def test_a_worktree_of_what_is_not_approved_counts_as_itself(repository: Path, world: World) -> None:
    worktree = world.root / "worktree"
    decisions = Approvals(worktree, world.state)
    decisions.decide({"0" * 64: "1" * 64}, Decision.ACCEPTED)
    decisions.approve_project()
    assert decisions.project == worktree
    assert not is_approved(repository, world.state)
    assert Approvals(repository, world.state).read().proposals == {}


def test_a_worktree_where_others_can_write_counts_as_itself(repository: Path, world: World) -> None:
    Approvals(repository, world.state).approve_project()
    assert is_approved(world.root / "worktree", world.state)
    (world.root / "worktree").chmod(0o777)
    assert not is_approved(world.root / "worktree", world.state)


def exchange(repository: Path) -> None:
    repository.rename(repository.with_name("before"))
    git("init", repository)


CHANGES: dict[str, Callable[[Path, Path], object]] = {
    "the repository is another one": lambda repository, worktree: exchange(repository),
    "others can write to the repository": lambda repository, worktree: repository.chmod(0o777),
    "others can write to the worktree": lambda repository, worktree: worktree.chmod(0o777),
}
"""What ends the approval of a repository, while the file that records it stays as it is."""


@pytest.mark.parametrize("change", CHANGES)
def test_a_key_that_was_accepted_for_a_repository_counts_as_long_as_that_is_approved(
    repository: Path, world: World, change: str
) -> None:
    """The same server has verified the same file before."""
    git("-C", repository, "worktree", "add", world.project)
    key = new_key()
    document = TrustDocument.create(key.public, "mia")
    world.propose(document)
    file, trust = world.signed(key=key), world.trust()
    Approvals(repository, world.state).approve_project()
    trust.store.decide(document, Decision.ACCEPTED)
    assert world.verify(file, trust=trust).signer.owner == "mia"
    assert world.verify(file, trust=trust).signer.owner == "mia"
    CHANGES[change](repository, world.project)
    refused("untrusted_key", lambda: world.verify(file, trust=trust))


def test_a_key_that_was_denied_in_a_worktree_stays_denied_in_it(repository: Path, world: World) -> None:
    """To approve the repository is no answer to another question; to accept the key is."""
    worktree, key_id = Approvals(world.root / "worktree", world.state), "1" * 64
    worktree.decide({"0" * 64: key_id}, Decision.DENIED)
    Approvals(repository, world.state).approve_project()
    assert worktree.project == repository
    assert worktree.read().denied_keys == {key_id}
    assert not Approvals(repository, world.state).read().denied_keys
    worktree.decide({"2" * 64: key_id}, Decision.ACCEPTED)
    assert not worktree.read().denied_keys


def test_a_decision_in_a_worktree_is_shown_with_the_path_that_it_is_for(
    repository: Path, world: World
) -> None:
    bob = Person("bob", world.root / "bob")
    for project in (repository, world.root / "worktree"):
        (project / ".ai").mkdir()
    said = [
        bob.rye("trust", "project", cwd=project).out
        for project in (world.root / "worktree", repository, world.root / "worktree")
    ]
    for text, path in zip(said, (world.root / "worktree", repository, repository), strict=True):
        assert f"The unsigned files of {path} are used" in text
