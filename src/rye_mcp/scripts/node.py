"""parseArgs, commander, yargs, minimist and `process.argv` in JavaScript and TypeScript: read as text.

Nothing is run. Calls are found by their names and read up to the closing bracket, with strings as they stand;
what is put together out of variables is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import zip_longest
from typing import Any, Final

from rye_mcp.scripts.declared import (
    REST,
    TEXTS,
    Declared,
    Option,
    described,
    flag_option,
    parameter_name,
    text_of,
    with_value,
)
from rye_mcp.scripts.plain_text import first_comment

__all__ = ["imported_packages", "read_node_script"]

_STRING: Final = (
    r"(?:'((?:[^'\\\n]|\\.){0,2000})'|\"((?:[^\"\\\n]|\\.){0,2000})\"|`((?:[^`\\$]|\\.){0,4000})`)"
)
"""A text, up to a length: where many begin and none ends, each is looked through no further than that."""

_TEXT: Final = re.compile(_STRING)
_COMMENTS: Final = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?\*/", re.S)
_IMPORT: Final = re.compile(r"\b(?:from|import|require\(|import\()\s*(['\"])([^'\"\n]+)\1")
_BRACKET: Final = re.compile(rf"{_STRING}|[()\[\]{{}}]")
_MAX_CALL: Final = 16 << 10
"""How many characters the arguments of one call may have."""

_MEMBER: Final = re.compile(r"(?:\A|[{,])\s*(?:'([^']+)'|\"([^\"]+)\"|([\w$]+))\s*:\s*")
_USAGE: Final = re.compile(r"(?:(-\w)\b)?(?:[,\s|]+(?=-))?(--?[A-Za-z][\w-]*)?(?:[ =]([<\[])([^>\]]+)[>\]])?")
_BUILT_IN: Final = frozenset(
    re.findall(
        r"\w+",
        "assert async_hooks buffer child_process cluster console constants crypto dgram dns domain events fs "
        "http http2 https inspector module net os path perf_hooks process punycode querystring readline repl "
        "stream string_decoder sys timers tls trace_events tty url util v8 vm wasi worker_threads zlib",
    )
)


def imported_packages(text: str) -> frozenset[str]:
    """Return the imports of a script that Node.js does not bring along: packages, and files (`./…`)."""
    names = {found[2] for found in _IMPORT.finditer(_plain(text))}
    packages = {each for each in names if not each.startswith(("/", "node:", "#", "-"))}
    firsts = {
        "/".join(each.split("/")[: 2 if each[0] == "@" else 1]) if each[0] != "." else each
        for each in packages
    }
    return frozenset(each for each in firsts if each not in _BUILT_IN and re.fullmatch(r"[@\w./-]+", each))


def read_node_script(text: str, subcommand: str | None) -> Declared:
    """Read the script's arguments."""
    code = _plain(text)
    packages = imported_packages(text)
    readers: tuple[tuple[bool, Callable[[str, str | None], Declared | None]], ...] = (
        ("parseArgs" in code, _parse_args),
        ("commander" in packages, _commander),
        ("yargs" in packages, _yargs),
        (bool(packages & {"minimist", "mri", "yargs-parser"}), _minimist),
        ("process.argv" in code or "Deno.args" in code, _argv),
    )
    found = next((each for fits, read in readers if fits and (each := read(code, subcommand))), None)
    found = found or Declared("nothing")
    return replace(found, description=first_comment(text) or found.description)


def _plain(text: str) -> str:
    """The source without its comments."""
    return _COMMENTS.sub(lambda each: each[0] if each[0][0] in "'\"`" else " ", text)


def _inside(code: str, start: int) -> str:
    """Return the text between the bracket at `start` and its closing one; empty if none follows soon."""
    depth = 0
    for each in _BRACKET.finditer(code, start, start + _MAX_CALL):
        depth += (each[0] in "([{") - (each[0] in ")]}")
        if depth == 0:
            return code[start + 1 : each.start()]
    return ""


def _members(code: str) -> Iterator[tuple[str, str]]:
    """The members of an object literal: their names, and their source."""
    at = 0
    while found := _MEMBER.search(code, at):
        begin = found.end()
        end = _end_of_value(code, begin)
        yield found[1] or found[2] or found[3], code[begin:end].strip()
        at = max(end, begin)


