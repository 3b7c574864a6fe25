"""How a program is called with flags: reads and checks what `arguments: flags` of a configuration says.

`flags` maps a parameter to a text that reads like a line of usage, such as `--name=VALUE`; all forms are in
`docs/architecture/items.md`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from lilux._dataclasses import dataclass

__all__ = [
    "ARGUMENTS",
    "CALLING_KEYS",
    "CALLING_MEANINGS",
    "FLAGS",
    "FLAG_TEXT",
    "Calling",
    "Flag",
    "Positional",
    "read_calling",
]

ARGUMENTS: Final = "arguments"
"""The key that says how parameters become arguments."""

FLAGS: Final = "flags"
"""Its one value; and the key of the texts."""

CALLING_MEANINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        ARGUMENTS: "flags: the program gets its parameters as --name=value.",
        FLAGS: "The flags of parameters: --dry-run, --color/--no-color, -v..., --name=VALUE.",
        "positionals": "The parameters that are passed by their places; -- where the program knows it.",
        "subcommand": "A word that comes before all flags.",
    }
)
"""Keys that describe how a tool is called. Other primitives may use these names for something else."""

CALLING_KEYS: Final = tuple(CALLING_MEANINGS)
"""The keys of these."""

SEPARATOR: Final = "--"

_NAME: Final = r"[A-Za-z0-9?][A-Za-z0-9_.:-]*"
FLAG_TEXT: Final = (
    rf"^(?:(?:-{_NAME}|--{_NAME})(?:/(?:-{_NAME}|--{_NAME})|=(?:VALUE|ANY)| (?:VALUE|ANY)(?:\.\.\.)?|\.\.\.)?"
    r"|-[A-Za-z0-9?](?:VALUE|ANY))$"
)
"""The form of a flag's text, as JSON Schema has it too."""

