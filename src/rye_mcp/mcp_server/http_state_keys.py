"""The keys that several workers share, so that a question which one of them asked is answered to another.

Rules:

- They come from a file, else from `RYE_HTTP_STATE_KEY`; else the server makes one that nobody else has.
- Several are separated by blanks or lines: the first seals, every one opens. That is how a key is replaced
  without an interruption: `old new` everywhere, then `new old`, then `new`.
- A key has at least 32 characters. Where they come from is guarded as it is for the token.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from pathlib import Path
from typing import Final

from rye_mcp.errors import RyeError
from rye_mcp.mcp_server.http_token import read_private

__all__ = ["STATE_KEY_VARIABLE", "find_state_keys"]

STATE_KEY_VARIABLE: Final = "RYE_HTTP_STATE_KEY"
"""The environment variable that gives the keys."""

_MIN_CHARACTERS: Final = 32


def find_state_keys(file: Path | None, environment: MutableMapping[str, str]) -> tuple[str, ...]:
    """The keys that were given; none is as well. RyeError for what cannot be one."""
    given = environment.pop(STATE_KEY_VARIABLE, None)
    if file is not None:
        return _checked(read_private(file, "a key"), str(file))
    return () if given is None else _checked(given, STATE_KEY_VARIABLE)


def _checked(text: str, where: str) -> tuple[str, ...]:
    keys = tuple(dict.fromkeys(text.split()))
    shortest = min(map(len, keys), default=0)
    if shortest >= _MIN_CHARACTERS:
        return keys
    what = f"expected keys of at least {_MIN_CHARACTERS} characters, found one of {shortest}"
    hint = "python3 -c 'import secrets; print(secrets.token_urlsafe(32))' makes one"
    raise RyeError("cannot_listen", what, where=where, hint=hint)
