"""The arguments that a script declares, as `config` and `config_schema`, and the block for them.

Readers of a language make an `Option` of each argument; `calling_of` turns them into metadata, and
`with_block` puts those into the script as comments. Every other line stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any, Final

from lilux._dataclasses import dataclass
from rye_mcp.items import COMMENT_STYLES
from rye_mcp.metadata import yaml_lines

__all__ = [
    "REST",
    "TEXTS",
    "Declared",
    "Option",
    "block_of",
    "calling_of",
    "described",
    "flag_option",
    "letter_options",
    "metadata_block",
    "parameter_name",
    "short_options",
    "text_of",
    "with_block",
    "with_value",
]

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


TEXTS: Final[Mapping[str, Any]] = {"type": "array", "items": {"type": "string"}}
"""The schema of a list of texts."""

REST: Final = Option("args", None, TEXTS)
"""All that stands behind the options."""


def described(schema: Mapping[str, Any], about: object) -> dict[str, Any]:
    """A schema with a description, where there is one."""
    text = text_of(about)
    return {**schema, "description": text} if text else dict(schema)


def with_value(flag: str) -> str:
    """The text of a flag whose value is attached to it: `-nVALUE`, `--name=VALUE`."""
    return f"{flag}{'' if len(flag) == 2 else '='}VALUE"


def flag_option(flag: str, *, takes: bool, about: object = "", required: bool = False) -> Option:
    """The option of a flag that takes a text, or none."""
    schema = described({"type": "string" if takes else "boolean"}, about)
    return Option(parameter_name(flag), with_value(flag) if takes else flag, schema, required)


def letter_options(letters: str) -> Iterator[Option]:
    """The options of a text such as `n:vh`, as getopts has it."""
    return (flag_option(f"-{letter}", takes=takes) for letter, takes in short_options(letters))


def calling_of(declared: Declared, subcommand: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """The `config` and the `config_schema` of a script."""
    known: dict[str, Option] = {}
    for option in declared.options:
        if not option.is_about_itself:
            known.setdefault(option.name, option)
    return _config_of(declared, known.values(), subcommand), _schema_of(known.values())


def _config_of(declared: Declared, options: Iterable[Option], subcommand: str | None) -> dict[str, Any]:
    places = [_place(option, declared) for option in options if option.flag is None]
    config: dict[str, Any] = {"arguments": "flags"}
    if subcommand is not None:
        config["subcommand"] = subcommand
    if flags := {option.name: option.flag for option in options if option.flag is not None}:
        config["flags"] = flags
    if places:
        config["positionals"] = ["--", *places] if declared.separates else places
    return config


def _schema_of(options: Iterable[Option]) -> dict[str, Any]:
    required = [option.name for option in options if option.required]
    properties = {option.name: dict(option.schema) for option in options}
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    return {**schema, **({"required": required} if required else {}), "additionalProperties": False}


def _place(option: Option, declared: Declared) -> str:
    return f"{option.name} ANY" if option.takes_any and not declared.separates else option.name


_CODING: Final = re.compile(r"[ \t\f]*#.*?coding[:=][ \t]*[-\w.]+", re.ASCII)


def metadata_block(fields: Mapping[str, Any], extension: str) -> str:
    """The lines that say this, with the comments of a language."""
    comment = COMMENT_STYLES[extension].opening.decode("ascii")
    lines = ["/// rye", *yaml_lines(fields), "///"]
    return "".join(f"{comment}{line}".rstrip() + "\n" for line in lines)


def block_of(text: str, extension: str) -> str | None:
    """The block of a script that has one, to the end of its last line."""
    comment = re.escape(COMMENT_STYLES[extension].opening.decode("ascii").rstrip())
    block = rf"^{comment} /// rye[ \t]*\n(?:{comment}(?! ///[ \t]*$).*\n)*{comment} ///[ \t]*(?:\n|\Z)"
    found = re.search(block, text, re.MULTILINE)
    return None if found is None else found[0]


def with_block(text: str, block: str, extension: str) -> str:
    """The script with the block below its first line, if that says how it is started.

    An empty line behind it keeps it apart from other blocks of comments, such as that of PEP 723.
    """
    lines = text.split("\n")
    above = 1 if lines[0].startswith("#!") else 0
    if extension == ".py" and len(lines) > above and _CODING.match(lines[above]):
        above += 1
    head = "".join(f"{line}\n" for line in lines[:above])
    rest = "\n".join(lines[above:])
    return f"{head}{block}{'' if rest.startswith(chr(10)) or not rest else chr(10)}{rest}"
