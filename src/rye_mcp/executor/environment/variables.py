"""Variables that a tool gets only with a signature for them, and variables that hold paths.

>>> [name for name in ("GITHUB_TOKEN", "KEYBOARD", "PYTHONPATH", "HOME") if is_withheld(name)]
['GITHUB_TOKEN', 'PYTHONPATH']
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lilux import _templates
from rye_mcp.errors import RyeError
from rye_mcp.executor.chain.anchor import EnvPaths
from rye_mcp.executor.chain.builder import ChainElement
from rye_mcp.items import printable
from rye_mcp.trust.control_variables import chooses_code
from rye_mcp.trust.directories import Look

if TYPE_CHECKING:
    from rye_mcp.trust.directories import Directories

__all__ = [
    "MAX_NAME",
    "OF_EVERYBODY",
    "add_paths",
    "holds_password",
    "is_private",
    "is_withheld",
    "looks_secret",
    "paths_in",
    "programs_for_tools",
    "refused_paths",
    "secret_among",
    "set_paths",
    "usable_variables",
]

_SECRET_ENDINGS: Final = (
    *("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "PASSCODE"),
    *("CREDENTIAL", "COOKIE"),
)
"""The last words of a secret's name; each of them in the plural too."""

_SECRET_WORDS: Final = (
    *("AUTH", "AUTHORIZATION", "AUTHENTICATION", "OAUTH", "OAUTH2", "BEARER", "JWT", "OTP", "TOTP"),
    *("PASS", "PW", "PSK", "PAT", "CRED", "CREDS", "DSN", "SALT", "PEM", "PFX", "P12"),
    *("KEYSTORE", "WEBHOOK", "SAS", "CONNECTIONSTRING", "CONNSTR"),
)
"""Other words that say so, as a whole."""

_OTHER_THAN_PASSWORDS: Final = ("COMPASS", "BYPASS", "SURPASS", "TRESPASS")
"""Names that end with PASS without naming a password."""

_WORD: Final = re.compile(r"[A-Z0-9]+")
_SECRET_PHRASE: Final = re.compile(
    r".[^A-Z0-9]PWD(?![A-Z0-9])|(?<![A-Z0-9])CONNECTION_STRING(?![A-Z0-9])|^OTEL_EXPORTER_OTLP_(?:[A-Z]+_)?HEADERS$"
)
_DIGITS: Final = "0123456789"

_NEVER_PASSED_ON: Final = re.compile(r"RYE_.*|LILUX_.*|PWD|OLDPWD|_|SHLVL", re.DOTALL)
"""Variables for rye-mcp alone, and those that say where the server was started."""

MAX_NAME: Final = 256
"""How long a name may be that anybody would read."""

_PASSWORD_IN_URL: Final = re.compile(r"://[^/\s:@]*:[^/\s@]+@")

_WORDS_FOR_ONE: Final = (
    r"(?:(?:token|secret|password|passwd|passphrase|credential|api[-_]?key|access[-_]?key)s?|\bpat|bearer)"
)
_ABOUT_ONE: Final = r"(?!--?(?:no|without|max|min|num)[-_])"
"""The start of an option that gives a number, or switches something off."""

# Texts, not compiled: that takes long, and few command lines have a word that may be one.
_STEMS: Final = ("token", "secret", "pass", "credent", "key", "pat", "bearer", "author", "cook")
"""A part of every word that these expressions look for, in any case."""

_OPTION: Final = rf"(?is)({_ABOUT_ONE}--?[\w.-]*{_WORDS_FOR_ONE}|[\w.-]*{_WORDS_FOR_ONE}(?==))(?:=(.*))?"
_ISSUED: Final = (
    r"(?<![A-Za-z0-9])(?:gh[opusr]_\w{16}|github_pat_\w{16}|glpat-[\w-]{16}|xox[abeoprs]-[\w-]{10}|sk-[\w-]{16}"
    r"|[rs]k_live_\w{10}|A[KS]IA[A-Z0-9]{16}|AIza[\w-]{30}|npm_\w{30}|pypi-\w{16}|hf_[A-Za-z0-9]{16}"
    r"|eyJ[\w-]{8,}\.eyJ[\w-]{8})|-----BEGIN [A-Z ]*PRIVATE KEY"
)
"""Prefixes of the tokens of well-known issuers, and of private keys and JWTs."""

