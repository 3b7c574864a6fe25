"""Documents of trusted keys: what is written is what is read, and what people write by hand is read too."""

from __future__ import annotations

import tomllib
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from rye_mcp.trust import _toml
from rye_mcp.trust.scope import Role, Scope, SignerKind
from rye_mcp.trust.trust_document import TrustDocument
from rye_mcp.trust.trust_store import parse_revocations
from tests.trust_world import World, new_key

KEY = new_key().public
PLACE = Path(f"{KEY.fingerprint}.toml")

word = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=12)
owners = st.lists(word, min_size=1, max_size=4).map(" ".join).filter(_toml.is_owner)
segment = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,10}", fullmatch=True).filter(
    lambda text: text != "__pycache__"
)
pattern = st.builds("/".join, st.lists(segment, min_size=1, max_size=4)) | st.just("*")


@given(
    owner=owners,
    ids=st.none()
    | st.lists(pattern | pattern.map(lambda text: f"{text.strip('*') or 'x'}/*"), min_size=1, max_size=5),
    roles=st.none() | st.sets(st.sampled_from(Role), min_size=1),
    kind=st.sampled_from([SignerKind.PERSON, SignerKind.AGENT]),
)
def test_what_is_written_is_read(
    owner: str, ids: list[str] | None, roles: set[Role] | None, kind: SignerKind
) -> None:
    scope = Scope(None if ids is None else tuple(ids), None if roles is None else frozenset(roles))
    document = TrustDocument.create(KEY, owner, scope=scope, kind=kind)
    assert (document.key, document.owner, document.scope, document.kind) == (KEY, owner, scope, kind)
    assert TrustDocument.parse(document.data, PLACE) == document
    assert tomllib.loads(document.data.decode())["key_id"] == KEY.key_id


@given(st.text())
def test_every_text_is_quoted_so_that_reading_gives_it_back(text: str) -> None:
    try:
        data = f"x = {_toml.write_value(text)}".encode()
    except UnicodeEncodeError:
        return
    assert tomllib.loads(data.decode()) == {"x": text}


def test_what_a_person_writes_by_hand_is_read(world: World) -> None:
    text = f"""
# Leo, whom I met at the conference.
version = 1
key_id = '{KEY.key_id}'
owner = 'leo'

[scope]
ids = [
    "leo/*",  # everything of his
    "demo/hello",
]
roles = ["tool", "runtime"]

[public_key]
pem = '''{KEY.pem.decode().rstrip()}'''
"""
    document = TrustDocument.parse(text.encode(), PLACE)
    assert document.scope == Scope(("leo/*", "demo/hello"), frozenset({Role.TOOL, Role.RUNTIME}))
    assert (document.owner, document.kind) == ("leo", SignerKind.PERSON)


def test_a_document_of_the_contract_is_written_in_its_form() -> None:
    document = TrustDocument.create(KEY, "leo", scope=Scope(("leo/*",), frozenset({Role.TOOL})))
    assert document.data.decode() == (
        f'version = 1\nkey_id = "{KEY.key_id}"\nowner = "leo"\n\n'
        '[scope]\nids = ["leo/*"]\nroles = ["tool"]\n\n'
        f'[public_key]\npem = """\n{KEY.pem.decode()}"""\n'
    )


def test_a_revocation_needs_no_reason() -> None:
    text = f'version = 1\n[[revoked]]\nkey_id = "{KEY.key_id}"\n'
    assert parse_revocations(text.encode(), Path("revoked.toml")) == {KEY.key_id: "no reason was given"}
    assert parse_revocations(b"version = 1\n", Path("revoked.toml")) == {}
