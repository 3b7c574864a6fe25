"""Answers to the requests by which a client says what it wants to hear of.

Rules:

- Who wants to hear of changes has the spaces watched from then on.
- Who wants to hear of another list may have it from an earlier connection: it is made, to be compared.
- What is wanted is kept by `wishes`, with its limits; a stream of 2026 is held by the SDK.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

from mcp.types import (
    EmptyResult,
    SetLevelRequestParams,
    SubscribeRequestParams,
    SubscriptionsListenRequestParams,
    UnsubscribeRequestParams,
)

from rye_mcp.mcp_server.requests import protocol_error
from rye_mcp.mcp_server.wishes import add_address, forget_address, require_few, set_level

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

    from rye_mcp.mcp_server.apps import Apps
    from rye_mcp.mcp_server.listings import Listings
    from rye_mcp.mcp_server.runs import Runs

__all__ = ["Wishing"]


class Wishing:
    """The handlers of one server."""

    def __init__(self, apps: Apps, runs: Runs, listings: Listings) -> None:
        self._apps = apps
        self._runs = runs
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
        self._runs.beside(partial(self._listings.watch, app))
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
        self._runs.beside(partial(self._listings.watch, app))
        return await self._hold_stream(context, params)