def _end_of_value(code: str, at: int) -> int:
    while at < len(code) and code[at] != ",":
        if code[at] in "'\"`" and (string := _TEXT.match(code, at)):
            at = string.end()
        elif code[at] in "([{":
            at += len(_inside(code, at)) + 2
        else:
            at += 1
    return at


def _texts(code: str) -> list[str]:
    return [_unquoted(found) for found in _TEXT.finditer(code)]


def _unquoted(found: re.Match[str]) -> str:
    raw = next(each for each in found.groups() if each is not None)
    return re.sub(r"\\(.)", lambda each: {"n": "\n", "t": "\t"}.get(each[1], each[1]), raw)


def _text(code: str) -> str:
    found = _TEXT.match(code.strip())
    return _unquoted(found) if found else ""


def _option(name: str, kind: str, about: str, *, many: bool = False, required: bool = False) -> Option:
    one: dict[str, Any] = {"type": {"number": "number", "boolean": "boolean"}.get(kind, "string")}
    schema = {"type": "array", "items": one} if many else one
    flag = f"-{name}" if len(name) == 1 else f"--{name}"
    flag = flag if kind == "boolean" else with_value(flag)
    return Option(parameter_name(name), flag, described(schema, about), required)


def _parse_args(code: str, subcommand: str | None) -> Declared | None:
    found = re.search(r"\bparseArgs\s*\(", code)
    whole = _inside(code, found.end() - 1) if found else ""
    given = dict(_members(whole.strip().removeprefix("{"))) if "{" in whole else {}
    options = given.get("options", "")
    if not options.startswith("{"):
        named = re.search(
            r"\b(?:const|let|var)\s+" + re.escape(options or "options") + r"[^=\n]*=\s*\{", code
        )
        options = "{" + _inside(code, named.end() - 1) if named else ""
    read = [each for member in _members(options.removeprefix("{")) for each in _parse_args_option(*member)]
    if given.get("allowPositionals", "").startswith("true") or "strict: false" in whole:
        read.append(REST)
    return Declared("parseArgs", tuple(read), separates=True)


def _parse_args_option(name: str, source: str) -> Iterator[Option]:
    facts = dict(_members(source.removeprefix("{").removesuffix("}")))
    default = _text(facts.get("default", ""))
    if kind := _text(facts.get("type", "")):
        about = f"(default: {default})" if default else ""
        yield _option(name, kind, about, many=facts.get("multiple") == "true")


def _commander(code: str, subcommand: str | None) -> Declared | None:
    main, *parts = re.split(r"\.command\(", code)
    commands = {words[0]: part for part in parts if (words := _usage_of(part))}
    options: list[Option] = []
    code = main
    if subcommand in commands:
        code = commands[subcommand]
        options = [_place(word) for word in _usage_of(code)[1:]]
        code = code.partition(")")[2]
    about = ""
    for found in re.finditer(r"\.(option|requiredOption|argument|arguments|description)\s*\(", code):
        texts = _texts(_inside(code, found.end() - 1))
        if found[1] == "description":
            about = about or "".join(texts[:1])
        elif texts:
            options += _commander_options(found[1], texts)
    return Declared("commander", tuple(options), True, text_of(about), tuple(commands))


def _usage_of(part: str) -> list[str]:
    """The words of `.command("name <place>")`, behind its bracket; none where no text stands there."""
    return _text(part).split()


def _commander_options(kind: str, texts: list[str]) -> Iterator[Option]:
    if kind in ("argument", "arguments"):
        yield from (_place(word, *texts[1:2]) for word in texts[0].split())
    elif option := _usage(texts[0], "".join(texts[1:2]), kind == "requiredOption"):
        yield option


def _place(word: str, about: str = "") -> Option:
    many = "..." in word
    schema = described(TEXTS if many else {"type": "string"}, about)
    return Option(parameter_name(word.strip("<>[].")), None, schema, not word.startswith("["))


def _usage(text: str, about: str, required: bool) -> Option | None:
    """The option of a text such as `-n, --name <name>`."""
    found = _USAGE.match(text.strip())
    flag = found and (found[2] or found[1])
    if not found or not flag:
        return None
    if not found[3]:
        return flag_option(flag, takes=False, about=about)
    schema = described(TEXTS if "..." in found[4] else {"type": "string"}, about)
    return Option(parameter_name(flag), with_value(flag), schema, required)