_HEADER: Final = rf"(?i)((?:proxy-)?authorization|cookie|[\w-]*{_WORDS_FOR_ONE})\s*:\s*\S"
_IN_QUERY: Final = rf"(?i)[?&]([\w.-]*{_WORDS_FOR_ONE})=(?!\$\{{)[^&#]"
_NO_SECRET: Final = r"(?i)-|\.{0,2}/|~|\$|\{|(?:\d+|true|false|yes|no|on|off)$"  # noqa: S105
"""Values of an option that are no secrets: another option, a file, a number, or a template."""


@lru_cache(maxsize=4096)
def looks_secret(name: str) -> bool:
    """Whether a variable of this name is taken for a secret; a name that nobody would read is."""
    if len(name) > MAX_NAME:
        return True
    name = name.upper()
    return any(map(_is_secret, _WORD.findall(name))) or _SECRET_PHRASE.search(name) is not None


def _is_secret(word: str) -> bool:
    """Whether one word of a variable's name says that the value is a secret."""
    stem = word.rstrip(_DIGITS)
    return (
        word in _SECRET_WORDS
        or stem.endswith(_SECRET_ENDINGS)
        or stem.removesuffix("S").endswith(_SECRET_ENDINGS)
        or (stem.endswith("PASS") and stem != "PASS" and not stem.endswith(_OTHER_THAN_PASSWORDS))
    )


def holds_password(value: str) -> bool:
    """Whether a value is taken for a secret whatever its name: a URL with a password."""
    return "://" in value and _PASSWORD_IN_URL.search(value) is not None


def secret_among(words: Sequence[str]) -> str | None:
    """Name the place of a secret in the words of a command line, without showing the secret.

    >>> [secret_among(words) for words in (["--token", "abc"], ["--token-file", "abc"], ["--token=${T}"])]
    ['--token', None, None]
    """
    found = (_secret_in(word, behind) for word, behind in zip(words, [*words[1:], ""], strict=False))
    return next((place for place in found if place is not None), None)


def _secret_in(word: str, behind: str) -> str | None:
    if holds_password(word):
        return "an address with a password"
    if re.search(_ISSUED, word) is not None:
        return "a token or a key, by its form"
    return _named_in(word, behind) if any(stem in word.casefold() for stem in _STEMS) else None


def _named_in(word: str, behind: str) -> str | None:
    """The name of a secret that stands before its value."""
    if (in_query := re.search(_IN_QUERY, word)) is not None:
        return in_query[1]
    if (header := re.match(_HEADER, word)) is not None and "${" not in word:
        return header[1]
    option = re.fullmatch(_OPTION, word)
    value = None if option is None else behind if option[2] is None else option[2]
    is_secret = value and not re.match(_NO_SECRET, value) and "${" not in value
    return option[1] if option is not None and is_secret else None


def is_withheld(name: str) -> bool:
    """Whether a tool gets a variable of this name only when it was signed to do so."""
    return looks_secret(name) or chooses_code(name)


def is_private(name: str) -> bool:
    """Whether a variable is never passed on."""
    return _NEVER_PASSED_ON.fullmatch(name) is not None


_MAX_PATH_CHARACTERS: Final = 4096
"""How long one path may be: the system takes no longer one."""

OF_EVERYBODY: Final = frozenset({"TMPDIR", "TMP", "TEMP", "TEMPDIR", "MAIL"})
"""Variables that usually name a directory to which every user may write."""


