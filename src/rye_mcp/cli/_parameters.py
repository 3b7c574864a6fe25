"""The words of `rye run`: its own options, and the parameters of the tool as options and values.

    --name Ada --count=3 --verbose --no-colour --tag a --tag b

Behind the id, a name that the tool declares is the tool's; other known names are options of `rye run`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import typer

from lilux._dataclasses import dataclass
from rye_mcp.executor.configuration.words import WordsError, read_words
from rye_mcp.items import ItemType

__all__ = ["RunOptions", "parse_json_object", "parse_parameters"]


def parse_parameters(words: Sequence[str], schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """The parameters that these words give; wrong use when they give none."""
    try:
        return read_words(words, schema)
    except WordsError as exc:
        raise typer.BadParameter(str(exc)) from exc


def parse_json_object(text: str, source: str) -> dict[str, Any]:
    """The object that stands in a text; wrong use for anything else."""
    try:
        value = json.loads(text, object_pairs_hook=_each_name_once)
    except (ValueError, RecursionError) as exc:
        raise typer.BadParameter(f"expected a JSON object in {source}, found no JSON: {exc}") from exc
    if not isinstance(value, dict):
        raise typer.BadParameter(f"expected a JSON object in {source}, found {type(value).__name__}")
    return value


def _each_name_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; of two values with one name nobody knows which one is meant."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {twice!r:.80} stands twice")
    return found


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of `rye run`; `params` is JSON, or `-` for standard input.

    `cold` changes nothing: a command makes one call, so no interpreter has waited for it.
    """

    params: str | None = None
    timeout: float | None = None
    dry_run: bool = False
    locked: bool = False
    item_type: ItemType = ItemType.TOOL
    project: Path | None = None
    as_json: bool = False
    cold: bool = False

    @property
    def which(self) -> tuple[object, ...]:
        """The options that decide which item is meant, and whether it may run at all."""
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
                given[field] = _own_switch(name, text if equals else "true")
            else:
                given[field] = _own_value(name, read, text if equals else next(coming, None))
        return RunOptions(**{**asdict(self), **given}), rest


def _own_switch(name: str, text: str) -> bool:
    if text != "true":
        raise typer.BadParameter(f"expected --{name} without a value, found {text!r:.80}")
    return True


def _own_value(name: str, read: Callable[[str], object], text: str | None) -> object:
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
    "cold": ("cold", None),
    "type": ("item_type", ItemType),
    "project": ("project", Path),
    "json": ("as_json", None),
}
"""By its name behind the id: the field of an option, and how its value is read; None for a switch."""

_WANTED: Final = {"timeout": "seconds", "type": "tool, directive, knowledge or skill"}
