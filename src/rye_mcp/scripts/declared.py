"""What a script says about its own arguments, in the words of `config` and `config_schema`.

Readers of a language make an `Option` of each argument; `calling_of` turns them into metadata.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

__all__ = ["Declared", "Option", "calling_of", "parameter_name", "short_options", "text_of"]

_MAX_DESCRIPTION: Final = 300
_WORDS: Final = re.compile(r"[^A-Za-z0-9]+", re.ASCII)
_HELP: Final = frozenset({"help", "h", "?", "version", "usage"})


@dataclass(frozen=True, slots=True)
class Option:
    """One argument. `flag` is its text in `config.flags`; without one it has a place.

    `takes_any` is for a place whose program takes whatever stands there.
    """

    name: str
    flag: str | None = None
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})
    required: bool = False
    takes_any: bool = False

    @property
    def is_about_itself(self) -> bool:
        """Whether it only asks for help or a version."""
        return self.flag is not None and self.name in _HELP


@dataclass(frozen=True, slots=True)
class Declared:
    """All that a script says. `reader` is how it says it; `separates` when it knows `--`."""

    reader: str
    options: tuple[Option, ...] = ()
    separates: bool = False
    description: str = ""
    subcommands: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


def parameter_name(text: str) -> str:
    """The name of a parameter for a flag, a variable or a placeholder: `--dry-run` → `dry_run`."""
    return _WORDS.sub("_", text).strip("_") or "value"


def text_of(value: object) -> str:
    """Help as one line of moderate length."""
    return " ".join(value.split())[:_MAX_DESCRIPTION] if isinstance(value, str) else ""


def short_options(letters: str) -> Iterable[tuple[str, bool]]:
    """The letters of a text such as `n:vh`, as getopts has it, and whether each takes a value."""
    for found in re.finditer(r"([A-Za-z0-9])(:?)", letters, re.ASCII):
        yield found[1], bool(found[2])


def calling_of(declared: Declared, subcommand: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """The `config` and the `config_schema` of a script."""
    flags: dict[str, str] = {}
    places: list[str] = []
    properties: dict[str, Any] = {}
    required: list[str] = []
    for option in declared.options:
        if option.is_about_itself or option.name in properties:
            continue
        properties[option.name] = dict(option.schema)
        if option.flag is not None:
            flags[option.name] = option.flag
        else:
            any_value = option.takes_any and not declared.separates
            places.append(f"{option.name} ANY" if any_value else option.name)
        if option.required:
            required.append(option.name)
    config: dict[str, Any] = {"arguments": "flags"}
    if subcommand is not None:
        config["subcommand"] = subcommand
    if flags:
        config["flags"] = flags
    if places:
        config["positionals"] = ["--", *places] if declared.separates else places
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    return config, schema | {"additionalProperties": False}
