"""From the checked arguments of a call to the request of a verb, and from its result to data."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from anyio import to_thread

from rye_mcp.app import App
from rye_mcp.executor.primitive_executor import Watch
from rye_mcp.items import ItemType, SpaceName
from rye_mcp.mcp_surface.progress import Tell, reporting
from rye_mcp.verbs._context import Context
from rye_mcp.verbs.execute import ExecuteRequest, execute
from rye_mcp.verbs.load import LoadRequest, load
from rye_mcp.verbs.search import SearchRequest, search
from rye_mcp.verbs.sign import SignRequest, sign

__all__ = ["CALLS", "Asked"]

Call = Callable[[dict[str, Any], "Asked"], Awaitable[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class Asked:
    """What belongs to a call besides its arguments: the parts for its project, and who asks.

    `tell` tells the client how far it is, None when it does not want to know.
    """

    app: App
    tell: Tell | None = None
    client: str | None = None

    def context(self) -> Context:
        """What verbs work with: it is an agent that asks."""
        return self.app.context(client=self.client)


async def _search(arguments: dict[str, Any], asked: Asked) -> Mapping[str, Any]:
    space = _space(arguments.pop("space") if arguments["space"] != "all" else None)
    request = SearchRequest(**{**arguments, "space": space})

    def work() -> Mapping[str, Any]:
        with asked.app.catalog() as catalog:
            catalog.refresh()
            return search(request, asked.context(), catalog).as_dict()

    return await to_thread.run_sync(work)  # a first index takes its time, and others are to be heard


async def _load(arguments: dict[str, Any], asked: Asked) -> Mapping[str, Any]:
    request = LoadRequest(
        arguments["item_id"],
        ItemType(arguments["item_type"]),
        source=_space(arguments.get("source")),
        destination=_space(arguments.get("destination")),
        overwrite=arguments["overwrite"],
    )
    return load(request, asked.context()).as_dict()


async def _execute(arguments: dict[str, Any], asked: Asked) -> Mapping[str, Any]:
    request = ExecuteRequest(
        arguments["item_id"],
        ItemType(arguments["item_type"]),
        arguments["parameters"],
        dry_run=arguments["dry_run"],
        timeout=arguments.get("timeout"),
    )
    if asked.tell is None:
        result = await execute(request, asked.context())
    else:
        async with reporting(asked.tell) as reporter:
            result = await execute(request, asked.context(), watch=Watch(on_output=reporter.on_output))
    return result.as_dict(detail=arguments["detail"])


async def _sign(arguments: dict[str, Any], asked: Asked) -> Mapping[str, Any]:
    request = SignRequest(
        arguments["item_id"], ItemType(arguments["item_type"]), source=SpaceName(arguments["source"])
    )
    return sign(request, asked.context()).as_dict()


def _space(name: str | None) -> SpaceName | None:
    return None if name is None else SpaceName(name)


CALLS: Final[Mapping[str, Call]] = MappingProxyType(
    {"search": _search, "load": _load, "execute": _execute, "sign": _sign}
)
"""Name of a tool → what a call of it does."""
