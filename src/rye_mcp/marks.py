"""Names that only rye-mcp itself may use over MCP: addresses under `rye://`, and `rye/` in `_meta`.

Clients, and the people who write rules for them, take these as the word of rye-mcp. So the content blocks of
tools and of other servers pass without them.

    >>> without_marks({"type": "text", "text": "a", "_meta": {"rye/integrity": "system", "a/b": 1}})
    {'type': 'text', 'text': 'a', '_meta': {'a/b': 1}}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["is_our_address", "without_marks", "without_our_addresses"]

SCHEME: Final = "rye:"
PREFIX: Final = "rye/"

_ADDRESSES: Final = ("uri", "url", "src", "href")
_LEFT_OUT: Final = "[left out: an address under rye://, which only rye-mcp itself names]"


def is_our_address(address: object) -> bool:
    """Whether an address is one that only rye-mcp names."""
    return isinstance(address, str) and _read(address).startswith(SCHEME)


def without_marks(value: Any) -> Any:
    """A copy of a content block, or of a part of one, without what `_meta` says in the name of rye-mcp."""
    if isinstance(value, Mapping):
        return {
            name: _unmarked(each) if name == "_meta" else without_marks(each) for name, each in value.items()
        }
    return [without_marks(each) for each in value] if isinstance(value, list | tuple) else value


def without_our_addresses(block: Any) -> Any:
    """The same block, or a text in its place when it leads to an address of ours."""
    if not isinstance(block, Mapping):
        return block
    return {"type": "text", "text": _LEFT_OUT} if _leads_to_us(block) else block


def _leads_to_us(value: Any) -> bool:
    """Whether an address of ours stands anywhere in a block where clients look for addresses."""
    if isinstance(value, Mapping):
        return any(map(is_our_address, map(value.get, _ADDRESSES))) or any(map(_leads_to_us, value.values()))
    return isinstance(value, list | tuple) and any(map(_leads_to_us, value))


def _read(name: str) -> str:
    """A name as those read it who leave out blanks and control characters, as parsers of addresses do."""
    return "".join(each for each in name if each.isprintable() and not each.isspace()).lower()


def _unmarked(meta: Any) -> Any:
    if not isinstance(meta, Mapping):
        return meta
    return {name: each for name, each in meta.items() if not _read(str(name)).startswith(PREFIX)}
