"""The bearer token of the server over HTTP: where it comes from, and how one is compared with it.

Rules:

- A token comes from a file, else from `RYE_HTTP_TOKEN`, else it is made: 256 random bits. One that is given
  has at least 16 characters, none of them a blank: a token that can be guessed is none.
- A file that others may read is refused. The variable is taken out of the environment, so that nothing which
  the server starts inherits it.
- Comparing takes as long for a token that is nearly right as for one that is all wrong.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import stat
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rye_mcp.errors import RyeError

__all__ = ["TOKEN_VARIABLE", "Token", "read_private"]

TOKEN_VARIABLE: Final = "RYE_HTTP_TOKEN"  # noqa: S105 - where it is, not what it is
"""The environment variable that gives the token."""

_MIN_CHARACTERS: Final = 16
_MAX_BYTES: Final = 4096
_FORM = re.compile(rf"[A-Za-z0-9._~+/=-]{{{_MIN_CHARACTERS},}}")
_OTHERS = 0o077


@dataclass(frozen=True, slots=True)
class Token:
    """A token; `is_new` when nobody knows it yet but this server."""

    text: str = field(repr=False)
    is_new: bool

    @classmethod
    def find(cls, file: Path | None, environment: MutableMapping[str, str]) -> Token:
        """The token that was given, or a new one; RyeError for what is none."""
        given = environment.pop(TOKEN_VARIABLE, None)
        if file is not None:
            return cls(_checked(read_private(file, "a token"), str(file)), is_new=False)
        if given is not None:
            return cls(_checked(given.strip(), TOKEN_VARIABLE), is_new=False)
        return cls(secrets.token_urlsafe(32), is_new=True)

    def opens(self, header: bytes | None) -> bool:
        """Whether this is what the header `Authorization` says."""
        scheme, _, given = (header or b"").partition(b" ")
        # Digests have one length, so that comparing tells nothing of the length of the token either.
        same = hmac.compare_digest(_digest(given.strip()), _digest(self.text.encode()))
        return same and scheme.lower() == b"bearer"


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _checked(text: str, where: str) -> str:
    if _FORM.fullmatch(text):
        return text
    kind = f"at least {_MIN_CHARACTERS} letters, digits and ._~+/=-"
    what = f"expected a token of {kind}, found {len(text)} characters"
    hint = "python3 -c 'import secrets; print(secrets.token_urlsafe(32))' makes one"
    raise RyeError("cannot_listen", what, where=where, hint=hint)


def read_private(file: Path, kind: str) -> str:
    """The text of a file that only its owner may read; RyeError for every other."""
    try:
        with file.open("rb") as opened:
            found = os.fstat(opened.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise RyeError("unsafe_path", f"expected a file with {kind}, found none", where=file)
            if found.st_mode & _OTHERS:
                mode = oct(stat.S_IMODE(found.st_mode))
                what = f"expected {kind} that only its owner may read, found {mode}"
                raise RyeError("unsafe_permissions", what, where=file)
            return opened.read(_MAX_BYTES).decode("ascii", "replace").strip()
    except OSError as exc:
        raise RyeError("read_failed", f"the system said: {exc.strerror}", where=file) from exc
