"""Items and the output of runs as resources: `rye://item/{kind}/{+path}` and `rye://runs/{id}/{stream}`.

Rules:

- Listed is knowledge; every other item can be read by its address. What is given out has passed the gate.
- Of a run that this server began and nobody waits for, `rye://runs/{id}/status` says how far it is. Output is
  given out as far as `MAX_BYTES`; `_meta` says where to go on with the tool `load`.
- An address is data: kinds are those of a table, ids and run ids are checked before anything is looked for.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.types import Resource, ResourceTemplate

from rye_mcp.errors import RyeError
from rye_mcp.items import ItemType
from rye_mcp.mcp_server.listings import Listed, entries
from rye_mcp.visible import visible, visible_lines

if TYPE_CHECKING:
    from rye_mcp.app import App
    from rye_mcp.mcp_server.background_runs import Runs
    from rye_mcp.verbs.offers import Offer

__all__ = ["TEMPLATES", "address_of", "completions_of_template", "list_resources", "read_resource"]

MAX_BYTES: Final = 1 << 20
"""How much of the output of a run is given out at once."""

MAX_COMPLETIONS: Final = 100
"""How many values a completion may have, by the protocol."""

_ITEM: Final = "rye://item/{kind}/{+path}"
_RUN: Final = "rye://runs/{id}/{stream}"
_ADDRESS: Final = re.compile(r"rye://(item|runs)/([^/?#]+)/([^?#]+)")
_MIME_TYPES: Final = {".md": "text/markdown", ".json": "application/json", ".yaml": "application/yaml"}
_STREAMS: Final = ("stdout", "stderr", "result", "status")

TEMPLATES: Final = (
    ResourceTemplate(
        uri_template=_ITEM,
        name="item",
        title="Item",
        description="A verified item: kind is tool, directive or knowledge, path its id.",
    ),
    ResourceTemplate(
        uri_template=_RUN,
        name="run",
        title="Output of a run",
        description="stdout, stderr or result, when it was too long for the answer; or status.",
    ),
)
"""What can be read by an address that nobody has listed."""


def address_of(item_type: ItemType, item_id: str) -> str:
    """The address of an item."""
    return f"rye://item/{item_type.value}/{quote(item_id)}"


def list_resources(app: App) -> list[Listed[Resource]]:
    """All knowledge that passes the gate."""
    from rye_mcp.verbs.offers import OffersRequest, offers

    found = offers(OffersRequest(item_type=ItemType.KNOWLEDGE), app.context()).items
    return entries(found, _resource)


def _resource(offer: Offer) -> Resource:
    return Resource(
        uri=address_of(ItemType.KNOWLEDGE, offer.item_id),
        name=offer.item_id,
        title=visible(offer.metadata.name),
        description=visible_lines(offer.metadata.description) or None,
        mime_type="text/markdown",
    )


def read_resource(app: App, runs: Runs, address: str) -> ReadResourceContents:
    """What stands at an address; RyeError when there is nothing, or it is refused."""
    found = _ADDRESS.fullmatch(address)
    if found is None:
        what = f"expected {_ITEM} or {_RUN}, found {visible(address[:80])!r}"
        raise RyeError("item_not_found", what, hint="resources/templates/list names the addresses")
    kind, first, rest = found[1], unquote(found[2]), unquote(found[3])
    return _item(app, first, rest) if kind == "item" else _run(app, runs, first, rest)


def completions_of_template(
    app: App, uri: str, argument: str, begun: str, known: dict[str, str]
) -> list[str]:
    """The values of a variable of a template that begin like this."""
    values: list[str] = []
    if uri == _RUN and argument == "stream":
        values = list(_STREAMS)
    elif uri == _ITEM and argument == "kind":
        values = [each.value for each in ItemType]
    elif uri == _ITEM and argument == "path":
        values = _ids(app, known.get("kind", ItemType.TOOL.value))
    return [value for value in values if value.startswith(begun)][:MAX_COMPLETIONS]


def _ids(app: App, kind: str) -> list[str]:
    if kind not in tuple(ItemType):
        return []
    listings = [app.spaces.list(space.name, ItemType(kind)) for space in app.spaces.accessible()]
    return sorted({place.item_id for listing in listings for place in listing.items})


def _item(app: App, kind: str, item_id: str) -> ReadResourceContents:
    from rye_mcp.verbs.load import LoadRequest, load

    if kind not in tuple(ItemType):
        what = f"expected one of {', '.join(ItemType)} as kind, found {visible(kind[:80])!r}"
        raise RyeError("item_not_found", what, hint="resources/templates/list names the addresses")
    loaded = load(LoadRequest(item_id, ItemType(kind)), app.context())
    facts = loaded.as_dict()
    return ReadResourceContents(
        content=visible_lines(facts["content"]),
        mime_type=_MIME_TYPES.get(loaded.file.extension, "text/plain"),
        meta={"rye/integrity": facts["integrity"]},
    )


def _run(app: App, runs: Runs, run_id: str, stream: str) -> ReadResourceContents:
    if stream == "status":
        text = json.dumps(runs.status(run_id), ensure_ascii=False)
        return ReadResourceContents(content=visible_lines(text), mime_type="application/json")
    from rye_mcp.verbs.runs import OutputRequest, read_output

    piece = read_output(OutputRequest(run_id, stream, length=MAX_BYTES), app.executor().outputs)
    meta: dict[str, Any] = {"rye/total": piece.total, "rye/next_offset": piece.next_offset}
    return ReadResourceContents(content=visible_lines(piece.text), mime_type="text/plain", meta=meta)