_OWN_PROGRAMS: Final = None if sys.prefix == sys.base_prefix else sysconfig.get_path("scripts")
"""The programs of the environment that rye-mcp is installed in, when it has one of its own."""


def paths_in(name: str, value: str) -> tuple[str, ...]:
    """The paths that a variable holds: of PATH every entry, of any other all of them or none.

    >>> paths_in("XDG_DATA_DIRS", "/usr/share:/srv/share"), paths_in("DISPLAY", ":0")
    (('/usr/share', '/srv/share'), ())
    """
    entries = tuple(value.split(os.pathsep))
    if name == "PATH":
        return entries
    return entries if all(each.startswith("/") for each in entries) else ()


def programs_for_tools(path: str, project: Path | None) -> str:
    """An entry of PATH, or where that Python came from when it is the environment of rye-mcp itself.

    A tool that found its packages there would run until rye-mcp is installed in another way. In a project
    whose own environment holds rye-mcp, that is also the tools' environment.
    """
    if path != _OWN_PROGRAMS or (project is not None and Path(path).is_relative_to(project)):
        return path
    return os.path.join(sys.base_exec_prefix, "bin")  # noqa: PTH118 - an entry of PATH is a text


def refused_paths(paths: Mapping[str, Iterable[str]], directories: Directories) -> dict[str, str]:
    """Return the paths of these variables that must not be used, with the reasons."""
    refused: dict[str, str] = {}
    look = Look()
    for name, found in paths.items():
        why_not = directories.why_no_project if name in OF_EVERYBODY else directories.why_not
        for path in found:
            if path.startswith("/") and (why := why_not(path, look)) is not None:
                refused[path] = why
    return refused


def usable_variables(
    variables: Mapping[str, str], directories: Directories, project: Path | None
) -> dict[str, str]:
    """These variables without paths that lead where nothing is used, and without relative ones of PATH."""
    paths = {name: found for name, text in variables.items() if (found := paths_in(name, text))}
    if "PATH" in paths:
        paths["PATH"] = tuple(programs_for_tools(path, project) for path in paths["PATH"])
    refused, usable = refused_paths(paths, directories), dict(variables)
    for name, found in paths.items():
        set_paths(usable, name, (path for path in found if path.startswith("/") and path not in refused))
    return usable


def add_paths(
    variables: dict[str, str],
    env_paths: Mapping[str, EnvPaths],
    places: Mapping[str, str],
    root: ChainElement,
) -> None:
    """Put the paths of an anchor before and after what variables hold."""
    for name, paths in env_paths.items():
        own = variables.get(name, "").split(os.pathsep)
        before = [_path(text, name, variables, places, root) for text in paths.prepend]
        after = [_path(text, name, variables, places, root) for text in paths.append]
        set_paths(variables, name, [*before, *own, *after])


def set_paths(variables: dict[str, str], name: str, paths: Iterable[str]) -> None:
    """Set a variable of paths, each once; one without any is not set, as that would be an empty path."""
    kept = dict.fromkeys(path for path in paths if path)
    if kept:
        variables[name] = os.pathsep.join(kept)
    else:
        variables.pop(name, None)


def _path(
    template: str, name: str, variables: Mapping[str, str], places: Mapping[str, str], root: ChainElement
) -> str:
    """One path, absolute; empty when the place that it begins with is not there."""
    for placeholder in _templates.placeholders(template):
        if isinstance(placeholder, _templates.Parameter) and places.get(placeholder.name) == "":
            return ""
    path = _templates.render(template, variables, places)
    good = path.startswith("/") and os.pathsep not in path and "\0" not in path
    if good and len(path) <= _MAX_PATH_CHARACTERS:
        return path
    raise RyeError(
        "invalid_item",
        f"expected an absolute path without {os.pathsep} from {template!r} in anchor.env_paths.{name}, "
        f"found {printable(path[:_MAX_PATH_CHARACTERS])!r}",
        where=root.path,
        item_id=root.item_id,
        field=f"anchor.env_paths.{name}",
    )
