"""`getopts`, `getopt`, `while … case` and `$1` in a shell script: read line by line, as far as it is plain.

Nothing is run. The bodies of functions are left out, since `$1` is something else there; those of `main` are
not when it gets `"$@"`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from rye_mcp.scripts.declared import Declared, Option, parameter_name, short_options, text_of

__all__ = ["first_comment", "read_shell_script", "sourced_files"]

_GETOPTS: Final = re.compile(r"\bgetopts\s+(['\"]?)([:A-Za-z0-9?]+)\1\s+(\w+)")
_GETOPT: Final = re.compile(r"\bgetopt\s[^\n]*?(?:-o|--options)[= ]?\s*(['\"]?)([:A-Za-z0-9+-]*)\1[^\n]*")
_LONG: Final = re.compile(r"(?:-l|--long(?:options)?)[= ]?\s*(['\"]?)([\w:,-]+)\1")
_FUNCTION: Final = re.compile(
    r"^([ \t]*)(?:function[ \t]+)?([\w:-]+)[ \t]*(?:\(\))?[ \t]*\{[ \t]*(?:#.*)?\n(.*?)^\1\}", re.M | re.S
)
_LOOP: Final = re.compile(r"^([ \t]*)(?:while|until|for)\b(.*?)^\1done\b", re.M | re.S)
_TAKES_FLAGS: Final = re.compile(r"\bshift\b|\bgetopts\b|^\s*\w+\s+in\s+\"?\$[@*].*\bcase\b", re.S)
_BRANCH: Final = re.compile(
    r"(?:^|;;&?|\bin\b)[ \t]*(?:\([ \t]*)?([^\s()#;][^()\n;]*?)[ \t]*\)(.{0,4000}?)(?=;;|\besac\b)",
    re.M | re.S,
)
_TAKES: Final = re.compile(
    r"\b(\w+)(\+?)=\(?[\"']?[^\s\"'$=]*=?\$(?:\{(?:2|1|OPTARG)\b[^}]*\}|2\b|1\b|OPTARG\b)"
)
_SETS: Final = re.compile(r"^[ \t]*(?:local\s+|declare\s+|export\s+|let\s+)?(\w+)(?:=|\+\+)", re.M)
_PLACE: Final = re.compile(
    r"(?:(?<![\w$])(\w+)=)?[\"']?\$(?:\{([1-9])(?:(:?[-?=+])([^}]*))?[^}]*\}|([1-9])(?![0-9]))"
)
_ALL: Final = re.compile(r"\$\{?[@*]|\bfor\s+\w+\s*(?:;\s*|\n\s*)?do\b")
_MAIN_CALL: Final = re.compile(r"^[ \t]*(?:exec\s+)?main\s+\"?\$\{?[@*]", re.M)
_COMMENT: Final = re.compile(r"(?m)(?<!\S)#.*$")
_ABOUT: Final = re.compile(r"\b(?:usage|help|print_help|show_help|version)\b", re.I)
_FLAG: Final = re.compile(r"--?[A-Za-z0-9][\w.-]*(=\*)?", re.ASCII)
_NO_WORDS: Final = re.compile(
    r"(?i)copyright|license|spdx|shellcheck|vim:|-\*-|!/|<?(?:eslint|jshint|@)|[^\w]+$"
)
_OWN_NAME: Final = re.compile(r"^[\w.-]+\s+(?:[-–—:]|--)\s+")  # noqa: RUF001 - dashes that people write
_SOURCES: Final = re.compile(
    r"^[ \t]*(?:source|\.)\s+[\"']?"
    r"(?:\$\(dirname[^)]*\)[\"']?|\$\{?\w*(?:DIR|HERE|dir|here)\w*\}?|\.)/([\w./-]+)",
    re.M,
)
_HEAD_LINES: Final = 40
_LIST: Final = {"type": "array", "items": {"type": "string"}}


def read_shell_script(text: str) -> Declared:
    """What the script says about its arguments."""
    code = _COMMENT.sub("", text)
    about = first_comment(text)
    code = _without_functions(code)
    if found := _GETOPTS.search(code):
        options = list(_getopts(code, found[2]))
        rest = code[found.end() :]
        return Declared("getopts", (*options, *_places(_without_loops(rest))), True, about)
    if found := _GETOPT.search(code):
        options = list(_getopt(found))
        return Declared("getopt", (*options, Option("args", None, _LIST)), True, about)
    options, separates = _cases(code)
    places = list(_places(_without_loops(code) if options else code, plain=not options))
    if options:
        places = [replace(each, required=False) for each in places] or list(_caught(code))
    reader = "case" if options else "places" if places else "nothing"
    return Declared(reader, (*options, *places), separates, about)


def sourced_files(text: str) -> frozenset[str]:
    """The files beside a script that it reads as code, as far as their names are plain: `./lib.sh`."""
    return frozenset(f"./{found[1]}" for found in _SOURCES.finditer(_COMMENT.sub("", text)))


def first_comment(text: str) -> str:
    """The first paragraph of comments of a script, below its first line."""
    words: list[str] = []
    for line in text.split("\n")[text.startswith("#!") :][:_HEAD_LINES]:
        bare = line.strip().lstrip("/#*").strip()
        is_comment = line.strip().startswith(("#", "//", "/*", "*"))
        if words and (not is_comment or not bare):
            break
        if is_comment and bare and not _NO_WORDS.match(bare):
            words.append(bare)
    return text_of(_OWN_NAME.sub("", " ".join(words)))


def _without_functions(code: str) -> str:
    calls_main = _MAIN_CALL.search(code)
    return _FUNCTION.sub(lambda found: found[3] if found[2] == "main" and calls_main else "\n", code)


def _without_loops(code: str) -> str:
    """The code without the loops that take flags, in which `$1` is one of these."""
    return _LOOP.sub(lambda found: "\n" if _TAKES_FLAGS.search(found[2]) else found[0], code)


def _branches(code: str) -> Iterator[tuple[list[str], str]]:
    """Each branch of a `case`: its patterns, and its body."""
    for found in _BRANCH.finditer(code):
        yield [each.strip().strip("'\"") for each in found[1].split("|")], found[2]


def _getopts(code: str, letters: str) -> Iterator[Option]:
    bodies = {pattern: body for patterns, body in _branches(code) for pattern in patterns}
    for letter, takes in short_options(letters):
        body = bodies.get(letter, "")
        found = _TAKES.search(body) if takes else _SETS.search(body)
        if not takes and _is_about_itself(body, letter):
            continue
        name = parameter_name(found[1]).lower() if found else letter
        many = bool(takes and found and found[2])
        schema: dict[str, Any] = {"type": "string" if takes else "boolean"}
        yield Option(name, f"-{letter}VALUE" if takes else f"-{letter}", _LIST if many else schema)


def _is_about_itself(body: str, letter: str) -> bool:
    return bool(_ABOUT.search(body)) and (letter in "hV?" or not _SETS.search(body))


def _getopt(found: re.Match[str]) -> Iterator[Option]:
    longs = _LONG.search(found[0])
    for name in (longs[2] if longs else "").split(","):
        if bare := name.rstrip(":"):
            takes = name.endswith(":")
            schema = {"type": "string" if takes else "boolean"}
            yield Option(parameter_name(bare), f"--{bare}=VALUE" if takes else f"--{bare}", schema)
    if longs is None:
        for letter, takes in short_options(found[2]):
            schema = {"type": "string" if takes else "boolean"}
            yield Option(letter, f"-{letter}VALUE" if takes else f"-{letter}", schema)


def _cases(code: str) -> tuple[list[Option], bool]:
    """The flags of a loop over `$1`, and whether it knows `--`."""
    options: dict[str, Option] = {}
    separates = False
    for patterns, body in _branches(code):
        separates = separates or "--" in patterns
        flags = [each for each in patterns if each != "--" and _FLAG.fullmatch(each)]
        if not flags or (_is_about_itself(body, flags[0].strip("-")[:1]) and "$2" not in body):
            continue
        option = _case(flags, body)
        if option.is_about_itself:
            continue
        known = options.get(option.name)
        if known is None or (option.flag or "").endswith("=VALUE"):
            options[option.name] = option
    return list(options.values()), separates


def _case(flags: list[str], body: str) -> Option:
    flag = max(flags, key=len) if any(each.startswith("--") for each in flags) else flags[0]
    name = parameter_name(flag.removesuffix("=*"))
    takes = _TAKES.search(body) if re.search(r"\$\{?2\b|=\*", body + flag) else None
    if flag.endswith("=*"):
        return Option(name, f"{flag.removesuffix('=*')}=VALUE")
    if takes is not None or re.search(r"\$\{?2\b", body):
        return Option(name, f"{flag} ANY", _LIST if takes and takes[2] else {"type": "string"})
    return Option(name, flag, {"type": "boolean"})


def _places(code: str, *, plain: bool = False) -> Iterator[Option]:
    """`$1` and the following, by what they are assigned to; with `plain`, no flag stands before them."""
    found: dict[int, Option] = {}
    code = re.sub(r"\bset\s+--[^\n]*|\bawk\b[^\n']*'[^']*'|'[^'\n]*'", "", code)
    for each in _PLACE.finditer(code):
        number = int(each[2] or each[5])
        optional = each[3] is not None and "?" not in each[3]
        optional = optional or code[each.end() : each.end() + 8].lstrip('"} ').startswith(("]", "=="))
        name = parameter_name(each[1]).lower() if each[1] else f"arg{number}"
        known = found.get(number)
        if known is None or (known.name.startswith("arg") and each[1]):
            required = not optional and (known is None or known.required)
            found[number] = Option(name, None, required=required, takes_any=plain)
        elif optional:
            found[number] = Option(known.name, None, required=False, takes_any=plain)
    yield from (found[number] for number in sorted(found))
    if _ALL.search(code):
        yield Option("args", None, _LIST)


def _caught(code: str) -> Iterator[Option]:
    """What the last branch of a loop does with an argument that is no flag."""
    for patterns, body in _branches(code):
        takes = _TAKES.search(body) if patterns == ["*"] else None
        if takes is not None and "exit" not in body:
            schema: dict[str, Any] = _LIST if takes[2] or "=(" in body else {"type": "string"}
            yield Option(parameter_name(takes[1]).lower(), None, schema)
            return
