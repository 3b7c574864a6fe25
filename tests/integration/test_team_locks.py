"""Two colleagues, each with a home and a key: a clone, runs, commits, a new key, one command for an edit."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.git_world import WHO
from tests.people import Person

HELLO = ".ai/tools/demo/hello.py"
LOCK = ".ai/lockfiles/demo/hello@1.0.0.lock.json"
TOOL = """\
\"\"\"Says hello, with the words of two files beside it.\"\"\"
import json
from pathlib import Path

__version__ = "1.0.0"
__executor_id__ = "rye/core/runtimes/python_script_runtime"

here = Path(__file__).parent
print(json.loads((here / "words.json").read_text())["greeting"], (here / "name.txt").read_text().strip())
"""


class Team:
    """Alice has a project, Bob a clone of it, and both share a repository."""

    def __init__(self, root: Path) -> None:
        self.shared = root / "shared.git"
        self.alice = Person("alice", root / "alice", WHO)
        self.bob = Person("bob", root / "bob", WHO)
        self.hers, self.his = root / "alice/project", root / "bob/project"
        git(root, "init", "--quiet", "--bare", "--initial-branch=main", str(self.shared))
        git(root, "clone", "--quiet", str(self.shared), str(self.hers))
        self.alice.rye("init", cwd=self.hers)
        self.write("words.json", '{"greeting": "hello"}')
        self.write("name.txt", "world\n")
        self.write("hello.py", TOOL)
        self.sign("--with", "words.json", "--with", "name.txt")

    def write(self, name: str, text: str) -> None:
        path = self.hers / ".ai/tools/demo" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def sign(self, *arguments: str) -> str:
        return self.alice.rye("sign", "demo/hello", *arguments, cwd=self.hers).shown

    def clone(self) -> None:
        """Bob clones what Alice has pushed, and accepts her key."""
        git(self.hers.parent, "clone", "--quiet", str(self.shared), str(self.his))
        self.bob.rye("keys", "generate", cwd=self.his)
        key_id = self.alice.key_id(cwd=self.hers)
        self.bob.rye("trust", "review", "--accept", key_id, cwd=self.his)

    def push(self, project: Path, message: str) -> None:
        git(project, "add", "--all")
        git(project, "commit", "--quiet", "--allow-empty", "--message", message)
        git(project, "pull", "--quiet", "--no-rebase", "--no-edit", *after_the_first(project))
        git(project, "push", "--quiet", "origin", "HEAD:main")

    def said(self, who: Person, *options: str) -> str:
        where = self.hers if who is self.alice else self.his
        return who.rye("run", *options, "demo/hello", cwd=where).out

    def refuses(self, who: Person, code: str) -> None:
        where = self.hers if who is self.alice else self.his
        assert who.rye("run", "demo/hello", cwd=where, code=1).err.startswith(f"rye: {code}: ")


def after_the_first(project: Path) -> tuple[str, ...]:
    known = git(project, "ls-remote", "--heads", "origin", "main")
    return ("origin", "main") if known else (".", "HEAD")


def git(where: Path, *arguments: str) -> str:
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(where), **WHO}
    program = shutil.which("git") or "git"
    done = subprocess.run(
        [program, *arguments], cwd=where, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"git {' '.join(arguments)}: {done.stdout}{done.stderr}"
    return done.stdout.strip()


@pytest.fixture
def team(tmp_path: Path) -> Team:
    return Team(tmp_path)


@pytest.mark.first_case
@pytest.mark.parametrize("asks", [True, False])
def test_both_clone_run_and_commit_and_what_they_pull_merges(team: Team, asks: bool) -> None:
    """By themselves, runs write nothing. Where the project asks for locks, both write the same bytes."""
    if asks:
        (team.hers / ".ai/config").mkdir()
        (team.hers / ".ai/config/rye.yaml").write_text("lock: auto\n")
    team.push(team.hers, "begin")
    team.clone()
    if asks:
        team.bob.rye("trust", "project", cwd=team.his)
    assert team.said(team.alice) == team.said(team.bob) == "hello world\n"
    for who in (team.alice, team.bob):
        who.rye("run", "rye/file-system/ls", cwd=team.hers if who is team.alice else team.his)
    assert (team.hers / LOCK).exists() is (team.his / LOCK).exists() is asks
    if asks:
        assert (team.hers / LOCK).read_bytes() == (team.his / LOCK).read_bytes()
    team.push(team.hers, "alice has run it")
    team.push(team.his, "bob has run it")
    git(team.hers, "pull", "--quiet", "--no-rebase", "--no-edit", "origin", "main")
    found = git(team.hers, "ls-files", ".ai/lockfiles").splitlines()
    assert found == ([LOCK] if asks else [])


@pytest.mark.thorough
def test_what_either_of_them_locks_has_the_same_bytes(team: Team) -> None:
    team.push(team.hers, "begin")
    team.clone()
    for who, where in ((team.alice, team.hers), (team.bob, team.his)):
        who.rye("lock", "update", "demo/hello", cwd=where)
    assert (team.hers / LOCK).read_bytes() == (team.his / LOCK).read_bytes()
    team.push(team.hers, "alice has locked it")
    team.push(team.his, "bob has locked it")


@pytest.mark.thorough
def test_a_tool_of_three_files_takes_one_command_for_an_edit_of_each(team: Team) -> None:
    team.alice.rye("lock", "update", "demo/hello", cwd=team.hers)
    team.push(team.hers, "begin")
    team.clone()
    edits = (("words.json", '{"greeting": "good day"}'), ("name.txt", "moon\n"), ("hello.py", TOOL + "\n"))
    said = ""
    for name, text in edits:
        team.write(name, text)
        assert "is locked as it is now" in team.sign()
        said = team.said(team.alice, "--locked")
        team.push(team.hers, f"another {name}")
        git(team.his, "pull", "--quiet", "origin", "main")
        assert team.said(team.bob, "--locked") == said
        assert team.bob.rye("verify", "--space", "project", cwd=team.his).code == 0
    assert said == "good day moon\n"


@pytest.mark.thorough
@pytest.mark.parametrize("signed_again", [False, True])
def test_after_a_rotation_by_the_page_everything_runs_in_both_homes(team: Team, signed_again: bool) -> None:
    team.alice.rye("lock", "update", "demo/hello", cwd=team.hers)
    team.push(team.hers, "begin")
    team.clone()
    rotated = team.alice.rye("keys", "rotate", "--json", cwd=team.hers).json
    assert rotated["linked"] is True
    team.alice.rye("trust", "propose", cwd=team.hers)
    if signed_again:
        team.alice.rye("sign", "*", cwd=team.hers)
    team.push(team.hers, "another key")
    git(team.his, "pull", "--quiet", "origin", "main")
    for who in (team.alice, team.bob):
        assert team.said(who, "--locked") == "hello world\n"
    assert team.bob.rye("verify", "--space", "project", cwd=team.his).code == 0
    keys = team.bob.rye("trust", "list", "--json", cwd=team.his).json["keys"]
    [state] = [key["state"] for key in keys if key["key_id"] == rotated["key_id"]]
    assert state == "accepted_by_rotation"
    assert "Nothing is undecided" in team.bob.rye("trust", "review", cwd=team.his).out


def test_after_a_rotation_an_old_lockfile_holds_and_the_next_edit_refreshes_it(team: Team) -> None:
    team.alice.rye("lock", "update", "demo/hello", cwd=team.hers)
    before = (team.hers / LOCK).read_bytes()
    old = team.alice.key_id(cwd=team.hers)
    team.alice.rye("keys", "rotate", cwd=team.hers)
    team.sign()
    (team.hers / LOCK).write_bytes(before)
    assert team.said(team.alice, "--locked") == "hello world\n"
    team.write("name.txt", "moon\n")
    assert "is locked as it is now" in team.sign()
    assert old not in (team.hers / LOCK).read_text()


@pytest.mark.thorough
def test_a_revoked_old_key_carries_neither_the_trust_nor_the_lockfile(team: Team) -> None:
    team.alice.rye("lock", "update", "demo/hello", cwd=team.hers)
    before = (team.hers / LOCK).read_bytes()
    team.push(team.hers, "begin")
    team.clone()
    old = team.alice.key_id(cwd=team.hers)
    team.alice.rye("keys", "rotate", cwd=team.hers)
    team.alice.rye("trust", "propose", cwd=team.hers)
    team.sign()
    team.push(team.hers, "another key")
    git(team.his, "pull", "--quiet", "origin", "main")
    team.bob.rye("trust", "revoke", old, cwd=team.his)
    team.refuses(team.bob, "untrusted_key")
    new = team.alice.key_id(cwd=team.hers)
    team.bob.rye("trust", "review", "--accept", new, cwd=team.his)
    assert team.said(team.bob) == "hello world\n"
    (team.his / LOCK).write_bytes(before)
    team.refuses(team.bob, "lock_mismatch")


def test_what_was_signed_since_the_rotation_runs_when_everybody_has_revoked_the_old_key(team: Team) -> None:
    """The listing of the files beside the tool is signed again too."""
    old = team.alice.key_id(cwd=team.hers)
    team.alice.rye("lock", "update", "demo/hello", cwd=team.hers)
    team.alice.rye("keys", "rotate", cwd=team.hers)
    team.alice.rye("sign", "*", cwd=team.hers)
    team.alice.rye("trust", "revoke", old, cwd=team.hers)
    assert team.said(team.alice, "--locked") == "hello world\n"


def test_a_new_key_that_the_old_one_shall_not_vouch_for_is_asked_about_again(team: Team) -> None:
    team.push(team.hers, "begin")
    team.clone()
    assert team.alice.rye("keys", "rotate", "--unlinked", "--json", cwd=team.hers).json["linked"] is False
    team.alice.rye("trust", "propose", cwd=team.hers)
    team.sign()
    team.push(team.hers, "another key")
    git(team.his, "pull", "--quiet", "origin", "main")
    team.refuses(team.bob, "untrusted_key")


def test_an_encrypted_key_signs_its_successor_with_its_passphrase_or_not_at_all(team: Team) -> None:
    team.alice.rye("keys", "passphrase", cwd=team.hers, RYE_NEW_KEY_PASSPHRASE="one")
    hint = team.alice.refused(
        "passphrase_required", "keys", "rotate", cwd=team.hers, RYE_NEW_KEY_PASSPHRASE="two"
    )
    assert "rye keys rotate --unlinked" in hint["hint"]
    rotated = team.alice.rye(
        "keys", "rotate", "--json", cwd=team.hers, RYE_KEY_PASSPHRASE="one", RYE_NEW_KEY_PASSPHRASE="two"
    ).json
    assert rotated["linked"] is True
    forgotten = team.alice.rye(
        "keys", "rotate", "--unlinked", "--json", cwd=team.hers, RYE_NEW_KEY_PASSPHRASE="three"
    ).json
    assert forgotten["linked"] is False
