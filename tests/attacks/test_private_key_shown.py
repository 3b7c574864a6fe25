"""Somebody reads a private key where a command printed it: on a screen, in a log, in a bug report."""

from __future__ import annotations

from pathlib import Path

from tests.people import Person


def secrets(person: Person) -> list[str]:
    """The lines of every private key of a person that could not be anything else."""
    lines = [path.read_text().splitlines() for path in person.user_space.glob("keys/*/private_key.pem")]
    return [line for each in lines for line in each if "-----" not in line]


def test_no_command_prints_one(tmp_path: Path) -> None:
    bob = Person("bob", tmp_path / "bob")
    project = tmp_path / "project"
    project.mkdir()
    seen = bob.rye("init", cwd=project).shown
    private = bob.user_space / "keys/person/private_key.pem"
    before = secrets(bob)
    assert before
    for words in (
        ("keys", "generate", "--kind", "agent", "--json"),
        ("keys", "show", "--json"),
        ("keys", "export"),
        ("trust", "propose"),
        ("trust", "list", "--json"),
        ("keys", "rotate", "--json"),
        ("trust", "--json"),
    ):
        seen += bob.rye(*words, cwd=project).shown
    for words in (("trust", "add", str(private), "--owner", "bob"), ("keys", "generate")):
        seen += bob.rye(*words, cwd=project, code=1).shown
    after = secrets(bob)
    assert len(set(before + after)) == 3
    assert not [line for line in before + after if line in seen]
    assert "PRIVATE KEY-----" not in seen


def test_none_gets_into_the_project(tmp_path: Path) -> None:
    bob = Person("bob", tmp_path / "bob")
    project = tmp_path / "project"
    project.mkdir()
    bob.rye("init", cwd=project)
    bob.rye("trust", "propose", "--owner", "robert", "--replace", cwd=project)
    written = b"".join(path.read_bytes() for path in project.rglob("*") if path.is_file())
    assert b"robert" in written
    assert b"PRIVATE" not in written


def test_a_passphrase_is_printed_nowhere_and_kept_from_the_command_line(tmp_path: Path) -> None:
    bob = Person("bob", tmp_path / "bob", {"RYE_KEY_PASSPHRASE": "correct horse"})
    project = tmp_path / "project"
    project.mkdir()
    seen = bob.rye("init", "--json", cwd=project).shown
    assert bob.rye("keys", "show", "--json", cwd=project).json["person"]["encrypted"] is True
    bob.refused("passphrase_required", "keys", "passphrase", cwd=project)
    seen += bob.rye("keys", "passphrase", cwd=project, RYE_NEW_KEY_PASSPHRASE="battery staple").shown
    (project / ".ai/tools/hello.py").write_text('"""Says hello."""\n')
    error = bob.refused("passphrase_required", "sign", "hello", cwd=project)
    seen += str(error) + bob.rye("sign", "hello", cwd=project, RYE_KEY_PASSPHRASE="battery staple").shown
    assert "correct horse" not in seen
    assert "battery staple" not in seen
