"""What a client has asked for besides answers: log messages, and to hear of what stands at an address.

Rules:

- Log messages are of a level or above. A client of 2025 sets it by `logging/setLevel`, for all that follows;
  one of 2026 names it in `_meta` of a request, for that one. Who has done neither gets none.
- Addresses are those of `resources/subscribe` (2025), or of a stream of `subscriptions/listen` (2026).
  Nothing has to stand at one yet: who waits is told. One client, or one such stream, has at most
  `MAX_ADDRESSES`.
- All of it is kept with the connection, and gone with it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from rye_mcp.errors import RyeError

if TYPE_CHECKING:
    from mcp.server.session import ServerSession

__all__ = [
    "LEVELS",
    "MAX_ADDRESSES",
    "add_address",
    "forget_address",
    "is_awaited",
    "require_few",
    "set_level",
    "wants_messages",
]

LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""The levels of the protocol, the least urgent first."""

MAX_ADDRESSES: Final = 1024
"""How many addresses one client may wait for."""

MAX_ADDRESS: Final = 4096
"""How many characters such an address may have."""

_LEVEL: Final = "rye/level"
_ADDRESSES: Final = "rye/addresses"
_LEVEL_IN_META: Final = "io.modelcontextprotocol/logLevel"


def set_level(session: ServerSession, level: str) -> None:
    """From now on the client wants messages of this level."""
    _state(session)[_LEVEL] = level


def wants_messages(session: ServerSession, meta: Mapping[str, Any] | None, level: str) -> bool:
    """Whether a client wants messages of a level while a request with this `_meta` is answered."""
    wanted = _state(session).get(_LEVEL) or (meta or {}).get(_LEVEL_IN_META)
    return wanted in LEVELS and LEVELS.index(level) >= LEVELS.index(wanted)


def add_address(session: ServerSession, address: str) -> None:
    """The client wants to be told when another text stands at an address."""
    addresses = _addresses(session)
    require_few({*addresses, address}, hint="resources/unsubscribe ends waiting for one")
    addresses.add(address)


def require_few(addresses: Collection[str], *, hint: str = "listen to fewer addresses") -> None:
    """Refuse more addresses than one client, or one stream of it, may wait for."""
    if len(addresses) > MAX_ADDRESSES or any(len(each) > MAX_ADDRESS for each in addresses):
        what = f"expected at most {MAX_ADDRESSES} addresses of {MAX_ADDRESS} characters, found more"
        raise RyeError("invalid_parameters", what, hint=hint)


def forget_address(session: ServerSession, address: str) -> None:
    """The client does not want to be told any more; not having wanted it is no mistake."""
    _addresses(session).discard(address)


def is_awaited(session: ServerSession, address: str) -> bool:
    """Whether the client wants to be told of this address."""
    return address in _addresses(session)


def _addresses(session: ServerSession) -> set[str]:
    return cast(set[str], _state(session).setdefault(_ADDRESSES, set()))


def _state(session: ServerSession) -> dict[str, Any]:
    """What is kept with a connection: the SDK has the place, and shows it to nobody but itself."""
    return session._connection.state
