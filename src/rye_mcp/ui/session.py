"""One browser's session: a secret in the address, a cookie for it, and codes that only the terminal shows.

The secret opens one session and no second one. What decides something needs a code as well, which stands in
the terminal that started the page: other programs can reach the page, and cannot read there.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import sys
import time
from collections.abc import Callable
from typing import Final

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.visible import visible

__all__ = ["CODE_LIFETIME_S", "MAX_TRIES", "Codes", "Session", "terminal"]

CODE_LIFETIME_S: Final = 180.0
"""How long a code counts."""

MAX_TRIES: Final = 3
"""How often somebody may try to type a code."""

MAX_PENDING: Final = 20
"""How many codes wait at once; the oldest ones go first."""

_LETTERS: Final = "ABCDEFGHJKMNPQRSTVWXYZ23456789"
_LENGTH: Final = 8


class Session:
    """The session of one `rye ui`."""

    def __init__(self) -> None:
        self.secret = secrets.token_urlsafe(24)
        self._cookie: str | None = None

    def open(self, secret: str) -> str | None:
        """The value of the cookie for the secret; None for another one, and for one that was used."""
        if self._cookie is not None or not _same(secret, self.secret):
            return None
        self._cookie = secrets.token_urlsafe(24)
        return self._cookie

    @property
    def is_open(self) -> bool:
        """Whether a browser has come."""
        return self._cookie is not None

    def knows(self, cookie: str | None) -> bool:
        """Whether a request of this session carries this cookie."""
        return self._cookie is not None and cookie is not None and _same(cookie, self._cookie)

    @property
    def form_token(self) -> str:
        """What every form of the page carries."""
        key = (self._cookie or "").encode()
        return hmac.new(key, b"forms", hashlib.sha256).hexdigest()[:32]

    def knows_form(self, token: str) -> bool:
        """Whether a form came from a page of this session."""
        return self._cookie is not None and _same(token, self.form_token)


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8", "replace"))


def terminal() -> Callable[[str], None] | None:
    """What writes to the terminal that started this process; None where there is none."""
    if not sys.stderr.isatty():
        return None

    def say(text: str) -> None:
        print(visible(text), file=sys.stderr, flush=True)  # noqa: T201 - the person who started it reads it

    return say


@dataclass(slots=True)
class _Pending:
    """A code that was shown, and what it stands for."""

    what: str
    code: str
    until: float
    tries: int = 0


class Codes:
    """Codes that only the terminal shows. Each stands for one decision, and counts once."""

    def __init__(
        self, say: Callable[[str], None] | None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._say = say
        self._clock = clock
        self._pending: dict[str, _Pending] = {}

    @property
    def can_ask(self) -> bool:
        """Whether there is a terminal that shows codes."""
        return self._say is not None

    def ask(self, what: str, digest: str) -> str:
        """Show a code for a decision, which `digest` stands for; the number of the code.

        RyeError `code_refused` without a terminal.
        """
        if self._say is None:
            raise _refused("a terminal that shows the code, found that rye ui was started without one")
        while len(self._pending) >= MAX_PENDING:
            self._pending.pop(next(iter(self._pending)))
        number = secrets.token_hex(8)
        code = "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH))
        self._pending[number] = _Pending(digest, code, self._clock() + CODE_LIFETIME_S)
        self._say(f"The page asks: {what}")
        self._say(f"  if you asked for that, type this code there: {code[:4]}-{code[4:]}")
        return number

    def use(self, number: str, digest: str, typed: str) -> None:
        """Take a code for the decision that it was shown for; RyeError `code_refused` for any other."""
        found = self._pending.get(number)
        if found is None or self._clock() > found.until:
            self._pending.pop(number, None)
            raise _refused(
                f"a code that was shown within {CODE_LIFETIME_S:g} s, found an old one, or one that was used"
            )
        found.tries += 1
        if found.what == digest and _same(_plain(typed), found.code):
            del self._pending[number]
            return
        if found.tries >= MAX_TRIES:
            del self._pending[number]
            raise _refused(
                f"the code of the terminal, found another one {MAX_TRIES} times: ask for a new one"
            )
        raise _refused("the code that the terminal shows, found another one")


def _plain(typed: str) -> str:
    return "".join(typed.split()).replace("-", "").upper()


def _refused(expected: str) -> RyeError:
    return RyeError("code_refused", f"expected {expected}")
