"""Directives as prompts: listed with their arguments, filled when a person picks one.

Rules:

- Only directives that pass the gate are listed, and each passes it again before it is given out.
- MCP has text for arguments alone: where a directive takes something else, text is read as JSON, once.
- Completions are the values that its schema names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from mcp.types import GetPromptResult, Prompt, PromptArgument, PromptMessage, TextContent

from rye_mcp.apart import apart
from rye_mcp.errors import RyeError
from rye_mcp.items import ItemType
from rye_mcp.mcp_server.listings import Listed, entries, names_of
from rye_mcp.metadata import arguments_of
from rye_mcp.visible import find_hidden, visible, visible_lines

if TYPE_CHECKING:
    from rye_mcp.app import App
    from rye_mcp.verbs.offers import Offer

__all__ = ["completions_of_prompt", "get_prompt", "list_prompts"]


def list_prompts(app: App) -> list[Listed[Prompt]]:
    """Every directive that passes the gate."""
    by_name = _by_name(app)
    name_of = {offer.item_id: name for name, offer in by_name.items()}
    return entries(by_name.values(), lambda offer: _prompt(name_of[offer.item_id], offer))


async def get_prompt(app: App, name: str, arguments: Mapping[str, str]) -> GetPromptResult:
    """The instructions of a directive, filled; RyeError for what is refused."""
    from rye_mcp.verbs.execute import ExecuteRequest, execute

    offer = await apart(partial(_find, app, name))
    schemas = arguments_of(offer.metadata)
    values = {key: _value(schemas.get(key, {}), text) for key, text in arguments.items()}
    request = ExecuteRequest(offer.item_id, ItemType.DIRECTIVE, values)
    found = (await execute(request, app.context())).as_dict()
    content = TextContent(type="text", text=visible_lines(found["instructions"]))
    return GetPromptResult(
        description=visible_lines(offer.metadata.description) or None,
        messages=[PromptMessage(role="user", content=content)],
    )


def completions_of_prompt(app: App, name: str, argument: str, begun: str) -> list[str]:
    """The values of an argument that its schema names, that begin like this, and in which nothing hides."""
    schema = arguments_of(_find(app, name).metadata).get(argument, {})
    values = map(_text, _named_values(schema))
    return [value for value in values if value.startswith(begun) and find_hidden(value) is None]


def _by_name(app: App) -> dict[str, Offer]:
    from rye_mcp.verbs.offers import OffersRequest, offers

    request = OffersRequest(item_type=ItemType.DIRECTIVE)
    found = {offer.item_id: offer for offer in offers(request, app.context()).items}
    return {name: found[item_id] for name, item_id in names_of(found).items()}


def _find(app: App, name: str) -> Offer:
    offer = _by_name(app).get(name)
    if offer is None:
        what = f"expected a directive that prompts/list names, found {visible(name[:80])!r}"
        raise RyeError("item_not_found", what, hint="prompts/list names the prompts")
    return offer


def _prompt(name: str, offer: Offer) -> Prompt:
    inputs = offer.metadata.inputs
    required = inputs.get("required", ()) if isinstance(inputs, Mapping) else inputs or ()
    return Prompt(
        name=name,
        title=visible(offer.metadata.name),
        description=visible_lines(offer.metadata.description) or None,
        arguments=[
            PromptArgument(name=visible(each), description=_description(schema), required=each in required)
            for each, schema in arguments_of(offer.metadata).items()
        ],
    )


def _description(schema: Mapping[str, Any]) -> str | None:
    text = schema.get("description")
    return visible_lines(text) if isinstance(text, str) else None


def _value(schema: Mapping[str, Any], text: str) -> Any:
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


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
