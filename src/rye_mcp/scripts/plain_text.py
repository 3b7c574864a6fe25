"""Shell, Perl and Ruby scripts, and what programs print with `--help`: searched as text, nothing is run.

In a shell script, the bodies of functions are left out, since `$1` is something else there; that of `main`
is not if it gets `"$@"`. In a help text, an option is a line that begins with its flag; a positional stands
in the usage, in capitals or brackets, or below `arguments:`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from rye_mcp.scripts.declared import (
    REST,
    TEXTS,
    Declared,
    Option,
    described,
    flag_option,
    letter_options,
    parameter_name,
    short_options,
    text_of,
)

__all__ = [
    "first_comment",
    "read_help",
    "read_perl_script",
    "read_ruby_script",
    "read_shell_script",
    "sourced_files",
]

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


def read_shell_script(text: str) -> Declared:
    """Read the script's arguments."""
    code = _COMMENT.sub("", text)
    about = first_comment(text)
    code = _without_functions(code)
    if found := _GETOPTS.search(code):
        options = list(_getopts(code, found[2]))
        rest = code[found.end() :]
        return Declared("getopts", (*options, *_places(_without_loops(rest))), True, about)
    if found := _GETOPT.search(code):
        options = list(_getopt(found))
        return Declared("getopt", (*options, REST), True, about)
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
        if takes or not _is_about_itself(body, letter):
            yield _letter(letter, (_TAKES if takes else _SETS).search(body), takes=takes)


def _letter(letter: str, found: re.Match[str] | None, *, takes: bool) -> Option:
    """The option of a letter, named after the variable that its branch sets."""
    option = flag_option(f"-{letter}", takes=takes)
    if found is None:
        return option
    many = takes and found[2]
    return replace(option, name=parameter_name(found[1]).lower(), schema=TEXTS if many else option.schema)


def _is_about_itself(body: str, letter: str) -> bool:
    return bool(_ABOUT.search(body)) and (letter in "hV?" or not _SETS.search(body))


def _getopt(found: re.Match[str]) -> Iterator[Option]:
    longs = _LONG.search(found[0])
    for name in (longs[2] if longs else "").split(","):
        if bare := name.rstrip(":"):
            takes = name.endswith(":")
            yield flag_option(f"--{bare}", takes=takes)
    if longs is None:
        yield from letter_options(found[2])


def _cases(code: str) -> tuple[list[Option], bool]:
    """The flags of a loop over `$1`, and whether it knows `--`."""
    options: dict[str, Option] = {}
    branches = list(_branches(code))
    for patterns, body in branches:
        option = _case([each for each in patterns if each != "--" and _FLAG.fullmatch(each)], body)
        if option is not None and (option.name not in options or (option.flag or "").endswith("=VALUE")):
            options[option.name] = option
    return list(options.values()), any("--" in patterns for patterns, _ in branches)


def _case(flags: list[str], body: str) -> Option | None:
    """The option of one branch; None for what is no flag, or asks for help."""
    if not flags or (_is_about_itself(body, flags[0].strip("-")[:1]) and "$2" not in body):
        return None
    option = _flag_of_case(flags, body)
    return None if option.is_about_itself else option


def _flag_of_case(flags: list[str], body: str) -> Option:
    flag = max(flags, key=len) if any(each.startswith("--") for each in flags) else flags[0]
    name = parameter_name(flag.removesuffix("=*"))
    takes = _TAKES.search(body) if re.search(r"\$\{?2\b|=\*", body + flag) else None
    if flag.endswith("=*"):
        return Option(name, f"{flag.removesuffix('=*')}=VALUE")
    if takes is not None or re.search(r"\$\{?2\b", body):
        return Option(name, f"{flag} ANY", TEXTS if takes and takes[2] else {"type": "string"})
    return Option(name, flag, {"type": "boolean"})


