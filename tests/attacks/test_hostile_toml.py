"""Somebody proposes a document that is made to confuse who reads it, or to keep them busy."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from rye_mcp.trust.approvals import TRUSTED_KEYS_VARIABLE
from rye_mcp.trust.trust_document import TrustDocument
from tests.trust_world import World, new_key, refused, stopped

Change = Callable[[bytes], bytes]


def replaced(old: bytes, new: bytes) -> Change:
    return lambda data: data.replace(old, new, 1)


def before_the_key(text: str) -> Change:
    return replaced(b"[public_key]", text.encode("utf-8", "surrogateescape") + b"\n[public_key]")


HOSTILE: dict[str, Change] = {
    "nothing": lambda data: b"",
    "no TOML": lambda data: b"= = =",
    "not UTF-8": lambda data: data + b"# \xff",
    "a byte order mark": lambda data: b"\xef\xbb\xbf" + data,
    "a NUL": lambda data: data + b"# \0\n",
    "deep lists": lambda data: b"x = " + b"[" * 8000 + data,
    "deep tables": lambda data: b"x = " + b"{a=" * 4000 + data,
    "deep dotted keys": lambda data: b"a." * 4000 + b"a = 1\n" + data,
    "a huge number": lambda data: b"x = " + b"9" * 9000 + b"\n" + data,
    "a time that is none": lambda data: b"x = 2026-13-99T99:99:99Z\n" + data,
    "a key twice": lambda data: b'owner = "mia"\n' + data,
    "a mistyped scope": before_the_key('[scopes]\nids = ["mia/*"]'),
    "a mistyped list": before_the_key('[scope]\nid = ["mia/*"]'),
    "an empty list": before_the_key("[scope]\nids = []"),
    "a text instead of a list": before_the_key('[scope]\nids = "*"'),
    "a pattern that climbs": before_the_key('[scope]\nids = ["../*"]'),
    "a pattern in the middle": before_the_key('[scope]\nids = ["a*b"]'),
    "a pattern of nothing": before_the_key('[scope]\nids = ["/*"]'),
    "a number as a pattern": before_the_key("[scope]\nids = [1]"),
    "a role that is none": before_the_key('[scope]\nroles = ["root"]'),
    "a list as a role": before_the_key('[scope]\nroles = [["tool"]]'),
    "a scope that is a list": replaced(b"version = 1", b"version = 1\nscope = []"),
    "another version": replaced(b"version = 1", b"version = 2"),
    "a version that is true": replaced(b"version = 1", b"version = true"),
    "a fractional version": replaced(b"version = 1", b"version = 1.0"),
    "a kind that is none": replaced(b"version = 1", b'version = 1\nkind = "system"'),
    "a number as kind": replaced(b"version = 1", b"version = 1\nkind = 1"),
    "a list as kind": replaced(b"version = 1", b"version = 1\nkind = []"),
    "no owner": replaced(b"owner", b"# owner"),
    "an empty owner": replaced(b'"mia"', b'""'),
    "an owner that clears the screen": replaced(b'"mia"', b'"\\u001b[2Jleo"'),
    "an owner of two lines": replaced(b'"mia"', b'"mia\\nkey_id = trusted"'),
    "an owner that runs backwards": replaced(b'"mia"', b'"\\u202eoel"'),
    "a deep owner": replaced(b"owner", b"owner." + b"a." * 4000 + b"a"),
    "a deep kind": lambda data: b"kind." + b"a." * 4000 + b"a = 1\n" + data,
    "a deep key id": replaced(b"key_id", b"key_id." + b"a." * 4000 + b"a"),
    "a long owner": replaced(b'"mia"', b'"' + b"m" * 300 + b'"'),
    "another key id": lambda data: data.replace(data.split(b'"')[1], b"0" * 64, 1),
    "a shorter key id": lambda data: data.replace(data.split(b'"')[1], data.split(b'"')[1][:16], 1),
    "a number as key id": lambda data: data.replace(b'"' + data.split(b'"')[1] + b'"', b"0", 1),
    "no key": lambda data: data.split(b"[public_key]")[0],
    "a key of another kind": replaced(b"PUBLIC KEY", b"CERTIFICATE"),
    "a number as key": lambda data: data.split(b"[public_key]")[0] + b"[public_key]\npem = 1\n",
    "more in the key": lambda data: data + b'path = "/etc/passwd"\n',
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE)
def test_an_invalid_document_trusts_nobody(world: World, change: Change) -> None:
    mia = new_key()
    document = TrustDocument.create(mia.public, "mia")
    world.environment[TRUSTED_KEYS_VARIABLE] = mia.public.key_id
    world.propose(document)
    file = world.signed(key=mia)
    world.verify(file)
    hostile = change(document.data)
    assert hostile != document.data
    world.propose(document, hostile)
    began = time.perf_counter()
    error = stopped(world, "malformed_trust", file)
    assert time.perf_counter() - began < 2
    assert error.message.isprintable()
    assert len(error.message) < 1000


def test_a_document_of_a_gigabyte_is_not_read(world: World) -> None:
    mia = new_key()
    path = world.propose(TrustDocument.create(mia.public, "mia"))
    with path.open("r+b") as file:
        file.truncate(1 << 30)
    stopped(world, "too_large", world.signed(key=mia))


def test_a_document_of_another_key_under_the_fingerprint_of_a_signer(world: World) -> None:
    """The file is called after a key that is not in it: nobody looks up one key and gets another."""
    mia, mallory = new_key(), new_key()
    document = TrustDocument.create(mia.public, "mia")
    path = world.propose(document)
    path.rename(path.with_name(f"{mallory.public.fingerprint}.toml"))
    world.environment[TRUSTED_KEYS_VARIABLE] = f"{mia.public.key_id} {mallory.public.key_id}"
    stopped(world, "malformed_trust", world.signed(key=mallory))


def test_a_malformed_document_takes_nothing_from_anybody_else(world: World) -> None:
    directory = world.user_space / "trusted_keys"
    file = world.signed()
    directory.joinpath("0" * 16 + ".toml").write_bytes(b"= = =")
    world.verify(file)
    listing = world.trust().store.documents()
    assert [document.owner for document in listing.documents] == ["leo"]
    assert [problem.code for problem in listing.problems] == ["malformed_trust"]


@pytest.mark.parametrize(
    "owner",
    [
        *("", " ", "two\nlines", "\x1b[2J", "\u202e", "\ud800", "a\u00a0b"),
        *("m\u2800ia", "mia\u3164", "mia\ufff9", "m\u034fia"),  # which Python takes to be printable, in part
        *("x" * 65, "mia" + " " * 40 + "fingerprint", " mia", "mia ", "mi  a"),
        *("mia (you)", "mia \uff08you\uff09", "mia \u2768you\u2769", "mia)"),
    ],
    ids=ascii,
)
def test_no_such_document_is_written(owner: str) -> None:
    refused("malformed_trust", lambda: TrustDocument.create(new_key().public, owner))


@pytest.mark.parametrize(
    "owner", ["x" * 64, "Mia Example <mia@example.org>", "\u9ed2\u6fa4 \u660e", "o'mia [x]"]
)
def test_any_visible_name_is_allowed(owner: str) -> None:
    assert TrustDocument.create(new_key().public, owner).owner == owner


STATE = {
    "nothing": b"",
    "no JSON": b"{",
    "a list": b"[]",
    "another version": b'{"version": 2, "approved": true, "proposals": {}}',
    "a text as approval": b'{"version": 1, "approved": "yes", "proposals": {}}',
    "a decision that is none": b'{"version": 1, "approved": true, "proposals": {"%s": "maybe"}}'
    % (b"0" * 64),
    "a list as decision": b'{"version": 1, "approved": true, "proposals": {"%s": []}}' % (b"0" * 64),
    "a digest that is none": b'{"version": 1, "approved": true, "proposals": {"0": "accepted"}}',
}


@pytest.mark.parametrize("data", STATE.values(), ids=STATE)
def test_decisions_that_cannot_be_read_decide_nothing(world: World, data: bytes) -> None:
    mia = new_key()
    world.propose(TrustDocument.create(mia.public, "mia"))
    trust = world.trust()
    assert trust.approvals is not None
    trust.approvals.approve_project()
    path = next(world.state.glob("projects/*.json"))
    path.write_bytes(data)
    stopped(world, "malformed_trust", world.signed(key=mia))
    refused("malformed_trust", trust.approvals.read)
    refused("malformed_trust", trust.approvals.approve_project)
    assert path.read_bytes() == data
