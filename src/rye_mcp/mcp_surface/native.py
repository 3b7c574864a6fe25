"""Signed tools as MCP tools of their own, so that a client can approve each by its name.

Rules:

- What stands in the list comes from bytes that were verified: name, description, schemas, annotations. What
  does not pass the gate is not listed, nor what has no chain that does, and the log says why, once.
- A name stays with the first id that had it, as long as the server runs: an approval by name is one of that
  tool. No tool of an agent gets a name that a tool of a person has or had, with a hash or without, however
  long ago that was.
- A call goes through the same executor as every other one, which verifies the tool again. A tool that was
  listed and has changed since is refused by its code.
- What a tool declares as its output schema is kept: an answer that does not fit is a failure.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from mcp.types import Tool, ToolAnnotations

from rye_mcp.apart import apart
from rye_mcp.errors import RyeError
from rye_mcp.items import ItemType
from rye_mcp.mcp_surface.content import seen
from rye_mcp.mcp_surface.definitions import DEFINITIONS
from rye_mcp.mcp_surface.entries import Listed, entries
from rye_mcp.mcp_surface.logs import facts_of
from rye_mcp.mcp_surface.names import names_of, possible_names
from rye_mcp.trust.scope import SignerKind
from rye_mcp.visible import visible, visible_lines

if TYPE_CHECKING:
    from rye_mcp.app import App
    from rye_mcp.verbs.offers import Offer

__all__ = ["NativeTools"]

LOOK_AGAIN_S: Final = 2.0
"""How soon a name that nobody has listed makes all tools be looked at again, in the event loop."""

_log = logging.getLogger(__name__)

_HINTS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


class NativeTools:
    """The tools of a server that are exposed: by patterns of its start, or of an approved project."""

    def __init__(self, patterns: tuple[str, ...] = ()) -> None:
        self._patterns = patterns
        self._ids: dict[str, str] = {}
        self._said: set[tuple[str, str]] = set()
        self._looked_at = -math.inf
        self._schemas: dict[str, Mapping[str, Any]] = {}
        self._inputs: dict[str, dict[str, Any]] = {}

    @property
    def item_ids(self) -> frozenset[str]:
        """The ids of all that was ever listed."""
        return frozenset(self._ids.values())

    def listed(self, app: App) -> list[Listed[Tool]]:
        """The tools as they are now."""
        self._looked_at = time.monotonic()
        by_id = {offer.item_id: offer for offer in self._offers(app)}
        names = names_of(by_id, taken=DEFINITIONS, kept={**self._of_persons(by_id, app), **self._ids})
        self._ids |= names
        name_of = {item_id: name for name, item_id in names.items()}
        offers = (by_id[item_id] for item_id in name_of)
        listed = entries(offers, lambda offer: _tool(name_of[offer.item_id], offer))
        tools = [each.entry for each in listed]
        self._schemas = {tool.name: tool.output_schema for tool in tools if tool.output_schema is not None}
        self._inputs = {tool.name: tool.input_schema for tool in tools}
        return listed

    async def id_of(self, name: str, app: App) -> str | None:
        """The id of the tool that has, or had, this name; None when there never was one."""
        if name not in self._ids:
            await apart(partial(self.listed, app))
        return self._ids.get(name)

    def input_schema(self, name: str, app: App) -> dict[str, Any] | None:
        """What the tool with this name takes; None when there is no such tool."""
        if name not in self._ids and time.monotonic() - self._looked_at > LOOK_AGAIN_S:
            self.listed(app)
        return self._inputs.get(name)

    def output_schema(self, name: str) -> Mapping[str, Any] | None:
        """What the tool with this name promised of its output when it was listed."""
        return self._schemas.get(name)

    def _offers(self, app: App) -> tuple[Offer, ...]:
        from rye_mcp.verbs.offers import OffersRequest, exposed, offers

        context = app.context()
        patterns = self._patterns
        try:
            patterns += exposed(context)
            if not patterns:
                return ()
            found = offers(OffersRequest(patterns), context)
        except RyeError as exc:
            self._say("expose", exc)
            return ()
        for item_id, error in found.refused:
            self._say(item_id, error)
        refused = {(item_id, error.code) for item_id, error in found.refused}
        self._said &= refused | {each for each in self._said if each[0] == "expose"}
        return found.items

    def _of_persons(self, offered: Mapping[str, Offer], app: App) -> dict[str, str]:
        """The names of tools that persons vouched for, which agents want for theirs; with the first ids."""
        agents = [each for each, offer in offered.items() if offer.item.signer.kind is SignerKind.AGENT]
        if not agents:
            return {}
        persons = sorted(app.trust.ids_of_persons(ItemType.TOOL), key=lambda each: (each in offered, each))
        known = {name: each for each in persons for name in possible_names(each)}
        wanted = (name for each in agents for name in possible_names(each))
        return {name: known[name] for name in wanted if name in known}

    def _say(self, item_id: str, error: RyeError) -> None:
        if (item_id, error.code) not in self._said:
            self._said.add((item_id, error.code))
            facts = facts_of(item=item_id, code=error.code, reason=error.message)
            _log.warning("a tool is not offered", extra=facts)


def _tool(name: str, offer: Offer) -> Tool:
    metadata = offer.metadata
    schema = {"type": "object", **seen(metadata.config_schema or {})}
    if schema["type"] != "object":
        what = f"config_schema.type: expected object, found {schema['type']!r}"
        raise RyeError("invalid_item", what, item_id=offer.item_id)
    declared = dict(metadata.annotations or {})
    title = visible(str(declared.get("title") or metadata.name))
    hints = {hint: declared[hint] for hint in _HINTS if hint in declared}
    return Tool(
        name=name,
        title=title,
        description=visible_lines(metadata.description) or title,
        input_schema=schema,
        output_schema=_object_schema(metadata.output_schema),
        annotations=ToolAnnotations.model_validate({"title": title, **hints}),
        _meta={"rye/item": offer.item_id, "rye/signer": offer.item.signer.as_dict()},
    )


def _object_schema(schema: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """An output schema that every revision of MCP takes: one of an object."""
    if schema is None or schema.get("type") != "object":
        return None
    shown: dict[str, Any] = seen(schema)
    return shown