def _places(code: str, *, plain: bool = False) -> Iterator[Option]:
    """`$1` and the following, by what they are assigned to; with `plain`, no flag stands before them."""
    found: dict[int, Option] = {}
    code = re.sub(r"\bset\s+--[^\n]*|\bawk\b[^\n']*'[^']*'|'[^'\n]*'", "", code)
    for each in _PLACE.finditer(code):
        number = int(each[2] or each[5])
        name = parameter_name(each[1]).lower() if each[1] else f"arg{number}"
        known = found.setdefault(number, Option(name, None, required=True, takes_any=plain))
        name = name if each[1] and known.name.startswith("arg") else known.name
        required = known.required and not _may_be_missing(each, code)
        found[number] = replace(known, name=name, required=required)
    yield from (found[number] for number in sorted(found))
    if _ALL.search(code):
        yield REST


def _may_be_missing(found: re.Match[str], code: str) -> bool:
    """Whether a place has a default, or is compared with nothing."""
    has_default = found[3] is not None and "?" not in found[3]
    return has_default or code[found.end() : found.end() + 8].lstrip('"} ').startswith(("]", "=="))


def _caught(code: str) -> Iterator[Option]:
    """Yield the argument that the last branch of a loop handles: one that is no flag."""
    for patterns, body in _branches(code):
        takes = _TAKES.search(body) if patterns == ["*"] else None
        if takes is not None and "exit" not in body:
            schema = TEXTS if takes[2] or "=(" in body else {"type": "string"}
            yield Option(parameter_name(takes[1]).lower(), None, schema)
            return


_PERL_LONG: Final = re.compile(r"\bGetOptions(?:FromArray)?\s*\((.*?)\)\s*(?:or|\|\||;|and|&&)", re.S)
_PERL_SPEC: Final = re.compile(
    r"(['\"])([\w|?-]+)((?:[=:][sifo][@%]?|[!+]|:\d+)?(?:\{[\d,]*\})?)\1\s*(?:=>|,)"
)
_PERL_WORDS: Final = re.compile(r"\bqw\s*([\[({/<])(.{0,4000}?)[\])}/>]", re.S)
_PLAIN_SPEC: Final = re.compile(r"([\w|?-]+)([=:]\S+|[!+])?")
_PERL_STD: Final = re.compile(r"\bgetopts?\s*\(\s*(['\"])([\w:]+)\1")
_RUBY: Final = re.compile(r"\.on\(\s*((?:(['\"])(?:[^'\"\\\n]|\\.)*\2\s*,?\s*)+)")


def read_perl_script(text: str) -> Declared:
    """Read a Perl script's arguments."""
    text = text.partition("\n__END__")[0]
    code = re.sub(r"(?m)^=\w+.*?^=cut$", "", re.sub(r"(?m)(?<!\S)#.*$", "", text), flags=re.S | re.M)
    about = first_comment(text)
    rest = (REST,) if re.search(r"@ARGV|<>|\$ARGV\[|<ARGV>|\bshift\s*(?:;|\|\||or\b|\(\))", code) else ()
    if found := _PERL_LONG.search(code):
        return Declared("Getopt::Long", (*_perl_long(found[1]), *rest), True, about)
    if found := _PERL_STD.search(code):
        return Declared("Getopt::Std", (*letter_options(found[2]), *rest), True, about)
    return Declared("@ARGV" if rest else "nothing", rest, description=about)


def _perl_long(code: str) -> Iterator[Option]:
    given = [(spec[2], spec[3]) for spec in _PERL_SPEC.finditer(code)]
    listed = [word for found in _PERL_WORDS.finditer(code) for word in found[2].split()]
    given += [(spec[1], spec[2] or "") for word in listed if (spec := _PLAIN_SPEC.fullmatch(word))]
    for text, kind in given:
        names = text.split("|")
        name = next((each for each in names if len(each) > 1), names[0])
        yield Option(parameter_name(name), *_flag_of_spec(name, kind))


def _flag_of_spec(name: str, kind: str) -> tuple[str, dict[str, Any]]:
    """The flag and the schema of a specification such as `name=s@`, by what stands behind its name."""
    simple: dict[str, tuple[str, dict[str, Any]]] = {
        "": ("", {"type": "boolean"}),
        "!": (f"/--no-{name}", {"type": "boolean"}),
        "+": ("...", {"type": "integer", "minimum": 0}),
    }
    if kind in simple:
        end, schema = simple[kind]
        return f"--{name}{end}", schema
    one: dict[str, Any] = {"type": {"i": "integer", "f": "number"}.get(kind[1], "string")}
    return f"--{name}=VALUE", {"type": "array", "items": one} if {*"@%"} & {*kind} else one


