"""Somebody whose key was revoked is trusted again by whatever else a person, or a project, can say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.people import Person, Publication, run_if_verified


@pytest.fixture
def bob(published: Publication, tmp_path: Path) -> Person:
    """Bob, who trusted Alice in every way that there is, and then revoked her key."""
    bob = Person("bob", tmp_path / "bob")
    clone = published.clone(tmp_path)
    bob.rye("trust", "review", "--accept", published.key_id, cwd=clone)
    bob.rye("trust", "add", published.document, cwd=clone)
    bob.rye("trust", "project", cwd=clone)
    assert run_if_verified(bob, clone, tmp_path / "canary") == "verified"
    bob.rye("trust", "revoke", published.key_id, "--reason", "stolen", cwd=clone)
    return bob


def test_nothing_that_was_said_before_or_is_said_later_helps(
    published: Publication, bob: Person, tmp_path: Path
) -> None:
    clone, canary = tmp_path / "clone", tmp_path / "canary"
    canary.write_text("alive")
    for words in (
        ("trust", "review", "--accept", published.key_id),
        ("trust", "add", published.document),
        ("trust", "add", published.document, "--replace", "--owner", "somebody else"),
    ):
        bob.refused("revoked_key", *words, cwd=clone)
    for variables in ({}, {"RYE_TRUSTED_KEYS": published.key_id}):
        assert run_if_verified(bob, clone, canary, **variables) == "revoked_key"
    (bob.user_space / "trusted_keys" / Path(published.document).name).unlink()
    assert run_if_verified(bob, clone, canary) == "revoked_key"
    assert canary.read_text() == "alive"
    rows = bob.rye("trust", "list", "--json", cwd=clone).json["keys"]
    assert {(row["state"], row["reason"]) for row in rows} == {("revoked", "stolen")}


def test_it_is_revoked_in_every_project_and_for_good(
    published: Publication, bob: Person, tmp_path: Path
) -> None:
    canary = tmp_path / "canary"
    canary.write_text("alive")
    (tmp_path / "elsewhere").mkdir()
    another = published.clone(tmp_path / "elsewhere")
    bob.rye("trust", "revoke", published.key_id, "--reason", "never mind", cwd=another)
    assert run_if_verified(bob, another, canary, RYE_TRUSTED_KEYS=published.key_id) == "revoked_key"
    assert canary.read_text() == "alive"
    rows = bob.rye("trust", "list", "--json", cwd=another).json["keys"]
    assert {row["reason"] for row in rows} == {"stolen"}


def test_a_key_of_ones_own_that_was_revoked_signs_nothing_more(
    published: Publication, tmp_path: Path
) -> None:
    bob = Person("bob", tmp_path / "bob")
    project = tmp_path / "project"
    project.mkdir()
    bob.begin(project)
    tool = project / ".ai/tools/demo/hello.py"
    tool.parent.mkdir()
    tool.write_text('"""Says hello."""\n')
    own = bob.key_id(cwd=project)
    assert "rye keys rotate" in bob.rye("trust", "revoke", own, cwd=project).out
    error = bob.refused("revoked_key", "sign", "demo/hello", cwd=project)
    assert "rye keys rotate" in error["hint"]
    assert tool.read_text() == '"""Says hello."""\n'
    bob.refused("revoked_key", "trust", "propose", "--replace", cwd=project)
    bob.rye("keys", "rotate", cwd=project)
    bob.rye("sign", "demo/hello", cwd=project)
    bob.rye("trust", "propose", cwd=project)
