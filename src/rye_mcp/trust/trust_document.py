"""A trusted key as a document: the public key, its owner, what it is trusted for, and the key before it.

    version = 1
    key_id = "<64 hexadecimal digits>"
    owner = "leo"
    scope = { ids = ["leo/*"], roles = ["tool"] }
    public_key = { pem = "-----BEGIN PUBLIC KEY----- …" }

The key id is the identity. It is computed from the key and has to match; the fingerprint only names the file.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from lilux import _keys
from lilux._dataclasses import dataclass
from lilux.primitives.errors import ConfigurationError, IntegrityError
from lilux.primitives.signing import compute_key_fingerprint, sign_hash, verify_signature
from rye_mcp.errors import RyeError
from rye_mcp.trust import _toml
from rye_mcp.trust.scope import Role, Scope, SignerKind, is_id_pattern
from rye_mcp.trust.signature import format_timestamp, pre_authentication_digest

__all__ = [
    "DIGEST_DIGITS",
    "DIRECTORY",
    "MAX_DOCUMENT_BYTES",
    "MAX_ROTATIONS",
    "PublicKey",
    "RotationStatement",
    "TrustDocument",
    "is_fingerprint",
    "is_key_id",
]

_KEY_ID_PREFIX = b"rye-key-v1:ed25519:"
_KEY_ID = re.compile(r"[0-9a-f]{64}", re.ASCII)
_FINGERPRINT = re.compile(r"[0-9a-f]{16}", re.ASCII)


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A public key that only its owner can sign for."""

    pem: bytes
    key_id: str
    fingerprint: str

    @classmethod
    def from_pem(cls, pem: bytes, place: str | Path) -> PublicKey:
        """The key that stands in `pem`, which was taken from `place`."""
        try:
            key = _keys.load_public(pem, str(place))
        except IntegrityError as exc:
            raise RyeError("weak_key", f"{exc.message}, in {place}", where=place) from exc
        except ConfigurationError as exc:
            raise RyeError("unusable_key", exc.message, where=place) from exc
        usual = _keys.public_pem(key)
        key_id = hashlib.sha256(_KEY_ID_PREFIX + key.public_bytes_raw()).hexdigest()
        return cls(usual, key_id, compute_key_fingerprint(usual))


def is_key_id(text: object) -> bool:
    """Whether this has the form of a key id."""
    return isinstance(text, str) and _KEY_ID.fullmatch(text) is not None


def is_fingerprint(text: object) -> bool:
    """Whether this has the form of a fingerprint."""
    return isinstance(text, str) and _FINGERPRINT.fullmatch(text) is not None


MAX_ROTATIONS: Final = 16
"""How many rotations are followed from a key to the ones before it."""

_PAYLOAD_TYPE: Final = b"application/vnd.rye.key-rotation.v1"
_SIGNATURE: Final = re.compile(r"[A-Za-z0-9_-]{86}==", re.ASCII)


@dataclass(frozen=True, slots=True)
class RotationStatement:
    """That the owner of `old` signs with another key since `at`: the one of the document that holds it."""

    old: PublicKey
    at: str
    signature: str

    @classmethod
    def sign(cls, old: PublicKey, private_pem: bytes, new: PublicKey, moment: datetime) -> RotationStatement:
        """The statement about a new key, signed with the old private key."""
        at = format_timestamp(moment)
        return cls(old, at, sign_hash(_digest(old, new, at), private_pem))

    @classmethod
    def parse(cls, table: object, new: PublicKey, place: Path) -> RotationStatement:
        """The statement in a table of a document; RyeError `malformed_trust` unless the old key signed it."""
        fields = _toml.require_keys(table, place, "[rotation]", required=("at", "signature", "old_key"))
        old = _old_key(fields, place)
        at, signature = fields["at"], fields["signature"]
        if not _is_time(at):
            raise _toml.malformed(place, "a time such as 2026-11-18T10:00:00Z as at", _toml.shown(at))
        if old.key_id == new.key_id:
            raise _toml.malformed(place, "another key as old_key", "the key itself")
        if not isinstance(signature, str) or not _SIGNATURE.fullmatch(signature):
            raise _toml.malformed(place, "a signature in [rotation]", _toml.shown(signature))
        if not verify_signature(_digest(old, new, at), signature, old.pem):
            raise _toml.malformed(
                place, f"a rotation that the key {old.key_id} signed", "one that it did not"
            )
        return cls(old, at, signature)

    def render(self) -> list[str]:
        """The lines of the table."""
        return [
            "[rotation]",
            f"at = {_toml.write_value(self.at)}",
            f"signature = {_toml.write_value(self.signature)}",
            f'old_key = """\n{self.old.pem.decode("ascii")}"""',
        ]


def _digest(old: PublicKey, new: PublicKey, at: str) -> str:
    """The SHA256 of what is signed."""
    body = f"kind: person\nold-key-id: {old.key_id}\nnew-key-id: {new.key_id}\nrotated-at: {at}\n"
    return pre_authentication_digest(_PAYLOAD_TYPE, body.encode("ascii"))


def _old_key(fields: Mapping[str, Any], place: Path) -> PublicKey:
    pem = fields["old_key"]
    if not isinstance(pem, str) or not pem.isascii():
        raise _toml.malformed(place, "a PEM as old_key", type(pem).__name__)
    try:
        return PublicKey.from_pem(pem.encode("ascii"), place)
    except RyeError as exc:
        if exc.code != "unusable_key":
            raise
        raise RyeError("malformed_trust", exc.message, where=place) from exc


def _is_time(text: object) -> bool:
    try:
        return isinstance(text, str) and format_timestamp(datetime.fromisoformat(text)) == text
    except ValueError:
        return False


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
_KINDS = {str(kind): kind for kind in (SignerKind.PERSON, SignerKind.AGENT, SignerKind.RUNNER)}


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
        """The required name of the document's file."""
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
            raise _toml.malformed(place, 'kind "person", "agent" or "runner"', _toml.shown(kind))
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
