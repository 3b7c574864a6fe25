"""The secrets of the server over HTTP: the bearer token of clients, and the keys that several workers share.

Each comes from a file, else from a variable of the environment, else the server makes one. A file that others
may read is refused. The variables are taken out of the environment, so that no tool inherits them. Of several
state keys the first seals and each opens, so that a key can be replaced while the workers go on.
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

__all__ = ["STATE_KEY_VARIABLE", "TOKEN_VARIABLE", "Token", "find_state_keys", "read_private"]

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
            return cls(_checked_token(read_private(file, "a token"), str(file)), is_new=False)
        if given is not None:
            return cls(_checked_token(given.strip(), TOKEN_VARIABLE), is_new=False)
        return cls(secrets.token_urlsafe(32), is_new=True)

    def opens(self, header: bytes | None) -> bool:
        """Whether this is what the header `Authorization` says."""
        scheme, _, given = (header or b"").partition(b" ")
        # Digests have one length, so that comparing tells nothing of the length of the token either.
        same = hmac.compare_digest(_digest(given.strip()), _digest(self.text.encode()))
        return same and scheme.lower() == b"bearer"


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _checked_token(text: str, where: str) -> str:
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


STATE_KEY_VARIABLE: Final = "RYE_HTTP_STATE_KEY"
"""The environment variable that gives the keys."""

_MIN_KEY_CHARACTERS: Final = 32


def find_state_keys(file: Path | None, environment: MutableMapping[str, str]) -> tuple[str, ...]:
    """The keys that were given; none is as well. RyeError for what cannot be one."""
    given = environment.pop(STATE_KEY_VARIABLE, None)
    if file is not None:
        return _checked_keys(read_private(file, "a key"), str(file))
    return () if given is None else _checked_keys(given, STATE_KEY_VARIABLE)


def _checked_keys(text: str, where: str) -> tuple[str, ...]:
    keys = tuple(dict.fromkeys(text.split()))
    shortest = min(map(len, keys), default=0)
    if shortest >= _MIN_KEY_CHARACTERS:
        return keys
    what = f"expected keys of at least {_MIN_KEY_CHARACTERS} characters, found one of {shortest}"
    hint = "python3 -c 'import secrets; print(secrets.token_urlsafe(32))' makes one"
    raise RyeError("cannot_listen", what, where=where, hint=hint)
