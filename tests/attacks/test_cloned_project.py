"""Somebody publishes a project; a person clones it, and works in it with the `rye` command."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.people import Person, Publication, run_if_verified


class Clone:
    """Bob, and his clone of what Alice has published."""

    def __init__(self, published: Publication, place: Path) -> None:
        self.published = published
        self.place = place
        self.bob = Person("bob", place / "bob")
        self.project = published.clone(place)
        self.document = self.project / published.document
        self.canary = place / "canary"
        self.canary.write_text("alive")

    def is_refused(self, code: str, **variables: str) -> None:
        """The tool is refused with this code, and does nothing."""
        assert run_if_verified(self.bob, self.project, self.canary, **variables) == code
        assert self.canary.read_text() == "alive"

    def is_accepted(self, **variables: str) -> None:
        assert run_if_verified(self.bob, self.project, self.canary, **variables) == "verified"
        assert self.canary.read_text() == "touched"
        self.canary.write_text("alive")

    def everything(self) -> dict[str, bytes]:
        files = (path for path in self.project.rglob("*") if path.is_file())
        return {str(path.relative_to(self.project)): path.read_bytes() for path in files}


@pytest.fixture
def clone(published: Publication, tmp_path: Path) -> Clone:
    return Clone(published, tmp_path)


def test_to_clone_and_to_begin_trusts_nobody_and_changes_nothing(clone: Clone) -> None:
    before = clone.everything()
    clone.is_refused("untrusted_key")
    begun = clone.bob.rye("init", "--json", cwd=clone.project).json
    assert begun["project"] == {
        "path": str(clone.project),
        "made": False,
        "yours": False,
        "proposed": None,
        "ignored": [],
        "notices": [],
    }
    assert begun["hint"] == "this project is not yours yet: rye trust"
    assert clone.everything() == before
    clone.is_refused("untrusted_key")
    undecided = clone.bob.rye("trust", "--json", cwd=clone.project).json
    assert undecided["project"] == str(clone.project)
    assert [key["key_id"] for key in undecided["keys"]] == [clone.published.key_id]


def test_to_approve_the_project_trusts_none_of_its_keys(clone: Clone) -> None:
    clone.bob.rye("trust", "project", cwd=clone.project)
    clone.is_refused("untrusted_key")
    assert clone.bob.rye("trust", "--json", cwd=clone.project).json["project"] is None


def test_to_accept_a_key_approves_no_unsigned_files(clone: Clone) -> None:
    clone.bob.rye("trust", "review", "--accept", clone.published.key_id, cwd=clone.project)
    clone.is_accepted()
    assert clone.bob.rye("trust", "--json", cwd=clone.project).json["project"] == str(clone.project)


def test_a_proposal_that_changed_after_it_was_accepted_is_another_one(clone: Clone) -> None:
    clone.bob.rye("trust", "review", "--accept", clone.published.key_id, cwd=clone.project)
    clone.is_accepted()
    accepted = clone.document.read_text()
    clone.document.write_text(
        accepted.replace("[public_key]", '[scope]\nroles = ["tool", "runtime"]\n\n[public_key]')
    )
    clone.is_refused("untrusted_key")
    [row] = clone.bob.rye("trust", "list", "--json", cwd=clone.project).json["keys"]
    assert (row["state"], row["scope"]["roles"]) == ("undecided", ["runtime", "tool"])
    clone.document.write_text(accepted)
    clone.is_accepted()


def test_a_proposal_that_changed_after_it_was_shown_is_not_accepted_by_its_digest(clone: Clone) -> None:
    [row] = clone.bob.rye("trust", "--json", cwd=clone.project).json["keys"]
    shown = f"{row['key_id']}@{clone.published.digest}"
    proposed = clone.document.read_text()
    clone.document.write_text(
        proposed.replace("[public_key]", '[scope]\nroles = ["tool", "runtime"]\n\n[public_key]')
    )
    for words in (("review", "--accept", shown), ("deny", shown)):
        clone.bob.refused("document_changed", "trust", *words, cwd=clone.project)
    clone.is_refused("untrusted_key")
    clone.document.write_text(proposed)
    assert (
        clone.published.digest in clone.bob.rye("trust", "review", "--accept", shown, cwd=clone.project).out
    )
    clone.is_accepted()


def test_what_was_accepted_in_one_clone_is_not_in_another(clone: Clone) -> None:
    clone.bob.rye("trust", "review", "--accept", clone.published.key_id, cwd=clone.project)
    shutil.copytree(clone.project, clone.place / "another")
    clone.project = clone.place / "another"
    clone.is_refused("untrusted_key")


def test_a_key_that_was_denied_stays_so_whatever_the_environment_says(clone: Clone) -> None:
    clone.is_accepted(RYE_TRUSTED_KEYS=clone.published.key_id)
    clone.bob.rye("trust", "deny", clone.published.key_id, cwd=clone.project)
    clone.is_refused("untrusted_key", RYE_TRUSTED_KEYS=clone.published.key_id)


@pytest.mark.parametrize("name", [".env", ".ai/.env", ".envrc"])
def test_the_environment_that_accepts_keys_is_not_the_projects(clone: Clone, name: str) -> None:
    (clone.project / name).write_text(
        f"RYE_TRUSTED_KEYS={clone.published.key_id}\nUSER_SPACE={clone.published.author.place}/space\n"
    )
    clone.bob.rye("trust", "project", cwd=clone.project)
    clone.is_refused("untrusted_key")


@pytest.mark.parametrize("ids", ["all", "*", "0123456789abcdef"])
def test_the_environment_accepts_whole_key_ids_alone(clone: Clone, ids: str) -> None:
    clone.is_refused("malformed_trust", RYE_TRUSTED_KEYS=ids)


def test_a_key_is_accepted_by_its_whole_id_alone(clone: Clone) -> None:
    [row] = clone.bob.rye("trust", "list", "--json", cwd=clone.project).json["keys"]
    for text in (row["fingerprint"], row["key_id"][:-1], row["owner"], "0" * 64):
        clone.bob.refused("unknown_key", "trust", "review", "--accept", text, cwd=clone.project)
    clone.is_refused("untrusted_key")


def test_of_several_keys_all_are_accepted_or_none(clone: Clone) -> None:
    accept = ["--accept", clone.published.key_id, "--accept", "0" * 64]
    clone.bob.refused("unknown_key", "trust", "review", *accept, cwd=clone.project)
    clone.is_refused("untrusted_key")


def test_a_person_who_says_nothing_accepts_nothing(clone: Clone) -> None:
    for answer in ("\n", "0\n", "no\n"):
        code = 0 if answer == "\n" else 2
        clone.bob.types([("for none: ", answer)], "trust", cwd=clone.project, code=code)
    clone.is_refused("untrusted_key")


def test_what_a_person_accepts_is_what_they_were_shown(clone: Clone) -> None:
    """The project changes its proposal while the person is reading it."""
    accepted = clone.document.read_text()
    wide = accepted.replace("[public_key]", '[scope]\nroles = ["tool", "runtime"]\n\n[public_key]')

    def change_and_accept() -> str:
        clone.document.write_text(wide)
        return "1\n"

    clone.bob.types([("for none: ", change_and_accept)], "trust", "review", cwd=clone.project)
    clone.is_refused("untrusted_key")
    clone.document.write_text(accepted)
    clone.is_accepted()
