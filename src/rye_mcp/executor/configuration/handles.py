"""Puts kept results in the place of their handles, where a parameter is nothing but `rye://result/<sha256>`.

A parameter of type string gets the text; any other gets the JSON value or, if it isn't JSON, the text. The
schema is compared afterwards, with what the tool would get. A parameter with `format: rye-handle` keeps its
handle, and a program gets the path of a file. Handles inside of lists, objects or longer texts are data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rye_mcp.apart import off_loop
from rye_mcp.errors import RyeError
from rye_mcp.executor.chain.builder import ChainElement
from rye_mcp.executor.configuration.parameters import HANDLE_FORMAT, MAX_BYTES, takes_handle
from rye_mcp.executor.job.decoding import parse_json
from rye_mcp.runs.results import KeptResults, is_result_handle

__all__ = ["with_results"]


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
    schema = element.metadata.config_schema or {}
    for name, handle in given.items():
        if takes_handle(schema, name, handle):
            with results.opened(handle):
                continue  # it is there
        if is_result_handle(handle):
            yield name, _value(name, results.read_whole(handle, limit=MAX_BYTES), element)


def _value(name: str, data: bytes, element: ChainElement) -> Any:
    try:
        text = data.decode()
    except UnicodeDecodeError as exc:
        what = f"expected text as {name} of {element.item_id}, found the handle of a file that isn't UTF-8"
        hint = f"only a parameter with format: {HANDLE_FORMAT} takes such a file"
        raise RyeError("invalid_parameters", what, hint=hint, item_id=element.item_id) from exc
    if _type_of(element, name) == "string":
        return text
    try:
        return parse_json(text)
    except ValueError:
        return text


def _type_of(element: ChainElement, name: str) -> Any:
    properties = (element.metadata.config_schema or {}).get("properties")
    declared = properties.get(name) if isinstance(properties, Mapping) else None
    return declared.get("type") if isinstance(declared, Mapping) else None
