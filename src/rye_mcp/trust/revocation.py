"""Keys that are trusted no more: `revoked.toml` of the user space, which wins over everything else.

    version = 1

    [[revoked]]
    key_id = "<64 hexadecimal digits>"
    reason = "the laptop was stolen"

Rules:

- A revoked key signs nothing, whoever else trusts it, and whatever the time in a signature says: who has a
  key can write any time.
- A file that cannot be read as one refuses every signature (`malformed_trust`): nobody could tell which keys
  it revokes. A file that is missing revokes none.
- A reason is kept as it was given first.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from lilux import _files as whole_files
from rye_mcp.errors import RyeError
from rye_mcp.trust import _toml
from rye_mcp.trust.files import OTHERS_WRITE, make_user_space, opened_directory, read_below, translated
from rye_mcp.trust.public_key import is_key_id

__all__ = ["FILE_NAME", "MAX_REVOKED_BYTES", "parse_revocations", "require_not_revoked", "revoke"]

FILE_NAME: Final = "revoked.toml"
"""The file, directly in the user space."""

MAX_REVOKED_BYTES: Final = 1 << 20
"""How many bytes it may have."""

_VERSION = 1
_MAX_BRACKETS = 20_000
_FILE_MODE = 0o644


def parse_revocations(data: bytes | None, place: Path) -> Mapping[str, str]:
    """The reason for each revoked key, by its id."""
    if data is None:
        return MappingProxyType({})
    table = _toml.require_keys(
        _toml.parse(data, place, max_brackets=_MAX_BRACKETS),
        place,
        "the file",
        required=("version",),
        optional=("revoked",),
    )
    if type(table["version"]) is not int or table["version"] != _VERSION:
        raise _toml.malformed(place, f"version {_VERSION}", _toml.shown(table["version"]))
    entries = table.get("revoked", [])
    if not isinstance(entries, list):
        raise _toml.malformed(place, "[[revoked]]", type(entries).__name__)
    reasons: dict[str, str] = {}
    for entry in entries:
        key_id, reason = _parse_entry(entry, place)
        reasons.setdefault(key_id, reason)
    return MappingProxyType(reasons)


def require_not_revoked(revocations: Mapping[str, str], key_id: str, where: Path, **details: Any) -> None:
    """RyeError `revoked_key` for a key that was."""
    if key_id in revocations:
        what = f"expected a key that is still good as the signer of {where}"
        found = f"the revoked key {key_id} ({revocations[key_id]})"
        raise RyeError("revoked_key", f"{what}, found {found}", where=where, key_id=key_id, **details)


def revoke(user_space: Path, key_id: str, reason: str) -> None:
    """Revoke a key for this user, everywhere and from now on."""
    place = user_space / FILE_NAME
    if not is_key_id(key_id):
        raise RyeError(
            "unusable_key", f"expected a key id of 64 hexadecimal digits, found {_toml.shown(key_id)}"
        )
    if not _toml.is_visible_line(reason):
        raise _toml.malformed(place, "one line of visible characters as reason", _toml.shown(reason))
    with translated("write_failed", place):
        make_user_space(user_space)
    with (
        translated("write_failed", place),
        opened_directory(user_space, forbidden=OTHERS_WRITE) as directory,
        whole_files.lock(directory),
    ):
        data = read_below(user_space, FILE_NAME, limit=MAX_REVOKED_BYTES, forbidden=OTHERS_WRITE)
        reasons = dict(parse_revocations(data, place))
        reasons.setdefault(key_id, reason)
        whole_files.write_whole(place, _render(reasons).encode(), mode=_FILE_MODE, directory=directory)


def _parse_entry(entry: object, place: Path) -> tuple[str, str]:
    fields = _toml.require_keys(entry, place, "[[revoked]]", required=("key_id",), optional=("reason",))
    key_id, reason = fields["key_id"], fields.get("reason", "no reason was given")
    if not is_key_id(key_id):
        raise _toml.malformed(place, "a key_id of 64 hexadecimal digits", _toml.shown(key_id))
    if not _toml.is_visible_line(reason):
        raise _toml.malformed(place, "one line of visible characters as reason", _toml.shown(reason))
    return key_id, reason


def _render(reasons: Mapping[str, str]) -> str:
    lines = [f"version = {_VERSION}"]
    for key_id, reason in reasons.items():
        lines += ["", "[[revoked]]", f"key_id = {_toml.write_value(key_id)}"]
        lines.append(f"reason = {_toml.write_value(reason)}")
    return "\n".join([*lines, ""])
