"""All ways in which an exchange can end, as one table of codes: foreign errors become values here.

A message never has a secret of the request, even if the server sent it back. Of an error's words only ours
and those of the system are told: a library quotes what it was sending, or was sent.
"""

from __future__ import annotations

import os
import re
import socket
import ssl
from collections.abc import Iterable, Iterator
from typing import Final

import httpx
from anyio import BrokenResourceError, ClosedResourceError

from lilux._dataclasses import dataclass
from lilux._http.address import HostRefusedError
from lilux._http.body import BrokenBodyError, TooLargeError
from lilux._http.events import SinksFailedError
from lilux._http.redirect import RedirectRefusedError
from lilux._http.spec import HttpSpec

__all__ = ["ERROR_CODES", "FAILURES", "Failure", "NoPlaceError", "failure_of", "redact"]


class NoPlaceError(TimeoutError):
    """The time was up before the request could begin."""


MAX_MESSAGE_CHARACTERS: Final = 300

_TIMEOUT_WORDS: Final = "no complete answer within {timeout:g} seconds"
_HOST_WORDS: Final = "{place} is not public ({detail}); allow_private_hosts would let it pass"
_CONNECT_WORDS: Final = "cannot connect to {place}: {detail}"

_PLACE_WORDS: Final = (
    "the request to {place} waited for {timeout:g} seconds for a place: too many others are under way"
)

_TABLE: Final[tuple[tuple[tuple[type[Exception], ...], str, bool, str], ...]] = (
    ((NoPlaceError,), "timeout", True, _PLACE_WORDS),
    ((TimeoutError, httpx.TimeoutException), "timeout", True, _TIMEOUT_WORDS),
    ((HostRefusedError,), "host_refused", False, _HOST_WORDS),
    ((RedirectRefusedError,), "redirect_refused", False, "the redirect is not followed: {detail}"),
    ((TooLargeError,), "response_too_large", False, "the answer is longer than {limit} bytes"),
    ((SinksFailedError,), "sinks_failed", False, "every sink has failed"),
    ((BrokenBodyError,), "broken_body", True, "{detail}"),
    ((httpx.ConnectError, UnicodeError), "connect_failed", True, _CONNECT_WORDS),
    ((httpx.LocalProtocolError,), "request_failed", True, "the request is no HTTP"),
    ((httpx.RemoteProtocolError,), "protocol_error", True, "the answer is no whole HTTP: {detail}"),
    ((httpx.NetworkError,), "connection_lost", True, "the connection broke: {detail}"),
    ((httpx.RequestError,), "request_failed", True, "the request failed: {detail}"),
    ((OSError,), "connect_failed", True, _CONNECT_WORDS),
    ((BrokenResourceError, ClosedResourceError), "connection_lost", True, "the connection broke: {detail}"),
)
"""Errors, in the order of looking; the code, whether to try again, and the message."""

FAILURES: Final = tuple(kind for kinds, *_ in _TABLE for kind in kinds)
"""Every error that is a result."""

ERROR_CODES: Final = frozenset({"http_status", *(code for _, code, *_ in _TABLE)})
"""Every code that a result can have."""

_OUR_WORDS: Final = (HostRefusedError, RedirectRefusedError, BrokenBodyError)
_SOURCE_LINE: Final = re.compile(r" \(_ssl\.c:\d+\)")


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no answer, or no whole one."""

    code: str
    message: str
    is_retried: bool


def failure_of(exc: BaseException, spec: HttpSpec, place: str) -> Failure:
    """Turn an error of FAILURES into a failure; `place` is the host that was asked last."""
    _, code, is_retried, words = next(row for row in _TABLE if isinstance(exc, row[0]))
    facts = {"timeout": spec.timeout, "limit": spec.max_response_bytes}
    told = {"detail": _detail(exc), "place": place}
    message = words.format(**facts, **{name: redact(text, spec.secrets) for name, text in told.items()})
    return Failure(code, message, is_retried)


def redact(text: str, secrets: Iterable[str]) -> str:
    """The same text without any of the secrets, and not too long."""
    for secret in sorted({*secrets} - {""}, key=len, reverse=True):  # one may be a part of another
        text = text.replace(secret, "***")
    return text[:MAX_MESSAGE_CHARACTERS]


def _detail(exc: BaseException) -> str:
    """Our own words, or those of the system for the error that all others were made from."""
    *above, root = _causes(exc)
    root = next((each for each in above if isinstance(each, _OUR_WORDS)), root)
    if isinstance(root, OSError) and root.errno and not isinstance(root, ssl.SSLError | socket.gaierror):
        return os.strerror(root.errno)
    words = str(root) if isinstance(root, _OUR_WORDS) else getattr(root, "strerror", None) or ""
    return _SOURCE_LINE.sub("", words) or type(root).__name__


def _causes(exc: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    cause: BaseException | None = exc
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        if isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
            continue
        yield cause
        cause = cause.__cause__ or cause.__context__
