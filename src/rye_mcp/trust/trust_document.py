"""A trusted key as a document: who owns it, and what it is trusted for.

    version = 1
    key_id = "<64 hexadecimal digits>"
    owner = "leo"

    [scope]
    ids = ["leo/*"]
    roles = ["tool"]

    [public_key]
    pem = '''-----BEGIN PUBLIC KEY----- …'''

Rules:

- The owner is one short line that cannot pass for what this program says about a key.
- The document is TOML of at most 16 KiB, in a file that is called after the key: `{fingerprint}.toml`. The
  key id is computed anew and has to match. Unknown keys are refused, as is a list that is empty.
- `[scope]` and each of its lists may be missing; what that means, `rye_mcp.trust.scope` says.
- `kind = "agent"` marks a key that an agent signs with; without it the key is a person's.
- `[rotation]` is the statement with which the owner's old key signed this one (`rye_mcp.trust.rotation`).
  Only a person's key has one.
- A proposal is known by the digest of the document's bytes: change one, and it is another proposal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rye_mcp.errors import RyeError
from rye_mcp.trust import _toml
from rye_mcp.trust.public_key import PublicKey
from rye_mcp.trust.rotation import RotationStatement
from rye_mcp.trust.scope import Role, Scope, SignerKind, is_id_pattern

__all__ = ["DIGEST_DIGITS", "DIRECTORY", "MAX_DOCUMENT_BYTES", "TrustDocument"]

DIGEST_DIGITS: Final = 32
"""How many digits of a document's digest tell it from every other one: who writes two documents cannot make
so many agree, and fewer they could.
"""

DIRECTORY: Final = "trusted_keys"
"""Where the documents of a space are."""

MAX_DOCUMENT_BYTES: Final = 16 * 1024
"""How many bytes a document may have."""

_VERSION = 1
_MAX_BRACKETS = 256
_OWNER = (
    f"at most {_toml.MAX_OWNER_CHARACTERS} visible characters, single blanks and no round brackets as owner"
)
_KINDS = {"person": SignerKind.PERSON, "agent": SignerKind.AGENT}


@dataclass(frozen=True, slots=True)
class TrustDocument:
    """A key that somebody trusts, or proposes to."""

    key: PublicKey
    owner: str
    scope: Scope
    kind: SignerKind
    data: bytes
    rotation: RotationStatement | None = None

    @property
    def digest(self) -> str:
        """The SHA256 of the document's bytes, as 64 hexadecimal digits."""
        return hashlib.sha256(self.data).hexdigest()

    @property
    def short_digest(self) -> str:
        """As much of the digest as people are shown, and commands take."""
        return self.digest[:DIGEST_DIGITS]

    @property
    def file_name(self) -> str:
        """What the document's file has to be called."""
        return f"{self.key.fingerprint}.toml"

    @classmethod
    def parse(cls, data: bytes, place: Path) -> TrustDocument:
        """The document that stands in these bytes, which were taken from the file `place`."""
        table = _toml.require_keys(
            _toml.parse(data, place, max_brackets=_MAX_BRACKETS),
            place,
            "the document",
            required=("version", "key_id", "owner", "public_key"),
            optional=("scope", "kind", "rotation"),
        )
        _require_version(table["version"], place)
        key = _parse_key(table, place)
        owner = table["owner"]
        if not _toml.is_owner(owner):
            raise _toml.malformed(place, _OWNER, _toml.shown(owner))
        kind = table.get("kind", "person")
        if not isinstance(kind, str) or kind not in _KINDS:
            raise _toml.malformed(place, 'kind "person" or "agent"', _toml.shown(kind))
        rotation = _parse_rotation(table, key, _KINDS[kind], place)
        document = cls(key, owner, _parse_scope(table.get("scope", {}), place), _KINDS[kind], data, rotation)
        if place.name != document.file_name:
            raise _toml.malformed(place, f"the file name {document.file_name}, after its key", place.name)
        return document

    @classmethod
    def create(
        cls,
        key: PublicKey,
        owner: str,
        *,
        scope: Scope = Scope(),  # noqa: B008 - a frozen value
        kind: SignerKind = SignerKind.PERSON,
        rotation: RotationStatement | None = None,
    ) -> TrustDocument:
        """A document for a key; what could not be read again is refused."""
        place = Path(f"{key.fingerprint}.toml")
        text = _render(key, owner, scope, kind, rotation)
        return cls.parse(text.encode("utf-8", "surrogatepass"), place)