def read_ruby_script(text: str) -> Declared:
    """Read a Ruby script's arguments."""
    given = ([each[1] for each in re.findall(r"(['\"])(.*?)\1", found[1])] for found in _RUBY.finditer(text))
    options = list(filter(None, (_ruby_option(texts) for texts in given if texts)))
    rest = (REST,) if "ARGV" in text else ()
    reader = "OptionParser" if options else "ARGV" if rest else "nothing"
    return Declared(reader, (*options, *rest), bool(options), first_comment(text))


def _ruby_option(texts: list[str]) -> Option | None:
    """The option of the texts of one `on`: its flags, and what it is for."""
    usage = next((each for each in texts if each.startswith("--")), texts[0])
    about = "" if texts[-1].startswith("-") else texts[-1]
    found = re.match(r"(--?(?:\[no-\])?[A-Za-z][\w-]*)(?:[ =]?\[?=?([A-Za-z_<][\w<>,. ]*)\]?)?", usage)
    if not found:
        return None
    flag = found[1].replace("[no-]", "")
    if found[2]:
        return flag_option(flag, takes=True, about=about)
    off = f"/--no-{flag.removeprefix('--')}" if "[no-]" in found[1] else ""
    return Option(parameter_name(flag), flag + off, described({"type": "boolean"}, about))


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
_HELP_PLACE: Final = re.compile(r"(\[?)<?([A-Za-z][\w-]*)>?\]?(?:[ ]?\[\2)?\]?[ ]?(\.{3})?")
_WORDS_FOR_FLAGS: Final = frozenset({"options", "option", "flags", "command", "commands"})
_STARTS: Final = frozenset({"python", "python3", "node", "bash", "sh", "perl", "ruby", "npx", "tsx"})


def read_help(text: str) -> Declared:
    """The flags of a help text, whose values are attached to them, and its positionals."""
    options = {each.name: each for each in _options(text)}
    places = {each.name: each for each in _help_places(text) if each.name not in options}
    remark = "read from --help: look at config and config_schema"
    return Declared("--help", (*options.values(), *places.values()), remarks=(remark,))


def _options(text: str) -> Iterator[Option]:
    for line in text.split("\n"):
        found = _LINE.match(line)
        flag = found and (found[3] or found[1])
        if not found or not flag:
            continue
        option = flag_option(flag, takes=bool(found[2] or found[5] or found[6]), about=found[7])
        if not option.is_about_itself:
            yield option


def _help_places(text: str) -> Iterator[Option]:
    """The positionals in the order of the usage; of the section about them, where there is no usage."""
    section = _SECTION.search(text)
    told = {found[1]: found[2] or "" for found in _ARGUMENT.finditer(section[1])} if section else {}
    usage = _USAGE.search(text)
    if usage is None:
        yield from (_help_place(name, about) for name, about in told.items())
        return
    for found in _HELP_PLACE.finditer(_FLAGS.sub(" ", _without_program(usage[1]))):
        if found[2] in told or _is_place(found[2], found[0]):
            yield _help_place(found[2], told.get(found[2], ""), many=bool(found[3]), optional=bool(found[1]))


def _is_place(name: str, shown: str) -> bool:
    """Whether a word of a usage looks like what stands for an argument."""
    return (name.isupper() or shown.startswith(("[", "<"))) and name.lower() not in _WORDS_FOR_FLAGS


def _without_program(usage: str) -> str:
    """A usage without the name of the program, and what starts it."""
    first, _, rest = usage.partition(" ")
    if first.rpartition("/")[2] in _STARTS:
        rest = rest.lstrip().partition(" ")[2]
    return rest


def _help_place(name: str, about: str, *, many: bool = False, optional: bool = False) -> Option:
    schema = described(TEXTS if many else {"type": "string"}, about)
    return Option(parameter_name(name).lower(), None, schema, not optional)
