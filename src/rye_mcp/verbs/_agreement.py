"""What somebody has agreed to have signed: the files, by their bytes.

Rules:

- A file is agreed to with the SHA256 of all of its bytes as they were shown. It is compared with the bytes
  that were read and are about to be signed or listed, before anything is written.
- What was signed on the way is agreed to as it is then: a listing of a later item may hold its hash.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from rye_mcp.errors import RyeError, printable
from rye_mcp.items import ItemFile

__all__ = ["Agreement", "SigningPlan", "digest_of", "relative_of"]


@dataclass(frozen=True, slots=True)
class SigningPlan:
    """What would be signed: the items, and every file of theirs that would be vouched for, path → SHA256.

    Paths are those below the space `root`. `signer` is the fingerprint of the key, `failing` are the ids of
    what would not be signed.
    """

    item_ids: tuple[str, ...]
    files: Mapping[str, str]
    signer: str
    root: Path
    failing: tuple[str, ...] = ()

    @property
    def mark(self) -> str:
        """What stands for all of it."""
        whole = [sorted(self.files.items()), self.item_ids, self.signer, str(self.root)]
        return hashlib.sha256(json.dumps(whole).encode()).hexdigest()


class Agreement:
    """What may be signed, and nothing else."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = {path: {digest} for path, digest in files.items()}

    @classmethod
    def of(cls, files: Mapping[str, str] | None) -> Self | None:
        """That to these files; None where nobody has to agree."""
        return None if files is None else cls(files)

    def require(self, item_id: str, files: Iterable[tuple[str, str]]) -> None:
        """Refuse to sign an item when one of these files is another than was agreed to."""
        strange = sorted(path for path, digest in files if digest not in self._files.get(path, ()))
        if strange:
            shown = ", ".join(map(printable, strange[:5]))
            what = f"expected {item_id} as it was agreed to, found what is new or has changed since: {shown}"
            raise RyeError("confirmation_outdated", what, item_id=item_id)

    def signed(self, file: ItemFile) -> None:
        """A file was signed, and is what it is now."""
        self._files.setdefault(relative_of(file), set()).add(digest_of(file))


def relative_of(file: ItemFile) -> str:
    """Where an item is below the root of its space."""
    return file.path.relative_to(file.space.root).as_posix()


def digest_of(file: ItemFile) -> str:
    """The SHA256 of all bytes of a file, its signature line among them."""
    return hashlib.sha256(file.content).hexdigest()
