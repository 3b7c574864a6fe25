"""`rye init`, `rye keys` and `rye trust`, as people and scripts use them: as real processes."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.people import Person, Publication, run_if_verified

HELLO = '"""Says hello."""\n'


@pytest.fixture
def leo(tmp_path: Path) -> Person:
    return Person("leo", tmp_path / "leo")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Publication:
    return Publication.make(tmp_path_factory.mktemp("published"))


def everything(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_init_says_what_it_made_and_is_done_once(leo: Person, project: Path) -> None:
    made = leo.rye("init", "--json", cwd=project).json
    assert (made["user"]["made"], made["user"]["owner"], made["user"]["encrypted"]) == (True, "leo", False)
    assert (made["project"]["made"], made["project"]["yours"], made["project"]["proposed"]) == (
        True,
        True,
        "written",
    )
    assert "/.ai/keys/" in (project / ".gitignore").read_text().splitlines()
    before = everything(project) | everything(leo.place)
    again = leo.rye("init", "--owner", "somebody else", "--json", cwd=project).json
    assert (again["user"]["made"], again["user"]["owner"]) == (False, "leo")
    assert (again["project"]["made"], again["project"]["yours"]) == (False, True)
    assert everything(project) | everything(leo.place) == before
    assert "Your project" in leo.rye("init", cwd=project).out
    assert leo.rye("trust", cwd=project).out == "Nothing is undecided.\n"


def test_init_elsewhere_and_without_a_proposal(leo: Person, project: Path) -> None:
    elsewhere = project / "else where"
    error = leo.refused("no_project", "init", "--project", str(elsewhere), cwd=project)
    assert error["hint"] == f"mkdir -p '{elsewhere}'"
    elsewhere.mkdir()
    text = leo.rye("init", "--project", str(elsewhere), "--no-propose", "--owner", "Leo", cwd=project).out
    assert "rye trust propose" in text
    assert not (elsewhere / ".ai/trusted_keys").exists()
    assert not (project / ".ai").exists()
    assert leo.rye("keys", "show", "--json", cwd=project).json["person"]["owner"] == "Leo"


def test_init_twice_at_once_makes_one_key_and_one_project(leo: Person, project: Path) -> None:
    with ThreadPoolExecutor() as both:
        begun = [both.submit(leo.rye, "init", "--json", cwd=project) for _ in range(2)]
    answers = [each.result().json for each in begun]
    assert len({answer["user"]["key_id"] for answer in answers}) == 1
    assert sorted(answer["project"]["made"] for answer in answers) == [False, True]
    assert leo.rye("trust", cwd=project).out == "Nothing is undecided.\n"
    assert (project / ".gitignore").read_text().count("/.ai/keys/") == 1


def test_init_below_a_project_makes_another_one(leo: Person, project: Path) -> None:
    (project / ".ai").mkdir()
    (project / "below").mkdir()
    made = leo.rye("init", "--json", cwd=project / "below").json["project"]
    assert (made["path"], made["made"], made["yours"]) == (str(project / "below"), True, True)
    assert leo.rye("trust", "--json", cwd=project).json["project"] == str(project)


def test_init_in_a_directory_whose_name_is_no_text(leo: Person, project: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(project) + b"/\xff\xfe"))
    odd.mkdir()
    for words in (("init",), ("trust",), ("trust", "project"), ("trust", "propose"), ("trust", "list")):
        leo.rye(*words, cwd=odd)
        leo.rye(*words, "--json", cwd=odd)
    assert "\\xff\\xfe" in leo.rye("init", cwd=odd).out


def test_init_in_a_directory_that_is_gone_makes_keys_and_says_so(leo: Person, project: Path) -> None:
    gone = ("sh", "-c", 'rmdir "$PWD" && exec "$@"', "sh")
    assert "found that it was removed" in leo.rye("init", cwd=project, before=gone).out
    assert leo.key_id(cwd=project.parent)


def test_init_in_ones_own_space_makes_no_project(leo: Person) -> None:
    home = leo.user_space.parent
    home.mkdir(parents=True)
    text = leo.rye("init", cwd=home).out
    assert "Made your key pair: leo" in text
    assert "Made no project" in text
    assert not (home / ".gitignore").exists()
    leo.refused("no_project", "init", "--project", str(home), cwd=home)


def test_keys_from_nothing_to_the_next_pair(leo: Person, project: Path) -> None:
    leo.refused("no_key", "keys", "show", cwd=project)
    leo.refused("no_key", "keys", "rotate", cwd=project)
    leo.refused("no_key", "keys", "export", cwd=project)
    leo.refused("no_key", "keys", "passphrase", "--remove", cwd=project)
    assert leo.rye("trust", "list", cwd=project).out == "No keys yet: rye init\n"
    made = leo.rye("keys", "generate", "--owner", "Leo", "--json", cwd=project).json
    assert (made["status"], made["owner"], made["kind"]) == ("generated", "Leo", "person")
    error = leo.refused("unusable_key", "keys", "generate", cwd=project)
    assert "rye keys rotate" in error["hint"]

    leo.rye("init", cwd=project)
    (project / ".ai/tools/hello.py").write_text(HELLO)
    leo.rye("sign", "hello", cwd=project)
    rotated = leo.rye("keys", "rotate", "--json", cwd=project).json
    assert (rotated["old"]["key_id"], rotated["owner"]) == (made["key_id"], "Leo")
    assert rotated["key_id"] != made["key_id"]
    leo.rye("verify", "hello", cwd=project)
    text = leo.rye("keys", "show", cwd=project).out
    assert rotated["key_id"] in text
    proposed = leo.rye("trust", "propose", cwd=project).out
    assert "Everyone who trusts your old key trusts this one too" in proposed
    assert "There is no key pair of your agents." in text


def test_the_key_pair_of_agents_is_another_one(leo: Person, project: Path) -> None:
    leo.rye("keys", "generate", cwd=project)
    agent = leo.rye("keys", "generate", "--kind", "agent", "--json", cwd=project).json
    shown = leo.rye("keys", "show", "--json", cwd=project).json
    assert shown["agent"]["key_id"] == agent["key_id"] != shown["person"]["key_id"]
    rows = leo.rye("trust", "list", "--json", cwd=project).json["keys"]
    assert {(row["kind"], row["state"], row["yours"]) for row in rows} == {
        ("person", "trusted", True),
        ("agent", "trusted", True),
    }


@pytest.mark.thorough
def test_a_passphrase_is_asked_for_in_a_terminal(leo: Person, project: Path) -> None:
    leo.rye("init", cwd=project)
    (project / ".ai/tools/hello.py").write_text(HELLO)
    new = [("New passphrase: ", "correct horse\n"), ("confirmation: ", "correct horse\n")]
    leo.types(new, "keys", "passphrase", cwd=project)
    leo.refused("passphrase_required", "sign", "hello", cwd=project)
    leo.types([("private key: ", "correct horse\n")], "sign", "hello", cwd=project)
    leo.refused("passphrase_required", "keys", "rotate", cwd=project)
    leo.types([("private key: ", "wrong\n")], "keys", "passphrase", "--remove", cwd=project, code=1)
    assert leo.rye("keys", "show", "--json", cwd=project).json["person"]["encrypted"] is True
    leo.types([("private key: ", "correct horse\n"), *new], "keys", "rotate", cwd=project)
    assert leo.rye("keys", "show", "--json", cwd=project).json["person"]["encrypted"] is True
    leo.types([("private key: ", "correct horse\n")], "keys", "passphrase", "--remove", cwd=project)
    assert leo.rye("keys", "show", "--json", cwd=project).json["person"]["encrypted"] is False


@pytest.mark.thorough
def test_a_passphrase_is_taken_from_the_environment_and_not_asked_for_with_json(
    leo: Person, project: Path
) -> None:
    def is_encrypted() -> object:
        return leo.rye("keys", "show", "--json", cwd=project).json["person"]["encrypted"]

    leo.rye("keys", "generate", cwd=project)
    leo.rye("keys", "rotate", cwd=project, RYE_NEW_KEY_PASSPHRASE="one")
    assert is_encrypted() is True
    for words in (("keys", "passphrase"), ("keys", "rotate"), ("keys", "passphrase", "--remove")):
        shown = leo.types([], *words, "--json", cwd=project, code=1).out
        assert json.loads(shown)["code"] == "passphrase_required"
    leo.rye("keys", "rotate", cwd=project, RYE_KEY_PASSPHRASE="one")
    assert is_encrypted() is True
    leo.rye("keys", "passphrase", "--remove", cwd=project, RYE_KEY_PASSPHRASE="one")
    assert is_encrypted() is False


def test_an_interrupted_command_ends_with_130_and_changes_nothing(leo: Person, project: Path) -> None:
    leo.rye("init", cwd=project)
    before = everything(leo.user_space)
    leo.types([("New passphrase: ", "\x03")], "keys", "passphrase", cwd=project, code=130)
    assert everything(leo.user_space) == before


def test_a_key_is_handed_over_and_added(published: Publication, leo: Person, tmp_path: Path) -> None:
    clone = published.clone(tmp_path)
    canary = tmp_path / "canary"
    assert run_if_verified(leo, clone, canary) == "untrusted_key"
    document = published.author.rye("keys", "export", cwd=published.project).out
    added = leo.rye("trust", "add", "-", "--ids", "demo/*", "--json", cwd=clone, given=document.encode())
    assert added.json["status"] == "written"
    assert added.json["key_id"] == published.key_id
    assert added.json["scope"] == {"ids": ["demo/*"], "roles": None}
    assert run_if_verified(leo, clone, canary) == "verified"

    (clone / "alice.toml").write_text(document)
    error = leo.refused("document_exists", "trust", "add", "alice.toml", cwd=clone)
    assert "--replace" in error["hint"]
    text = leo.rye("trust", "add", "alice.toml", "--replace", "--ids", "other/*", cwd=clone).out
    assert text.startswith("Trusted (replaced): alice\n")
    assert "ids other/*" in text
    assert run_if_verified(leo, clone, canary) == "out_of_scope"


@pytest.mark.parametrize(
    ("words", "given", "code"),
    [
        (["missing.toml"], b"", "read_failed"),
        (["."], b"", "unsafe_path"),
        (["-"], b"", "malformed_trust"),
        (["-"], b"x" * 20_000, "too_large"),
        (["-", "--role", "root"], b"", "malformed_trust"),
        (["-", "--ids", "../*"], b"", "malformed_trust"),
    ],
)
def test_what_is_no_key_is_not_added(
    leo: Person, project: Path, words: list[str], given: bytes, code: str
) -> None:
    leo.rye("init", cwd=project)
    if "--role" in words or "--ids" in words:
        given = leo.rye("keys", "export", cwd=project).out.encode()
    before = everything(leo.user_space)
    leo.refused(code, "trust", "add", *words, cwd=project, given=given)
    assert everything(leo.user_space) == before


def test_a_proposal_is_written_once_and_says_what_for(leo: Person, project: Path) -> None:
    leo.rye("init", "--no-propose", cwd=project)
    words = ("trust", "propose", "--role", "tool", "--role", "runtime", "--ids", "leo/*")
    written = leo.rye(*words, "--json", cwd=project).json
    assert written["status"] == "written"
    assert written["scope"] == {"ids": ["leo/*"], "roles": ["runtime", "tool"]}
    assert Path(written["path"]).is_file()
    assert leo.rye(*words, "--json", cwd=project).json["status"] == "unchanged"
    leo.refused("document_exists", "trust", "propose", cwd=project)
    assert leo.rye("trust", "propose", "--replace", "--json", cwd=project).json["status"] == "replaced"


def test_a_command_that_needs_a_project_says_so_without_one(leo: Person, project: Path) -> None:
    leo.rye("keys", "generate", cwd=project)
    for words in (
        ("trust", "propose"),
        ("trust", "project"),
        ("trust", "review"),
        ("trust", "deny", "0" * 64),
        ("trust", "project", "--project", str(project)),
        ("trust", "propose", "--project", str(project)),
    ):
        assert leo.refused("no_project", *words, cwd=project)["hint"]
    assert leo.rye("trust", cwd=project).out == "Nothing is undecided.\n"


def test_the_unsigned_files_of_a_project_are_approved_and_withdrawn(
    published: Publication, leo: Person, tmp_path: Path
) -> None:
    clone = published.clone(tmp_path)
    asked = leo.rye("trust", cwd=clone).out
    assert f"rye trust review --accept {published.key_id}@{published.digest}\n" in asked
    assert "rye trust project\n" in asked
    assert leo.rye("trust", "project", "--json", cwd=clone).json == {
        "status": "approved",
        "project": str(clone),
    }
    assert leo.rye("init", "--json", cwd=clone).json["project"]["yours"] is True
    leo.rye("trust", "project", "--withdraw", cwd=clone)
    assert leo.rye("trust", "--json", cwd=clone).json["project"] == str(clone)
    assert leo.rye("init", "--json", cwd=clone).json["project"]["yours"] is False


def test_to_accept_a_key_in_a_terminal_accepts_nothing_else(
    published: Publication, leo: Person, tmp_path: Path
) -> None:
    clone = published.clone(tmp_path)
    leo.types([("for none: ", "1\n")], "trust", cwd=clone)
    left = leo.rye("trust", "--json", cwd=clone).json
    assert (left["keys"], left["project"]) == ([], str(clone))


def test_everything_undecided_is_asked_about_once(
    published: Publication, leo: Person, tmp_path: Path
) -> None:
    clone = published.clone(tmp_path)
    leo.types([("for none: ", "all\n")], "trust", cwd=clone)
    assert leo.rye("trust", cwd=clone).out == "Nothing is undecided.\n"
    assert run_if_verified(leo, clone, tmp_path / "canary") == "verified"
    [row] = leo.rye("trust", "list", "--json", cwd=clone).json["keys"]
    assert row["state"] == "accepted"


def test_with_json_nothing_is_asked(published: Publication, leo: Person, tmp_path: Path) -> None:
    clone = published.clone(tmp_path)
    shown = json.loads(leo.types([], "trust", "--json", cwd=clone).out)
    assert shown["commands"] == [
        f"rye trust review --accept {published.key_id}@{published.digest}",
        f"rye trust deny {published.key_id}",
        "rye trust project",
    ]


def test_the_list_says_who_accepted_a_key(published: Publication, leo: Person, tmp_path: Path) -> None:
    clone = published.clone(tmp_path)
    listed = leo.rye("trust", "list", cwd=clone, RYE_TRUSTED_KEYS=published.key_id).out
    assert listed.startswith("accepted   the project says: alice (by RYE_TRUSTED_KEYS)\n")
    leo.rye("trust", "deny", published.key_id, cwd=clone)
    assert leo.rye("trust", "list", cwd=clone).out.startswith("denied ")


@pytest.mark.parametrize(
    "words",
    [
        ("trust", "--json", "list"),
        ("trust", "revoke"),
        ("trust", "deny"),
        ("trust", "nonsense"),
        ("keys", "generate", "--kind", "system"),
        ("keys", "nonsense"),
        ("init", "--nonsense"),
    ],
)
def test_wrong_use_ends_with_2(leo: Person, project: Path, words: tuple[str, ...]) -> None:
    assert leo.rye(*words, cwd=project, code=2).out == ""
    assert everything(leo.place) == {}
