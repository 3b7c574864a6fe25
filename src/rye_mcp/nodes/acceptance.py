"""Decides which servers may send calls to this machine. Only commands import it: no agent reaches it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from lilux import _files as whole_files
from rye_mcp.errors import RyeError
from rye_mcp.files import OTHERS, Tree, translated
from rye_mcp.nodes.submitters import ACCEPTED, Submitters
from rye_mcp.trust.decisions import KeyToAdd
from rye_mcp.trust.scope import Scope, SignerKind, is_id_pattern
from rye_mcp.trust.trust_document import TrustDocument

__all__ = ["accept", "forget"]

_DIRECTORY_MODE: Final = 0o700
_FILE_MODE: Final = 0o600


def accept(
    data: bytes, source: Path, state: Path, submitters: Submitters, *, ids: Sequence[str]
) -> TrustDocument:
    """Let the server of this document send calls of these tools; what was said of it before is replaced.

    RyeError for a key that is no runner's, or that this user has revoked.
    """
    if wrong := [each for each in ids if not is_id_pattern(each)]:
        what = f"expected an id, or a pattern such as sim/*, found {wrong[0]!a:.80}"
        raise RyeError("invalid_id", what)
    document = KeyToAdd(data, source, scope=Scope(ids=tuple(ids))).as_document()
    if document.kind is not SignerKind.RUNNER:
        what = f"expected the key of a runner in {source}, found that of {document.kind}"
        hint = "on the server: rye node init > SERVER.toml"
        raise RyeError("unusable_key", what, where=source, hint=hint)
    if submitters.is_revoked(document.key.key_id):
        what = f"expected a key that you have not revoked in {source}, found {document.key.key_id}"
        raise RyeError("revoked_key", what, where=source, hint="ask for a new key: rye node init")
    path = state / ACCEPTED / document.file_name
    with (
        translated("write_failed", path),
        Tree(state, forbidden=OTHERS).opened(ACCEPTED, create_mode=_DIRECTORY_MODE) as directory,
    ):
        whole_files.write_whole(path, document.data, mode=_FILE_MODE, directory=directory)
    return document


def forget(key_id: str, state: Path, submitters: Submitters) -> TrustDocument:
    """Accept a server no longer; RyeError `unknown_key` for one that is not accepted."""
    found = next((each for each in submitters.all() if each.key.key_id == key_id), None)
    if found is None:
        what = f"expected the key id of a server that is accepted here, found {key_id!a:.80}"
        raise RyeError("unknown_key", what, hint="rye node status")
    path = state / ACCEPTED / found.file_name
    with translated("write_failed", path):
        path.unlink()
    return found
