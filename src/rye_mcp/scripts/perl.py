"""Getopt::Long, Getopt::Std and `@ARGV` in Perl, OptionParser in Ruby: read as text; nothing is run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from rye_mcp.scripts.declared import Declared, Option, parameter_name, short_options, text_of
from rye_mcp.scripts.shell import first_comment

__all__ = ["read_perl_script", "read_ruby_script"]

_LONG: Final = re.compile(r"\bGetOptions(?:FromArray)?\s*\((.*?)\)\s*(?:or|\|\||;|and|&&)", re.S)
_SPEC: Final = re.compile(r"(['\"])([\w|?-]+)((?:[=:][sifo][@%]?|[!+]|:\d+)?(?:\{[\d,]*\})?)\1\s*(?:=>|,)")
_WORDS: Final = re.compile(r"\bqw\s*([\[({/<])(.{0,4000}?)[\])}/>]", re.S)
_PLAIN_SPEC: Final = re.compile(r"([\w|?-]+)([=:]\S+|[!+])?")
_STD: Final = re.compile(r"\bgetopts?\s*\(\s*(['\"])([\w:]+)\1")
_RUBY: Final = re.compile(r"\.on\(\s*((?:(['\"])(?:[^'\"\\\n]|\\.)*\2\s*,?\s*)+)")
_LIST: Final = {"type": "array", "items": {"type": "string"}}
_REST: Final = Option("args", None, _LIST)


def read_perl_script(text: str) -> Declared:
    """What a Perl script says about its arguments."""
    text = text.partition("\n__END__")[0]
    code = re.sub(r"(?m)^=\w+.*?^=cut$", "", re.sub(r"(?m)(?<!\S)#.*$", "", text), flags=re.S | re.M)
    about = first_comment(text)
    rest = (_REST,) if re.search(r"@ARGV|<>|\$ARGV\[|<ARGV>|\bshift\s*(?:;|\|\||or\b|\(\))", code) else ()
    if found := _LONG.search(code):
        return Declared("Getopt::Long", (*_long(found[1]), *rest), True, about)
    if found := _STD.search(code):
        return Declared("Getopt::Std", (*_short(found[2]), *rest), True, about)
    return Declared("@ARGV" if rest else "nothing", rest, description=about)


def _long(code: str) -> Iterator[Option]:
    given = [(spec[2], spec[3]) for spec in _SPEC.finditer(code)]
    listed = [word for found in _WORDS.finditer(code) for word in found[2].split()]
    given += [(spec[1], spec[2] or "") for word in listed if (spec := _PLAIN_SPEC.fullmatch(word))]
    for text, kind in given:
        names = text.split("|")
        name = next((each for each in names if len(each) > 1), names[0])
        flag = f"--{name}"
        if kind == "!":
            yield Option(parameter_name(name), f"{flag}/--no-{name}", {"type": "boolean"})
        elif kind == "+":
            yield Option(parameter_name(name), f"{flag}...", {"type": "integer", "minimum": 0})
        elif not kind:
            yield Option(parameter_name(name), flag, {"type": "boolean"})
        else:
            one: dict[str, Any] = {"type": {"i": "integer", "f": "number"}.get(kind[1], "string")}
            many = "@" in kind or "%" in kind
            yield Option(
                parameter_name(name), f"{flag}=VALUE", {"type": "array", "items": one} if many else one
            )


def _short(letters: str) -> Iterator[Option]:
    for letter, takes in short_options(letters):
        schema = {"type": "string" if takes else "boolean"}
        yield Option(letter, f"-{letter}VALUE" if takes else f"-{letter}", schema)


def read_ruby_script(text: str) -> Declared:
    """What a Ruby script says about its arguments."""
    options = []
    for found in _RUBY.finditer(text):
        texts = [each[1] for each in re.findall(r"(['\"])(.*?)\1", found[1])]
        usage = next((each for each in texts if each.startswith("--")), texts[0] if texts else "")
        about = texts[-1] if texts and not texts[-1].startswith("-") else ""
        if option := _ruby_option(usage, about):
            options.append(option)
    rest = (_REST,) if "ARGV" in text else ()
    reader = "OptionParser" if options else "ARGV" if rest else "nothing"
    return Declared(reader, (*options, *rest), bool(options), first_comment(text))


def _ruby_option(usage: str, about: str) -> Option | None:
    found = re.match(r"(--?(?:\[no-\])?[A-Za-z][\w-]*)(?:[ =]?\[?=?([A-Za-z_<][\w<>,. ]*)\]?)?", usage)
    if not found:
        return None
    help_schema = {"description": text_of(about)} if about else {}
    flag = found[1].replace("[no-]", "")
    if found[2]:
        form = f"{flag}{'' if len(flag) == 2 else '='}VALUE"
        return Option(parameter_name(flag), form, {"type": "string"} | help_schema)
    off = f"/--no-{flag.removeprefix('--')}" if "[no-]" in found[1] else ""
    return Option(parameter_name(flag), flag + off, {"type": "boolean"} | help_schema)
