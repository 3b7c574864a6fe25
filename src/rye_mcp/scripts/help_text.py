"""Options and positionals in what a program prints with `--help`, in the forms that nearly every program has.

Rules:

- An option is a line of its own, which begins with its flag.
- A positional stands in the line `usage:` in capitals or brackets, or has a line below `arguments:`. Other
  words of the usage are prose.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from rye_mcp.scripts.declared import Declared, Option, parameter_name, text_of

__all__ = ["read_help"]

_LINE: Final = re.compile(
    r"^[ \t]{1,10}(?:(-[A-Za-z0-9])(?:[ =]?(<[^>]+>|[A-Z][\w-]*))?(?:,[ \t]*|[ \t]+|$))?"
    r"(--[A-Za-z][\w-]*)?(?:([ =]|\[=)(?:<([^>]+)>|\[?([A-Z][\w.|-]*)\]?))?(?:[ \t]{2,}(.*)|[ \t]*)$",
    re.ASCII,
)
_USAGE: Final = re.compile(r"^[ \t]*usage:[ \t]*(.*(?:\n[ \t]{2,}\S.*)*)", re.MULTILINE | re.IGNORECASE)
_SECTION: Final = re.compile(
    r"^(?:positional )?arguments:[ \t]*\n((?:[ \t]+\S.*(?:\n|\Z))+)", re.MULTILINE | re.IGNORECASE
)
_ARGUMENT: Final = re.compile(
    r"^[ \t]{1,10}[\[<]?([A-Za-z][\w-]*)[\]>]?(?:\.{3})?(?:[ \t]{2,}(.*)|[ \t]*)$", re.MULTILINE
)
_FLAGS: Final = re.compile(
    r"\[[^\[\]]*(?<![\w-])-[^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)?\]|"
    r"(?<![\w-])--?[A-Za-z][\w-]*(?:[ =](?:<[^>]+>|[A-Z][A-Z0-9_-]*\b))?"
)
_PLACE: Final = re.compile(r"(\[?)<?([A-Za-z][\w-]*)>?\]?(?:[ ]?\[\2)?\]?[ ]?(\.{3})?")
_WORDS_FOR_FLAGS: Final = frozenset({"options", "option", "flags", "command", "commands"})
_STARTS: Final = frozenset({"python", "python3", "node", "bash", "sh", "perl", "ruby", "npx", "tsx"})
_LIST: Final = {"type": "array", "items": {"type": "string"}}


def read_help(text: str) -> Declared:
    """The flags of a help text, whose values are attached to them, and its positionals."""
    options = {each.name: each for each in _options(text)}
    places = {each.name: each for each in _places(text) if each.name not in options}
    remark = "read from --help: look at config and config_schema"
    return Declared("--help", (*options.values(), *places.values()), remarks=(remark,))


def _options(text: str) -> Iterator[Option]:
    for line in text.split("\n"):
        found = _LINE.match(line)
        flag = found and (found[3] or found[1])
        if not found or not flag:
            continue
        about = {"description": text_of(found[7])} if found[7] else {}
        takes = found[2] or found[5] or found[6]
        form = f"{flag}{'=' if found[3] else ''}VALUE" if takes else flag
        option = Option(parameter_name(flag), form, {"type": "string" if takes else "boolean"} | about)
        if not option.is_about_itself:
            yield option


def _places(text: str) -> Iterator[Option]:
    """The positionals in the order of the usage; of the section about them, where there is no usage."""
    section = _SECTION.search(text)
    told = {found[1]: found[2] or "" for found in _ARGUMENT.finditer(section[1])} if section else {}
    usage = _USAGE.search(text)
    if usage is None:
        yield from (_place(name, about) for name, about in told.items())
        return
    for found in _PLACE.finditer(_FLAGS.sub(" ", _without_program(usage[1]))):
        if found[2] in told or _is_place(found[2], found[0]):
            yield _place(found[2], told.get(found[2], ""), many=bool(found[3]), optional=bool(found[1]))


def _is_place(name: str, shown: str) -> bool:
    """Whether a word of a usage looks like what stands for an argument."""
    return (name.isupper() or shown.startswith(("[", "<"))) and name.lower() not in _WORDS_FOR_FLAGS


def _without_program(usage: str) -> str:
    """A usage without the name of the program, and what starts it."""
    first, _, rest = usage.partition(" ")
    if first.rpartition("/")[2] in _STARTS:
        rest = rest.lstrip().partition(" ")[2]
    return rest


def _place(name: str, about: str, *, many: bool = False, optional: bool = False) -> Option:
    schema: dict[str, Any] = (_LIST if many else {"type": "string"}) | (
        {"description": text_of(about)} if about else {}
    )
    return Option(parameter_name(name).lower(), None, schema, not optional)
