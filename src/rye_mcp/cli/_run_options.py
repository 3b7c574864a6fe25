"""The options of `rye run` itself, which may stand before the id of the tool or behind it.

Behind the id, a name that the tool declares as its parameter is the tool's; the others are options.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import typer

from rye_mcp.items import ItemType

__all__ = ["RunOptions"]


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What somebody asked of `rye run`; `params` is JSON, or `-` for standard input."""

    params: str | None = None
    timeout: float | None = None
    dry_run: bool = False
    locked: bool = False
    item_type: ItemType = ItemType.TOOL
    project: Path | None = None
    as_json: bool = False

    @property
    def which(self) -> tuple[object, ...]:
        """What decides which item is meant, and whether it may run at all."""
        return (self.item_type, self.project, self.locked)

    def with_those_among(
        self, words: Sequence[str], declared: Collection[str]
    ) -> tuple[RunOptions, list[str]]:
        """These options and those among some words; and the words that are left for the tool."""
        given: dict[str, Any] = {}
        rest: list[str] = []
        coming = iter(words)
        for word in coming:
            name, equals, text = word.removeprefix("--").partition("=")
            is_own = (
                word.startswith("--") and name in _READ and not {name, name.replace("-", "_")} & {*declared}
            )
            if not is_own:
                rest.append(word)
                continue
            field, read = _READ[name]
            if read is None:
                given[field] = _switch(name, text if equals else "true")
            else:
                given[field] = _value(name, read, text if equals else next(coming, None))
        return RunOptions(**{**asdict(self), **given}), rest


def _switch(name: str, text: str) -> bool:
    if text != "true":
        raise typer.BadParameter(f"expected --{name} without a value, found {text!r:.80}")
    return True


def _value(name: str, read: Callable[[str], object], text: str | None) -> object:
    if text is None:
        raise typer.BadParameter(f"expected a value for --{name}, found none")
    try:
        return read(text)
    except ValueError:
        raise typer.BadParameter(f"expected {_WANTED[name]} for --{name}, found {text!r:.80}") from None


_READ: Final[Mapping[str, tuple[str, Callable[[str], object] | None]]] = {
    "params": ("params", str),
    "timeout": ("timeout", float),
    "dry-run": ("dry_run", None),
    "locked": ("locked", None),
    "type": ("item_type", ItemType),
    "project": ("project", Path),
    "json": ("as_json", None),
}
"""By its name behind the id: the field of an option, and how its value is read; None for a switch."""

_WANTED: Final = {"timeout": "seconds", "type": "tool, directive or knowledge"}
