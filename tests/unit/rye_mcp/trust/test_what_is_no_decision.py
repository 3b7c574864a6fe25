"""Files about trust that say something impossible: each is refused, and none decides anything."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rye_mcp.permissions import Access, Permissions
from rye_mcp.trust.approvals import Approvals
from rye_mcp.trust.claims import AgreedPermissions
from rye_mcp.trust.scope import SignerKind
from rye_mcp.trust.trust_document import RotationStatement, TrustDocument
from rye_mcp.trust.trust_store import parse_revocations
from tests.trust_world import NOW, World, new_key, refused

Change = Callable[[str], str]

OLD, NEW = new_key(SignerKind.PERSON), new_key(SignerKind.PERSON)
ROTATION = RotationStatement.sign(OLD.public, OLD.private_pem, NEW.public, NOW)
TO_ITSELF = RotationStatement.sign(NEW.public, NEW.private_pem, NEW.public, NOW)


def rotated(statement: RotationStatement) -> str:
    return TrustDocument.create(NEW.public, "mia", rotation=statement).data.decode()


def parsed(text: str) -> TrustDocument:
    return TrustDocument.parse(text.encode(), Path(f"{NEW.public.fingerprint}.toml"))


def test_the_rotation_that_the_cases_change_is_one() -> None:
    assert parsed(rotated(ROTATION)).rotation == ROTATION


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda text: text.replace('at = "2026', 'at = "26'), "a time"),
        (lambda text: text.replace(f'at = "{ROTATION.at}"', "at = 2026-11-18"), "a time"),
        (lambda text: text.replace(ROTATION.at, "2026-11-18"), "a time"),
        (lambda text: text.replace(ROTATION.signature, ROTATION.signature[:-2]), "a signature in"),
        (lambda text: text.replace(f'"{ROTATION.signature}"', "1"), "a signature in"),
        (lambda text: text.partition("old_key")[0] + "old_key = 1\n", "a PEM as old_key"),
        (lambda text: text.partition("old_key")[0] + 'old_key = "é"\n', "a PEM as old_key"),
    ],
)
def test_a_rotation_that_says_something_impossible_is_refused(change: Change, expected: str) -> None:
    before, mark, rotation = rotated(ROTATION).partition("[rotation]")
    error = refused("malformed_trust", lambda: parsed(before + mark + change(rotation)))
    assert f"expected {expected}" in error.message


def test_a_key_is_no_successor_of_itself() -> None:
    assert "another key" in refused("malformed_trust", lambda: parsed(rotated(TO_ITSELF))).message


@pytest.mark.parametrize("reason", ["1", '"two\\nlines"', '"\\u001b[2J"', '""'])
def test_a_reason_that_nobody_could_read_revokes_nothing_and_is_refused(reason: str) -> None:
    text = f'version = 1\n[[revoked]]\nkey_id = "{OLD.public.key_id}"\nreason = {reason}\n'
    error = refused("malformed_trust", lambda: parse_revocations(text.encode(), Path("revoked.toml")))
    assert "reason" in error.message


@pytest.mark.parametrize(
    "changed",
    [
        {"number": "1"},
        {"number": True},
        {"number": 1.0},
        {"denied_keys": "all"},
        {"denied_keys": [1]},
        {"denied_keys": ["0" * 16]},
    ],
    ids=str,
)
def test_decisions_of_a_wrong_type_approve_nothing(world: World, changed: dict[str, object]) -> None:
    world.project.mkdir(parents=True, exist_ok=True)
    approvals = Approvals(world.project, world.state)
    approvals.approve_project()
    assert approvals.read().approved
    [place] = (path for path in world.state.rglob("*.json") if b'"denied_keys"' in path.read_bytes())
    place.write_text(json.dumps({**json.loads(place.read_text()), **changed}))
    error = refused("malformed_trust", Approvals(world.project, world.state).read)
    assert error.where == str(place)


@pytest.mark.parametrize(
    "changed",
    [{"version": 2}, {"version": None}, {"permissions": {"fly": True}}, {"permissions": None}],
    ids=str,
)
def test_a_damaged_record_of_permissions_is_no_agreement(world: World, changed: dict[str, object]) -> None:
    file = world.stored(world.file(b"print()", item_id="demo/hello"))
    agreed = Permissions(project=Access.WRITE)
    AgreedPermissions(lambda: world.state).write(file, "tool", agreed)
    assert AgreedPermissions(lambda: world.state).of(file, "tool") == agreed
    [place] = (world.state / "agreed").rglob("*.json")
    place.write_text(json.dumps({**json.loads(place.read_text()), **changed}))
    error = refused("malformed_trust", lambda: AgreedPermissions(lambda: world.state).of(file, "tool"))
    assert error.where == str(place)


@pytest.mark.parametrize("text", ["[]", "null", "{}", '{"version": 1}', "no JSON"])
def test_another_file_in_the_place_of_that_record_is_no_agreement(world: World, text: str) -> None:
    file = world.stored(world.file(b"print()", item_id="demo/hello"))
    AgreedPermissions(lambda: world.state).write(file, "tool", Permissions())
    [place] = (world.state / "agreed").rglob("*.json")
    place.write_text(text)
    refused("malformed_trust", lambda: AgreedPermissions(lambda: world.state).of(file, "tool"))