_SHORT_ATTACHED: Final = re.compile(r"(-[A-Za-z0-9?])(?:VALUE|ANY)", re.ASCII)
_TEXT: Final = re.compile(FLAG_TEXT, re.ASCII)
_PARTS: Final = re.compile(
    r"(?P<on>[^=/ ]+?)"
    r"(?:/(?P<off>.+)|(?P<joined>[= ])(?P<value>VALUE|ANY)(?P<many>\.\.\.)?|(?P<count>\.\.\.))?"
)
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*", re.ASCII)
_POSITIONAL: Final = re.compile(r"(?P<name>[^\s]+)(?: (?P<any>ANY))?")
_WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag. `joined` stands between it and its value: `=`, nothing or a blank; None for a switch."""

    on: str
    off: str | None = None
    joined: str | None = None
    takes_any: bool = False
    many: bool = False
    counts: bool = False

    @classmethod
    def parse(cls, text: str) -> Flag | None:
        """The flag of a text; None when it is no such text."""
        if not _TEXT.fullmatch(text):
            return None
        if short := _SHORT_ATTACHED.fullmatch(text):
            return cls(short[1], joined="")
        parts = _PARTS.fullmatch(text)
        assert parts  # noqa: S101 - what the form allows has these parts
        takes_any = parts["value"] == "ANY"
        return cls(
            parts["on"], parts["off"], parts["joined"], takes_any, bool(parts["many"]), bool(parts["count"])
        )

    @classmethod
    def usual(cls, name: str, *, switch: bool) -> Flag | None:
        """The flag of a parameter that nothing is said of; None when its name cannot be one."""
        if not _PLAIN_NAME.fullmatch(name):
            return None
        on = f"-{name}" if len(name) == 1 else f"--{name.replace('_', '-')}"
        return cls(on, joined=None if switch else "" if len(name) == 1 else "=")


@dataclass(frozen=True, slots=True)
class Positional:
    """A parameter by its place; `takes_any` when the program takes whatever stands there."""

    name: str
    takes_any: bool = False


@dataclass(frozen=True, slots=True)
class Calling:
    """How a program is called: a word that comes first, flags by their parameters, then what has a place."""

    flags: Mapping[str, Flag]
    positionals: tuple[Positional, ...] = ()
    subcommand: str | None = None


def read_calling(
    config: Mapping[str, Any], schema: Mapping[str, Any] | None, *, elsewhere: frozenset[str] = frozenset()
) -> tuple[Calling, list[tuple[str, str]]]:
    """How a configuration calls its program, and what is wrong: a place in it, and a sentence.

    `elsewhere` are parameters that a template passes, so that they need no flag.
    """
    problems: list[tuple[str, str]] = []
    properties = (schema or {}).get("properties")
    properties = properties if isinstance(properties, dict) else {}
    positionals = tuple(_positionals(config.get("positionals", []), properties, problems))
    by_place = {each.name for each in positionals}
    texts = dict(_texts(config.get(FLAGS, {}), properties, by_place, problems))
    names = [name for name in properties if name not in by_place and (name in texts or name not in elsewhere)]
    flags = dict(_flags(names, texts, properties, problems))
    subcommand = _subcommand(config, problems)
    if config.get(ARGUMENTS) != FLAGS:
        problems.append((ARGUMENTS, f"expected {FLAGS}, found {config.get(ARGUMENTS)!r:.80}"))
    return Calling(flags, positionals, subcommand), problems


def _subcommand(config: Mapping[str, Any], problems: list[tuple[str, str]]) -> Any:
    subcommand = config.get("subcommand")
    if subcommand is not None and not (isinstance(subcommand, str) and _WORD.fullmatch(subcommand)):
        problems.append(("subcommand", f"expected one word, found {subcommand!r:.80}"))
    return subcommand


def _texts(
    given: Any, properties: Mapping[str, Any], by_place: Collection[str], problems: list[tuple[str, str]]
) -> Iterator[tuple[str, Any]]:
    """The text of each flag; one of no parameter, or of one that has a place, is a problem."""
    if not isinstance(given, dict):
        problems.append((FLAGS, f"expected a mapping, found {type(given).__name__}"))
        return
    for name, text in given.items():
        if name not in properties or name in by_place:
            why = "which has a place" if name in by_place else "which config_schema does not declare"
            problems.append((f"{FLAGS}.{name}", f"expected a parameter that becomes a flag, found one {why}"))
        yield name, text


def _positionals(
    given: Any, properties: Mapping[str, Any], problems: list[tuple[str, str]]
) -> Iterator[Positional]:
    if not isinstance(given, list):
        problems.append(("positionals", f"expected a list, found {type(given).__name__}"))
        return
    seen: set[str] = set()
    for number, text in enumerate(given):
        place = f"positionals[{number}]"
        found = _POSITIONAL.fullmatch(text) if isinstance(text, str) else None
        name = found["name"] if found else None
        if found is None or name is None or name in seen or (name != SEPARATOR and name not in properties):
            what = f"{SEPARATOR}, or a parameter of config_schema, each once"
            problems.append((place, f"expected {what}, found {text!r:.80}"))
            continue
        seen.add(name)
        yield Positional(name, found["any"] is not None or SEPARATOR in seen)


def _flags(
    names: list[str],
    texts: Mapping[str, Any],
    properties: Mapping[str, Any],
    problems: list[tuple[str, str]],
) -> Iterator[tuple[str, Flag]]:
    for name in names:
        place, text = f"{FLAGS}.{name}", texts.get(name)
        switch = isinstance(properties[name], dict) and properties[name].get("type") == "boolean"
        if text is None:
            flag = Flag.usual(name, switch=switch)
            expected = "the flag of a parameter whose name cannot be one"
        else:
            flag = Flag.parse(text) if isinstance(text, str) else None
            expected = "a flag such as --dry-run, --color/--no-color, -v..., --name=VALUE or --name VALUE"
        if flag is None:
            problems.append((place, f"expected {expected}, found {text!r:.80}"))
        elif flag.joined is None and not flag.counts and not switch:
            problems.append((place, f"expected a flag with VALUE, or type: boolean, found {text!r:.80}"))
        else:
            yield name, flag