def _yargs(code: str, subcommand: str | None) -> Declared | None:
    options: dict[str, Option] = {}
    for found in re.finditer(r"\.(option|positional|options)\s*\(", code):
        inside = _inside(code, found.end() - 1)
        members = list(_members(inside.strip().removeprefix("{"))) if found[1] == "options" else []
        if found[1] != "options" and _TEXT.match(inside.strip()):
            members = [(_text(inside), "{" + inside.partition("{")[2])]
        for name, source in members:
            option = _yargs_option(name, source)
            options[name] = replace(option, flag=None) if found[1] == "positional" else option
    commands = tuple(
        _texts(each[0])[0].split()[0]
        for each in re.finditer(rf"\.command\(\s*{_STRING}", code)
        if not _texts(each[0])[0].startswith(("$0", "*", "<", "["))
    )
    rest = [REST] if re.search(r"argv\._\b|\b_\s*[,:}]", code) else []
    return Declared("yargs", (*options.values(), *rest), True, subcommands=commands)


def _yargs_option(name: str, source: str) -> Option:
    facts = dict(_members(source.removeprefix("{").removesuffix("}")))
    kind = _text(facts.get("type", "")) or ("boolean" if facts.get("boolean") == "true" else "string")
    about = _text(facts.get("describe") or facts.get("description") or facts.get("desc") or "")
    required = any(facts.get(each) == "true" for each in ("demandOption", "required", "demand"))
    option = _option(
        name, kind, about, many=kind == "array" or facts.get("array") == "true", required=required
    )
    choices = _texts(facts.get("choices", ""))
    return replace(option, schema={**option.schema, "enum": choices}) if choices else option


def _minimist(code: str, subcommand: str | None) -> Declared | None:
    found = re.search(r"(?:\b(\w+)|\{([^{}]*)\})\s*=\s*\w+\(\s*process\.argv\.slice\(2\)\s*(,\s*\{)?", code)
    if not found:
        return None
    given = dict(_members(_inside(code, found.end() - 1))) if found[3] else {}
    switches = set(_texts(given.get("boolean", "")))
    members = _members(given.get("alias", "").removeprefix("{"))
    aliases = {alias for _, source in members for alias in _texts(source)}
    names = [*switches, *_texts(given.get("string", "")), *_members_used(code, found[1])]
    options = [
        _option(name, "boolean" if name in switches else "string", "")
        for name in dict.fromkeys(names)
        if name not in aliases
    ]
    has_rest = found[1] is not None and re.search(rf"\b{re.escape(found[1])}\._", code)
    rest = [REST] if has_rest else []
    return Declared("minimist", (*options, *rest), separates=True)


def _members_used(code: str, name: str | None) -> list[str]:
    """The members of an object that the code uses: `argv.port`, `argv["dry-run"]`."""
    if name is None:
        return []
    plain = re.findall(rf"\b{re.escape(name)}\.([A-Za-z][\w]*)\b(?!\s*\()", code)
    return [*plain, *re.findall(rf"\b{re.escape(name)}\[['\"]([\w-]+)['\"]\]", code)]


# --- the bare list ---

_FLAGS: Final = re.compile(r"(?:case|===?|includes\(|indexOf\()\s*(['\"])(--?[A-Za-z][\w-]*)\1")
_ATTACHED: Final = re.compile(r"startsWith\(\s*(['\"])(--[A-Za-z][\w-]*)=\1")
_NEXT: Final = re.compile(r"\[\s*(?:\+\+\s*\w+|\w+\s*\+\s*1|\w+\s*\+=\s*1)\s*\]|\.shift\(\)|\.next\(\)")
_COLLECTED: Final = re.compile(r"\belse\s*\{?\s*(\w+)\.push\(")
_TAKEN: Final = r"(?:\b(\w+)|\[([\w\s,=.'\"]+)\])(?:\s*:\s*[\w\[\]]+)?\s*=\s*process\.argv"
_SLICED: Final = re.compile(_TAKEN + r"\.slice\(2\)")
_WHOLE: Final = re.compile(_TAKEN + r"(?=[ \t]*(?:;|$))", re.MULTILINE)


def _argv(code: str, subcommand: str | None) -> Declared | None:
    """Flags that are compared with texts, and what is taken by its place."""
    options: dict[str, Option] = {}
    for found, flag in _compared_flags(code):
        option = _compared(code, found, flag)
        if not option.is_about_itself:
            options.setdefault(option.name, option)
    for found in _ATTACHED.finditer(code):
        options[parameter_name(found[2])] = Option(parameter_name(found[2]), f"{found[2]}=VALUE")
    places = list(_places(code))
    if options:
        places = [replace(each, takes_any=False) for each in places]
    separates = bool(re.search(r"(?:case|===?)\s*(['\"])--\1", code))
    return Declared("process.argv", (*options.values(), *places), separates)


