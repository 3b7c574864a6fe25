"""Which servers may send calls to this machine, and for which tools: as this user has accepted them.

The documents are in `nodes/accepted` of the state directory. Only commands write there (`acceptance`). A key
that this user has revoked sends nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from lilux._footprints import Remembered
from rye_mcp.errors import RyeError
from rye_mcp.files import OTHERS, Tree
from rye_mcp.trust.scope import SignerKind
from rye_mcp.trust.trust_document import MAX_DOCUMENT_BYTES, PublicKey, TrustDocument

__all__ = ["ACCEPTED", "Submitters"]

ACCEPTED: Final = "nodes/accepted"
"""Where the documents are, below the state directory."""

_MAX_DOCUMENTS: Final = 1000


class Submitters:
    """The accepted servers of one user."""

    def __init__(self, state: Path, revoked: Callable[[], Mapping[str, str]]) -> None:
        self._root = state / ACCEPTED
        self._tree = Tree(state, forbidden=OTHERS)
        self._revoked = revoked
        self._known: Remembered[tuple[TrustDocument, ...]] = Remembered()

    def all(self) -> tuple[TrustDocument, ...]:
        """Every document, revoked ones too; RyeError for one that cannot be read as one."""
        return self._known.value(ACCEPTED, self._read)  # every call asks for them

    def _read(self) -> tuple[TrustDocument, ...]:
        try:
            with self._tree.opened(ACCEPTED) as directory:
                names = sorted(os.listdir(directory))[:_MAX_DOCUMENTS]  # noqa: PTH208 - a descriptor
        except FileNotFoundError:
            return ()
        return tuple(self._document(name) for name in names)

    def key(self, key_id: str) -> PublicKey | None:
        """The key of an accepted server; None for every other id, and for one that is revoked."""
        found = self._find(key_id)
        return None if found is None else found.key

    def require(self, key_id: str, item_id: str) -> None:
        """RyeError `node_refused` unless this server may have this tool run here, now."""
        found = self._find(key_id)
        if found is None:
            what = f"expected a server that is accepted here, found {key_id[:16]}, which is not any more"
            raise RyeError("node_refused", what, item_id=item_id)
        if not found.scope.holds_id(item_id):
            ids = ", ".join(found.scope.ids or ())
            what = f"expected a tool of {ids}, for which the server was accepted here, found {item_id}"
            raise RyeError("node_refused", what, item_id=item_id)

    def is_revoked(self, key_id: str) -> bool:
        """Whether this user has revoked a key."""
        return key_id in self._revoked()

    def _find(self, key_id: str) -> TrustDocument | None:
        if self.is_revoked(key_id):
            return None
        return next((each for each in self.all() if each.key.key_id == key_id), None)

    def _document(self, name: str) -> TrustDocument:
        place = self._root / name
        data = self._tree.read(f"{ACCEPTED}/{name}", limit=MAX_DOCUMENT_BYTES)
        document = TrustDocument.parse(data or b"", place)
        if document.kind is not SignerKind.RUNNER:
            what = f"expected the key of a runner in {place}, found that of {document.kind}"
            raise RyeError("malformed_trust", what, where=place)
        return document
