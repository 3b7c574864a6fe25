"""From the checked arguments of a call to the request of a verb, and from its result to data."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from anyio import to_thread

from rye_mcp.app import App
from rye_mcp.items import ItemType, SpaceName
from rye_mcp.verbs.execute import ExecuteRequest, execute
from rye_mcp.verbs.load import LoadRequest, load
from rye_mcp.verbs.search import SearchRequest, search
from rye_mcp.verbs.sign import SignRequest, sign

__all__ = ["CALLS"]

Call = Callable[[dict[str, Any], App], Awaitable[Mapping[str, Any]]]


async def _search(arguments: dict[str, Any], app: App) -> Mapping[str, Any]:
    space = _space(arguments.pop("space") if arguments["space"] != "all" else None)
    request = SearchRequest(**{**arguments, "space": space})

    def work() -> Mapping[str, Any]:
        with app.catalog() as catalog:
            catalog.refresh()
            return search(request, app.context(), catalog).as_dict()

    return await to_thread.run_sync(work)  # a first index takes its time, and others are to be heard


async def _load(arguments: dict[str, Any], app: App) -> Mapping[str, Any]:
    request = LoadRequest(
        arguments["item_id"],
        ItemType(arguments["item_type"]),
        source=_space(arguments.get("source")),
        destination=_space(arguments.get("destination")),
        overwrite=arguments["overwrite"],
    )
    return load(request, app.context()).as_dict()


async def _execute(arguments: dict[str, Any], app: App) -> Mapping[str, Any]:
    request = ExecuteRequest(
        arguments["item_id"],
        ItemType(arguments["item_type"]),
        arguments["parameters"],
        dry_run=arguments["dry_run"],
        timeout=arguments.get("timeout"),
    )
    return (await execute(request, app.context())).as_dict(detail=arguments["detail"])


async def _sign(arguments: dict[str, Any], app: App) -> Mapping[str, Any]:
    request = SignRequest(
        arguments["item_id"], ItemType(arguments["item_type"]), source=SpaceName(arguments["source"])
    )
    return sign(request, app.context()).as_dict()


def _space(name: str | None) -> SpaceName | None:
    return None if name is None else SpaceName(name)


CALLS: Final[Mapping[str, Call]] = MappingProxyType(
    {"search": _search, "load": _load, "execute": _execute, "sign": _sign}
)
"""Name of a tool → what a call of it does."""
