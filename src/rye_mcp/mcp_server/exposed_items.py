"""Items as MCP offers them: exposed tools, directives as prompts, knowledge and output of runs as resources.

What is listed comes from bytes that were verified; an item passes the gate again when it is used. A tool's
name stays with the first id that had it, and an agent's tool never gets the name of a person's tool. MCP has
text for the arguments of prompts alone: where a directive takes something else, text is read as JSON, once.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.types import (
    GetPromptResult,
    Prompt,
    PromptArgument,
    PromptMessage,
    Resource,
    ResourceTemplate,
    TextContent,
    Tool,
    ToolAnnotations,
)

from rye_mcp.apart import apart
from rye_mcp.errors import RyeError
from rye_mcp.items import ItemType
from rye_mcp.mcp_server.answers import seen
from rye_mcp.mcp_server.definitions import DEFINITIONS
from rye_mcp.mcp_server.listings import Listed, entries, names_of, possible_names
from rye_mcp.mcp_server.logs import facts_of
from rye_mcp.mcp_server.skills import (
    SCHEME,
    prompt_of,
    prompt_text,
    read_skill_resource,
    resource_of,
    skill_offers,
)
from rye_mcp.permissions import Requirement
from rye_mcp.runs.results import PREVIEW_BYTES, is_result_handle, media_type_of, text_of
from rye_mcp.trust.scope import SignerKind
from rye_mcp.visible import find_hidden, visible, visible_lines

if TYPE_CHECKING:
    from rye_mcp.app import App
    from rye_mcp.mcp_server.background_runs import BackgroundRuns
    from rye_mcp.runs.outputs import OutputPiece
    from rye_mcp.verbs.offers import Offer

__all__ = [
    "TEMPLATES",
    "ExposedTools",
    "address_of",
    "completions_of_prompt",
    "completions_of_template",
    "get_prompt",
    "list_prompts",
    "list_resources",
    "read_resource",
]

LOOK_AGAIN_S: Final = 2.0
"""How soon a name that nobody has listed makes all tools be looked at again."""

_log = logging.getLogger(__name__)


class ExposedTools:
    """The tools of a server that are exposed: by patterns of its start, or of an approved project."""

    def __init__(self, patterns: tuple[str, ...] = ()) -> None:
        self._patterns = patterns
        self._ids: dict[str, str] = {}
        self._said: set[tuple[str, str]] = set()
        self._looked_at = -math.inf
        self._schemas: dict[str, Mapping[str, Any]] = {}
        self._inputs: dict[str, dict[str, Any]] = {}
        self._tier: Requirement | None = None

    async def find_tier(self, app: App) -> None:
        """Find out, once and if there are tools to tell of, what this machine enforces."""
        if self._tier is not None or not await apart(lambda: bool(self._offers(app))):
            return
        from lilux.primitives.errors import ToolExecutionError
        from lilux.primitives.subprocess import SubprocessPrimitive
        from rye_mcp.verbs.offers import tier_of

        try:
            self._tier = tier_of(await SubprocessPrimitive().probe())
        except ToolExecutionError as exc:  # without its supervisor, nothing is enforced, and nothing runs
            _log.warning("nothing is known of what this machine enforces", extra=facts_of(reason=exc.message))

    def listed(self, app: App) -> list[Listed[Tool]]:
        """The tools as they are now."""
        self._looked_at = time.monotonic()
        by_id = {offer.item_id: offer for offer in self._offers(app)}
        names = names_of(by_id, taken=DEFINITIONS, kept={**self._of_persons(by_id, app), **self._ids})
        self._ids |= names
        name_of = {item_id: name for name, item_id in names.items()}
        offers, tier = (by_id[item_id] for item_id in name_of), self._tier or Requirement.NONE
        listed = entries(offers, lambda offer: _tool(name_of[offer.item_id], offer, tier))
        tools = [each.entry for each in listed]
        self._schemas = {tool.name: tool.output_schema for tool in tools if tool.output_schema is not None}
        self._inputs = {tool.name: tool.input_schema for tool in tools}
        return listed

    async def id_of(self, name: str, app: App) -> str | None:
        """The id of the tool that has, or had, this name; None when there never was one."""
        if name not in self._ids:
            await apart(partial(self.listed, app))
        return self._ids.get(name)

    async def look_up(self, name: str, app: App) -> None:
        """Know the tool with this name, if there is one; a name that nobody has listed is looked up now."""
        if name not in self._ids and time.monotonic() - self._looked_at > LOOK_AGAIN_S:
            self._looked_at = time.monotonic()
            await apart(partial(self.listed, app))

    def input_schema(self, name: str) -> dict[str, Any] | None:
        """Return the input schema of the tool with this name; None when no such tool was looked up."""
        return self._inputs.get(name)

    def output_schema(self, name: str) -> Mapping[str, Any] | None:
        """Return the output schema that the tool with this name had when it was listed."""
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


def _tool(name: str, offer: Offer, tier: Requirement) -> Tool:
    metadata = offer.metadata
    schema = {"type": "object", **seen(metadata.config_schema or {})}
    if schema["type"] != "object":
        what = f"config_schema.type: expected object, found {schema['type']!r}"
        raise RyeError("invalid_item", what, item_id=offer.item_id)
    declared = dict(metadata.annotations or {})
    title = visible(str(declared.get("title") or metadata.name))
    return Tool(
        name=name,
        title=title,
        description=visible_lines(metadata.description) or title,
        input_schema=schema,
        output_schema=_object_schema(metadata.output_schema),
        annotations=ToolAnnotations.model_validate({"title": title, **offer.annotations(tier)}),
        _meta={"rye/item": offer.item_id, "rye/signer": offer.item.signer.as_dict()},
    )


def _object_schema(schema: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """An output schema that every revision of MCP takes: one of an object."""
    if schema is None or schema.get("type") != "object":
        return None
    shown: dict[str, Any] = seen(schema)
    return shown


def list_prompts(app: App) -> list[Listed[Prompt]]:
    """Every directive and every skill that passes the gate."""
    by_name = _by_name(app)
    name_of = {id(offer): name for name, offer in by_name.items()}
    return entries(by_name.values(), lambda offer: _prompt(name_of[id(offer)], offer))


async def get_prompt(app: App, name: str, arguments: Mapping[str, str]) -> GetPromptResult:
    """The instructions of a directive, filled, or of a skill; RyeError for what is refused."""
    from rye_mcp.verbs.execute import ExecuteRequest, execute

    offer = await apart(partial(_find, app, name))
    if offer.item.file.item_type is ItemType.SKILL:
        return _prompted(offer, prompt_text(offer.item.file))
    schemas = _arguments_of(offer)
    values = {key: _value_of_text(schemas.get(key, {}), text) for key, text in arguments.items()}
    request = ExecuteRequest(offer.item_id, ItemType.DIRECTIVE, values)
    found = (await execute(request, app.context())).as_dict()
    return _prompted(offer, visible_lines(found["instructions"]))


def _prompted(offer: Offer, text: str) -> GetPromptResult:
    content = TextContent(type="text", text=text)
    return GetPromptResult(
        description=visible_lines(offer.metadata.description) or None,
        messages=[PromptMessage(role="user", content=content)],
    )


def completions_of_prompt(app: App, name: str, argument: str, begun: str) -> list[str]:
    """The values of an argument that its schema names, that begin like this, and in which nothing hides."""
    schema = _arguments_of(_find(app, name)).get(argument, {})
    values = map(_text_of_value, _named_values(schema))
    return [value for value in values if value.startswith(begun) and find_hidden(value) is None]


def _by_name(app: App) -> dict[str, Offer]:
    from rye_mcp.verbs.offers import OffersRequest, offers

    request = OffersRequest(item_type=ItemType.DIRECTIVE)
    found = {offer.item_id: offer for offer in offers(request, app.context()).items}
    by_name = {name: found[item_id] for name, item_id in names_of(found).items()}
    skills = {offer.item_id: offer for offer in skill_offers(app)}
    return by_name | {name: skills[each] for name, each in names_of(skills, taken=by_name).items()}


def _find(app: App, name: str) -> Offer:
    offer = _by_name(app).get(name)
    if offer is None:
        what = f"expected a directive or a skill that prompts/list names, found {visible(name[:80])!r}"
        raise RyeError("item_not_found", what, hint="prompts/list names the prompts")
    return offer


def _prompt(name: str, offer: Offer) -> Prompt:
    if offer.item.file.item_type is ItemType.SKILL:
        return prompt_of(name, offer)
    inputs = offer.metadata.inputs
    required = inputs.get("required", ()) if isinstance(inputs, Mapping) else inputs or ()
    return Prompt(
        name=name,
        title=visible(offer.metadata.name),
        description=visible_lines(offer.metadata.description) or None,
        arguments=[
            PromptArgument(name=visible(each), description=_description(schema), required=each in required)
            for each, schema in _arguments_of(offer).items()
        ],
    )


def _arguments_of(offer: Offer) -> Mapping[str, Mapping[str, Any]]:
    from rye_mcp.metadata import arguments_of

    return arguments_of(offer.metadata)


def _description(schema: Mapping[str, Any]) -> str | None:
    text = schema.get("description")
    return visible_lines(text) if isinstance(text, str) else None


def _value_of_text(schema: Mapping[str, Any], text: str) -> Any:
    if schema.get("type", "string") == "string":
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _named_values(schema: Mapping[str, Any]) -> Iterator[Any]:
    if schema.get("type") == "boolean":
        yield from (True, False)
    for keyword in ("enum", "examples"):
        if isinstance(schema.get(keyword), list):
            yield from schema[keyword]


def _text_of_value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


MAX_BYTES: Final = 1 << 20
"""How much of the output of a run is given out at once."""

MAX_COMPLETIONS: Final = 100
"""How many values a completion may have, by the protocol."""

_ITEM: Final = "rye://item/{kind}/{+path}"
_SKILL: Final = "skill://{name}/{+path}"
_RUN: Final = "rye://runs/{id}/{stream}"
_RESULT: Final = "rye://result/{sha256}"
_ADDRESS: Final = re.compile(r"rye://(item|runs)/([^/?#]+)/([^?#]+)")
_MIME_TYPES: Final = {".md": "text/markdown", ".json": "application/json", ".yaml": "application/yaml"}
_STREAMS: Final = ("stdout", "stderr", "result", "status")

TEMPLATES: Final = (
    ResourceTemplate(
        uri_template=_ITEM,
        name="item",
        title="Item",
        description="A verified item: kind is tool, directive, knowledge or skill, path its id.",
    ),
    ResourceTemplate(
        uri_template=_SKILL,
        name="skill",
        title="File of a skill",
        description="A file of a verified skill, byte for byte; SKILL.md first.",
    ),
    ResourceTemplate(
        uri_template=_RUN,
        name="run",
        title="Output of a run",
        description="stdout, stderr or result, when it was cut; or status.",
    ),
    ResourceTemplate(
        uri_template=_RESULT,
        name="result",
        title="Kept result",
        description="What a run of this project returned or wrote to a file: its first MiB.",
    ),
)
"""Addresses that can be read without being listed."""


def address_of(item_type: ItemType, item_id: str) -> str:
    """The address of an item."""
    return f"rye://item/{item_type.value}/{quote(item_id)}"


def list_resources(app: App) -> list[Listed[Resource]]:
    """All knowledge, and the texts of all skills, that pass the gate."""
    from rye_mcp.verbs.offers import OffersRequest, offers

    found = offers(OffersRequest(item_type=ItemType.KNOWLEDGE), app.context()).items
    return entries((*found, *skill_offers(app)), _resource)


def _resource(offer: Offer) -> Resource:
    if offer.item.file.item_type is ItemType.SKILL:
        return resource_of(offer)
    return Resource(
        uri=address_of(ItemType.KNOWLEDGE, offer.item_id),
        name=offer.item_id,
        title=visible(offer.metadata.name),
        description=visible_lines(offer.metadata.description) or None,
        mime_type="text/markdown",
    )


def read_resource(app: App, runs: BackgroundRuns, address: str) -> ReadResourceContents:
    """Read the resource at an address; RyeError if it is missing or refused."""
    if is_result_handle(address):
        return _kept(app, address)
    if address.startswith(SCHEME):
        return read_skill_resource(app, address)
    found = _ADDRESS.fullmatch(address)
    if found is None:
        what = f"expected {_ITEM}, {_SKILL}, {_RUN} or {_RESULT}, found {visible(address[:80])!r}"
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


def _run(app: App, runs: BackgroundRuns, run_id: str, stream: str) -> ReadResourceContents:
    if stream == "status":
        text = json.dumps(runs.status(run_id), ensure_ascii=False)
        return ReadResourceContents(content=visible_lines(text), mime_type="application/json")
    from rye_mcp.verbs.runs import OutputRequest, read_output

    return _text_of(read_output(OutputRequest(run_id, stream, length=MAX_BYTES), app.executor().shelf))


def _kept(app: App, handle: str) -> ReadResourceContents:
    """A result: text as it can be seen, and anything else as the bytes that it is."""
    shelf = app.executor().shelf
    with shelf.results.opened(handle) as descriptor:
        total, beginning = os.fstat(descriptor).st_size, os.pread(descriptor, MAX_BYTES, 0)
    media_type = media_type_of("", beginning[:PREVIEW_BYTES])
    if text_of(beginning, is_whole=len(beginning) == total) is None:
        next_offset = len(beginning) if len(beginning) < total else None
        meta: dict[str, Any] = {"rye/total": total, "rye/next_offset": next_offset}
        return ReadResourceContents(content=beginning, mime_type=media_type, meta=meta)
    return _text_of(shelf.read(handle, length=MAX_BYTES), media_type)


def _text_of(piece: OutputPiece, media_type: str = "text/plain") -> ReadResourceContents:
    meta: dict[str, Any] = {"rye/total": piece.total, "rye/next_offset": piece.next_offset}
    return ReadResourceContents(content=visible_lines(piece.text), mime_type=media_type, meta=meta)
