"""Puts kept results in the place of their handles, where a parameter is nothing but `rye://result/<sha256>`.

A parameter of type string gets the text; any other gets the JSON value or, if it isn't JSON, the text. The
schema is compared afterwards, with what the tool would get. A parameter with `format: rye-handle` keeps its
handle. Handles inside of lists, objects or longer texts are data like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rye_mcp.apart import off_loop
from rye_mcp.errors import RyeError
from rye_mcp.executor.chain.builder import ChainElement
from rye_mcp.executor.configuration.parameters import MAX_BYTES
from rye_mcp.executor.job.decoding import parse_json
from rye_mcp.runs.results import KeptResults, is_result_handle

__all__ = ["FORMAT", "with_results"]

FORMAT: Final = "rye-handle"
"""The format of a parameter that takes a handle, and not the result behind it."""


async def with_results(
    element: ChainElement, given: Mapping[str, Any] | None, results: KeptResults
) -> Mapping[str, Any] | None:
    """The parameters of a call with every handle replaced; RyeError for one that opens nothing."""
    if not isinstance(given, Mapping) or not any(map(is_result_handle, given.values())):
        return given
    return await off_loop(lambda: {**given, **dict(_opened(element, given, results))})


def _opened(
    element: ChainElement, given: Mapping[str, Any], results: KeptResults
) -> Iterator[tuple[str, Any]]:
    schemas = (element.metadata.config_schema or {}).get("properties", {})
    for name, handle in given.items():
        schema = schemas.get(name) if isinstance(schemas, Mapping) else None
        schema = schema if isinstance(schema, Mapping) else {}
        if not is_result_handle(handle):
            continue
        if schema.get("format") == FORMAT:
            with results.opened(handle):
                continue
        yield name, _value(name, results.read_whole(handle, limit=MAX_BYTES), schema, element)


def _value(name: str, data: bytes, schema: Mapping[str, Any], element: ChainElement) -> Any:
    try:
        text = data.decode()
    except UnicodeDecodeError as exc:
        what = f"expected text as {name} of {element.item_id}, found the handle of a file that isn't UTF-8"
        hint = f"only a parameter with format: {FORMAT} takes such a file"
        raise RyeError("invalid_parameters", what, hint=hint, item_id=element.item_id) from exc
    if schema.get("type") == "string":
        return text
    try:
        return parse_json(text)
    except ValueError:
        return text