def _require_version(version: Any, place: Path) -> None:
    if type(version) is not int or version != _VERSION:
        raise _toml.malformed(place, f"version {_VERSION}", _toml.shown(version))


def _parse_key(table: Any, place: Path) -> PublicKey:
    public_key = _toml.require_keys(table["public_key"], place, "[public_key]", required=("pem",))
    pem = public_key["pem"]
    if not isinstance(pem, str) or not pem.isascii():
        raise _toml.malformed(place, "a PEM as text", type(pem).__name__)
    try:
        key = PublicKey.from_pem(pem.encode("ascii"), place)
    except RyeError as exc:
        if exc.code != "unusable_key":
            raise
        raise RyeError("malformed_trust", exc.message, where=place) from exc
    if table["key_id"] != key.key_id:
        raise _toml.malformed(place, f"the key_id {key.key_id}, of its key", _toml.shown(table["key_id"]))
    return key


def _parse_rotation(
    table: Mapping[str, Any], key: PublicKey, kind: SignerKind, place: Path
) -> RotationStatement | None:
    if "rotation" not in table:
        return None
    if kind is not SignerKind.PERSON:
        raise _toml.malformed(place, "a rotation of a person's key alone", f"that of the kind {kind}")
    return RotationStatement.parse(table["rotation"], key, place)


def _parse_scope(table: Any, place: Path) -> Scope:
    lists = _toml.require_keys(table, place, "[scope]", required=(), optional=("ids", "roles"))
    ids = _parse_list(lists, "ids", place, is_id_pattern, "patterns such as *, leo/* or leo/hello")
    roles = _parse_list(lists, "roles", place, _is_role, f"some of {', '.join(Role)}")
    return Scope(ids, None if roles is None else frozenset(map(Role, roles)))


def _parse_list(
    lists: Mapping[str, Any], name: str, place: Path, is_right: Callable[[object], bool], expected: str
) -> tuple[str, ...] | None:
    """The texts of a list; None when it is missing."""
    if name not in lists:
        return None
    found = lists[name]
    if not isinstance(found, list) or not found:
        raise _toml.malformed(place, f"a list of texts as {name}", _toml.shown(found))
    for each in found:
        if not is_right(each):
            raise _toml.malformed(place, f"{expected} as {name}", _toml.shown(each))
    return tuple(found)


def _is_role(text: object) -> bool:
    return isinstance(text, str) and text in set(Role)


def _render(
    key: PublicKey, owner: str, scope: Scope, kind: SignerKind, rotation: RotationStatement | None
) -> str:
    lines = [f"version = {_VERSION}", f"key_id = {_toml.write_value(key.key_id)}"]
    lines.append(f"owner = {_toml.write_value(owner)}")
    if kind is not SignerKind.PERSON:
        lines.append(f"kind = {_toml.write_value(kind.value)}")
    if scope != Scope():
        lines += ["", "[scope]"]
    if scope.ids is not None:
        lines.append(f"ids = {_toml.write_value(scope.ids)}")
    if scope.roles is not None:
        lines.append(f"roles = {_toml.write_value(sorted(scope.roles))}")
    lines += ["", "[public_key]", f'pem = """\n{key.pem.decode("ascii")}"""', ""]
    if rotation is not None:
        lines += [*rotation.render(), ""]
    return "\n".join(lines)
