"""The subscriptions of a client to answers, log messages and changes, and how it gets the notices.

A client of 2025 sets a level (`logging/setLevel`) and subscribes to addresses; one of 2026 names both in
`_meta` and in `subscriptions/listen`. All of it is kept with the connection, and gone with it. Nobody waits
for a client that does not read its notices. See docs/architecture/mcp-server.md.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from mcp.types import (
    EmptyResult,
    SetLevelRequestParams,
    SubscribeRequestParams,
    SubscriptionsListenRequestParams,
    UnsubscribeRequestParams,
)

from rye_mcp.errors import RyeError
from rye_mcp.mcp_server.requests import protocol_error

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server
    from mcp.server.session import ServerSession
    from mcp.server.subscriptions import SubscriptionBus

    from rye_mcp.mcp_server.listings import Listings
    from rye_mcp.mcp_server.projects import OpenProjects

__all__ = ["Announcer", "ListName", "SubscriptionHandlers", "Work", "wants_messages"]

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
    """Return the state that is kept with a connection."""
    state: dict[str, Any] = _connection_of(session).state
    return state


def _connection_of(session: Any) -> Any:
    """The connection of a session, which is another object for each request of it."""
    return session._connection


ListName = Literal["tools", "prompts", "resources", "skills"]

Work = Callable[[], Awaitable[None]]
"""Work that is started without waiting for it."""


class _Told:
    """A session, and what it has not been told yet: a list, or an address."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self._pending: dict[tuple[str, str], None] = {}
        self._is_telling = False

    def add(self, kind: str, about: str, beside: Callable[[Work], None]) -> None:
        """Tell it this too; `beside` begins work that nobody waits for."""
        self._pending[kind, about] = None
        if not self._is_telling:
            self._is_telling = True
            beside(self._tell)

    def forget(self) -> None:
        """Tell it nothing more."""
        self._pending.clear()

    async def _tell(self) -> None:
        send = {
            "tools": self.session.send_tool_list_changed,
            "prompts": self.session.send_prompt_list_changed,
            "resources": self.session.send_resource_list_changed,
            "skills": self.session.send_resource_list_changed,  # the extension has no notice of its own
        }
        try:
            while self._pending:
                kind, about = next(iter(self._pending))
                del self._pending[kind, about]
                await (self.session.send_resource_updated(about) if about else send[kind]())
        finally:
            self._is_telling = False


class Announcer:
    """Tells the subscribers; `beside` starts work without waiting for it."""

    def __init__(self, bus: SubscriptionBus, beside: Callable[[Work], None]) -> None:
        self._bus = bus
        self._beside = beside
        self._told: dict[Any, _Told] = {}

    def __len__(self) -> int:
        return len(self._told)

    def remember(self, session: Any) -> None:
        """Tell this session too, until it ends."""
        connection = _connection_of(session)
        if connection not in self._told:
            self._told[connection] = _Told(session)
            connection.exit_stack.callback(self._forget, connection)

    async def changed(self, listed: ListName) -> None:
        """The list of these is another one."""
        from mcp.shared.subscriptions import PromptsListChanged, ResourcesListChanged, ToolsListChanged

        events: dict[ListName, Any] = {
            "tools": ToolsListChanged,
            "prompts": PromptsListChanged,
            "resources": ResourcesListChanged,
            "skills": ResourcesListChanged,
        }
        await self._bus.publish(events[listed]())
        for each in self._told.values():
            each.add(listed, "", self._beside)

    async def updated(self, address: str) -> None:
        """Tell subscribers that the text at this address has changed."""
        from mcp.shared.subscriptions import ResourceUpdated

        await self._bus.publish(ResourceUpdated(uri=address))
        for each in self._told.values():
            if is_awaited(each.session, address):
                each.add("updated", address, self._beside)

    def _forget(self, connection: Any) -> None:
        self._told.pop(connection).forget()


class SubscriptionHandlers:
    """The handlers of one server."""

    def __init__(self, apps: OpenProjects, listings: Listings) -> None:
        self._apps = apps
        self._listings = listings
        self._hold_stream: Any = None

    def serve(self, server: Server[Any]) -> None:
        """Answer these requests from now on; the SDK's own handler goes on holding the streams."""
        self._hold_stream = cast(Any, server.get_request_handler("subscriptions/listen")).handler
        add = server.add_request_handler
        add("logging/setLevel", SetLevelRequestParams, self._set_level)
        add("subscriptions/listen", SubscriptionsListenRequestParams, self._listen)
        add("resources/subscribe", SubscribeRequestParams, self._subscribe)
        add("resources/unsubscribe", UnsubscribeRequestParams, self._unsubscribe)

    async def _set_level(self, context: Any, params: SetLevelRequestParams) -> EmptyResult:
        set_level(context.session, params.level)
        return EmptyResult()

    async def _subscribe(self, context: Any, params: SubscribeRequestParams) -> EmptyResult:
        address = str(params.uri)
        with protocol_error(uri=address):
            app = await self._apps.own()
            add_address(context.session, address)
        self._listings.watch(app)
        return EmptyResult()

    async def _unsubscribe(self, context: Any, params: UnsubscribeRequestParams) -> EmptyResult:
        forget_address(context.session, str(params.uri))
        return EmptyResult()

    async def _listen(self, context: Any, params: SubscriptionsListenRequestParams) -> Any:
        wanted = params.notifications
        lists = (
            (wanted.tools_list_changed, self._listings.tools),
            (wanted.prompts_list_changed, self._listings.prompts),
            (wanted.resources_list_changed, self._listings.resources),
        )
        with protocol_error():
            require_few(wanted.resource_subscriptions or ())
            app = await self._apps.own()
            for is_wanted, list_now in lists:
                if is_wanted:
                    await list_now(app)
        self._listings.watch(app)
        return await self._hold_stream(context, params)