def _compared_flags(code: str) -> Iterator[tuple[re.Match[str], str]]:
    """The last of several names of one flag that are compared in a row, and the longest of them."""
    names: list[str] = []
    matches = list(_FLAGS.finditer(code))
    for found, behind in zip_longest(matches, matches[1:]):
        names.append(found[2])
        between = "" if behind is None else code[found.end() : behind.start()]
        if behind is None or not re.fullmatch(r"\)?\s*(?:\|\|\s*[\w.\[\]]+[\s.]*|:\s*|,\s*)", between):
            yield found, max(names, key=len)
            names = []


def _compared(code: str, found: re.Match[str], flag: str) -> Option:
    """Whether a flag that is looked for takes the argument behind it."""
    name = parameter_name(flag)
    behind = code[found.end() : found.end() + 160]
    behind = re.split(r"\bcase\b|\belse\b|\bbreak\b|\bincludes\(|\bindexOf\(|===?\s*['\"]-", behind)[0]
    index = re.search(
        r"(?:const|let|var)\s+(\w+)\s*=\s*[\w.]*(?:\.slice\(2\))?$", code[: found.start()].rstrip(".")[-80:]
    )
    by_index = index and "indexOf" in found[0] and re.search(rf"\[\s*{index[1]}\s*\+\s*1\s*\]", code)
    takes = by_index or ("includes" not in found[0] and _NEXT.search(behind))
    if not takes:
        return Option(name, flag, {"type": "boolean"})
    number = re.search(r"\b(?:Number|parseInt|parseFloat)\(", behind)
    return Option(name, f"{flag} ANY", {"type": "number" if number else "string"})


def _places(code: str) -> Iterator[Option]:
    """Yield positional arguments: from a list in brackets, by a number, or all that are left."""
    sliced = _SLICED.search(code)
    taken = sliced or _WHOLE.search(code)
    found = dict(_by_place(code, taken, 0 if sliced else 2))
    yield from (found[number] for number in sorted(found))
    if sliced and sliced[1] and not found and not re.search(r"indexOf|includes", code):
        collected = _COLLECTED.search(code)
        yield Option(parameter_name(collected[1]) if collected else "args", None, TEXTS)


def _by_place(code: str, taken: re.Match[str] | None, first: int) -> Iterator[tuple[int, Option]]:
    """The places that have a number; the last one for a number counts."""
    if taken and taken[1]:
        yield from _first_of_each(_by_number(code, rf"(?<!\.){re.escape(taken[1])}", first))
    yield from _first_of_each(_by_number(code, r"process\.argv", 2))
    if taken and taken[2]:
        yield from _in_brackets(taken[2], first)


def _first_of_each(pairs: Iterator[tuple[int, Option]]) -> Iterator[tuple[int, Option]]:
    return iter(dict(reversed(list(pairs))).items())


def _in_brackets(names: str, first: int) -> Iterator[tuple[int, Option]]:
    """The places of `[source, target = "."] = process.argv.slice(2)`; the arguments begin at `first`."""
    for number, part in enumerate(names.split(",")[first:] if names else ()):
        name, _, default = part.strip().partition("=")
        many = name.startswith("...")
        schema = TEXTS if many else {"type": "string"}
        required = not default and not many
        called = parameter_name(name.strip(" .\n")) if name.strip() else f"arg{number + 1}"
        yield number, Option(called, None, schema, required, takes_any=True)


def _by_number(code: str, source: str, first: int) -> Iterator[tuple[int, Option]]:
    """The places of `const name = process.argv[2]`; `first` is the number of the first argument."""
    assigned = r"(?:(?:const|let|var)\s+(\w+)[^=\n;]{0,100}=\s*(Number|parseInt|parseFloat)?\(?\s*)?"
    for each in re.finditer(rf"{assigned}\b{source}\[(\d+)\](\s*(?:\|\||\?\?|\?))?", code):
        number = int(each[3]) - first
        if number >= 0:
            schema = {"type": "number" if each[2] else "string"}
            name = parameter_name(each[1]) if each[1] else f"arg{number + 1}"
            yield number, Option(name, None, schema, not each[4], takes_any=True)
