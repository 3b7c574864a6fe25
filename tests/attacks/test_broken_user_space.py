"""Somebody, or an accident, takes the user space away, opens it for others, or puts something else there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.people import Person, Publication, run_if_verified

NO_OVERRIDE = "-dac_override,-dac_read_search"
AS_ANYBODY = ("setpriv", f"--bounding-set={NO_OVERRIDE}", f"--inh-caps={NO_OVERRIDE}")
"""Before a command of root: permissions count for it as they do for everybody else."""
HELLO = ".ai/tools/demo/hello.py"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


@pytest.fixture
def bob(tmp_path: Path) -> Person:
    return Person("bob", tmp_path / "bob")


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("path", "mode", "found"),
    [
        ("keys/person/private_key.pem", 0o644, "sign keys"),
        ("keys/person/private_key.pem", 0o640, "sign keys"),
        ("keys/person", 0o755, "sign keys"),
        ("keys", 0o770, "sign keys"),
        ("keys/person/public_key.pem", 0o666, "sign keys"),
        ("trusted_keys", 0o777, "sign verify"),
        (".", 0o777, "sign keys verify"),
    ],
)
def test_what_others_may_read_or_write_signs_and_trusts_nobody(
    published: Publication, tmp_path: Path, path: str, mode: int, found: str
) -> None:
    leo, project = published.copy(tmp_path)
    signed, canary = (project / HELLO).read_bytes(), tmp_path / "canary"
    canary.write_text("alive")
    place = leo.user_space / path
    place.chmod(mode)
    if "verify" in found:
        assert run_if_verified(leo, project, canary) == "unsafe_permissions"
        assert canary.read_text() == "alive"
    if "keys" in found:
        error = leo.refused("unsafe_permissions", "keys", "show", cwd=project)
        assert error["hint"].startswith("chmod ")
    error = leo.refused("unsafe_permissions", "sign", "demo/hello", cwd=project)
    assert (project / HELLO).read_bytes() == signed
    assert error["hint"].split()[0] == "chmod"
    place.chmod(int(error["hint"].split()[1], 8))  # what the hint says fixes it
    leo.rye("sign", "demo/hello", cwd=project)


def remove(space: Path) -> None:
    shutil.rmtree(space)


def put_a_file(space: Path) -> None:
    shutil.rmtree(space)
    space.write_text("alive")


def break_revocations(space: Path) -> None:
    (space / "revoked.toml").write_text("version = 1\nrevoked = 'all'\n")


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (remove, "untrusted_key"),
        (put_a_file, "unsafe_path"),
        (break_revocations, "malformed_trust"),
    ],
)
def test_without_it_nobody_is_trusted(
    published: Publication, tmp_path: Path, damage: Callable[[Path], None], code: str
) -> None:
    leo, project = published.copy(tmp_path)
    canary = tmp_path / "canary"
    assert run_if_verified(leo, project, canary) == "verified"
    canary.write_text("alive")
    damage(leo.user_space)
    assert run_if_verified(leo, project, canary) == code
    assert canary.read_text() == "alive"


def test_a_user_space_that_would_be_another_in_every_directory(bob: Person, project: Path) -> None:
    bob.refused("unsafe_path", "init", cwd=project, USER_SPACE="space")
    assert list(project.iterdir()) == []


def test_one_that_is_not_there_is_made(bob: Person, project: Path) -> None:
    bob.rye("init", cwd=project, USER_SPACE=str(project.parent / "not/there/yet"))
    made = project.parent / "not/there/yet/.ai/keys/person/private_key.pem"
    assert made.stat().st_mode & 0o777 == 0o600


def test_one_that_cannot_be_made_leaves_no_half_made_project(bob: Person, project: Path) -> None:
    bob.refused("write_failed", "init", cwd=project, USER_SPACE="/proc/self")
    assert list(project.iterdir()) == []


@pytest.mark.thorough
@pytest.mark.parametrize("read_only", ["space", "project"])
def test_one_that_may_only_be_read(
    published: Publication, bob: Person, project: Path, read_only: str
) -> None:
    """Whoever may not write there: nothing is half made, and who is trusted stays so."""
    before = AS_ANYBODY if os.geteuid() == 0 else ()
    for directory in (bob.place / "space", bob.place / "home", bob.state, project):
        directory.mkdir(parents=True, exist_ok=True)
    place = bob.place / "space" if read_only == "space" else project
    place.chmod(0o555)
    error = bob.refused("write_failed", "init", cwd=project, before=before)
    assert str(place) in error["error"]
    assert list(project.iterdir()) == []
    if read_only == "space":
        bob.refused("no_key", "keys", "show", cwd=project, before=before)
        error = bob.refused("write_failed", "trust", "revoke", published.key_id, cwd=project, before=before)
        assert list((bob.place / "space").iterdir()) == []
