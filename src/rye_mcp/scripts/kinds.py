"""The language of a script: its extension as a tool, its runtime, and the reader of its arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import PurePath
from types import MappingProxyType
from typing import Final

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError, printable
from rye_mcp.metadata import RUNTIMES, parse_python
from rye_mcp.scripts.declared import Declared
from rye_mcp.scripts.node import imported_packages, read_node_script
from rye_mcp.scripts.plain_text import read_perl_script, read_ruby_script, read_shell_script, sourced_files
from rye_mcp.scripts.python import imported_modules, read_python_script

__all__ = ["Kind", "kind_of", "read_script"]

_WHERE: Final = "rye/core/runtimes"
_SHEBANG: Final = re.compile(
    r"#!\s*(?:\S*/)?(?:env\s+(?:-S\s+)?(?:-\S+\s+)*(?:\w+=\S*\s+)*)?(?:\S*/)?([A-Za-z][\w+-]*)"
)
_PROGRAMS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("python", "python3", "uv", "pypy3"), ".py"),
        **dict.fromkeys(("bash", "sh", "dash", "ksh"), ".sh"),
        **dict.fromkeys(("node", "nodejs"), ".js"),
        **dict.fromkeys(("tsx", "ts-node"), ".ts"),
        "perl": ".pl",
        "ruby": ".rb",
    }
)
MAX_READ_CHARACTERS: Final = 64 << 10
"""How much of a script is searched for arguments, where there is no syntax tree to search in."""

_READ_IN_PART: Final = f"its arguments were looked for in the first {MAX_READ_CHARACTERS} characters alone"
_SCRIPT: Final = re.compile(r"^# /// script$(.*?)^# ///$", re.MULTILINE | re.DOTALL)
_DEPENDENCIES: Final = re.compile(r"^#\s*dependencies\s*=\s*\[\s*(?:#\s*)*[\"']", re.MULTILINE)
_MODULE: Final = re.compile(r"^(?:import\s+[\w{*'\"]|export\s+[\w{*]|await\s)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Kind:
    """The extension, the runtime, and what has to be known about running it."""

    extension: str
    executor_id: str
    remarks: tuple[str, ...] = ()


def kind_of(path: PurePath, text: str, *, is_module: bool = False) -> Kind:
    """Return the kind of a file, by its extension, else by its first line; RyeError for an unknown one.

    `is_module` is what the package.json above a JavaScript file says.
    """
    program = _program_of(text)
    extension = path.suffix if path.suffix in RUNTIMES and path.suffix else _PROGRAMS.get(program, "")
    if extension == ".py":
        return _python(text)
    if extension == ".js" and (is_module or _MODULE.search(text)):
        extension = ".mjs"
    if extension == ".sh" and program in ("sh", "dash", "ksh"):
        return Kind(extension, RUNTIMES[extension], (f"bash runs it, and its first line says {program}",))
    if extension == "":
        return _with_own_program(path, text)
    return Kind(extension, RUNTIMES[extension])


def _program_of(text: str) -> str:
    """The program that the first line names, without its version."""
    found = _SHEBANG.match(text)
    program = "" if found is None else found[1].rstrip("0123456789.")
    return "python" if program.startswith("python") else program


def _with_own_program(path: PurePath, text: str) -> Kind:
    """A script in another language, which its first line starts."""
    if not text.startswith("#!"):
        known = " ".join(filter(None, RUNTIMES))
        what = f"expected a script ({known}, or a first line with #!), found {printable(path.name)}"
        raise RyeError("not_runnable", what, where=printable(str(path)), hint="name a script")
    return Kind("", RUNTIMES[""], ("it starts in / and not in the project, unless you approve the project",))


def _python(text: str) -> Kind:
    block = _SCRIPT.search(text, 0, MAX_READ_CHARACTERS)
    if block and _DEPENDENCIES.search(block[1]):
        return Kind(".py", f"{_WHERE}/uv_script_runtime")
    return Kind(".py", f"{_WHERE}/python_script_runtime")


def read_script(
    kind: Kind, text: str, path: PurePath, subcommand: str | None
) -> tuple[Declared, frozenset[str]]:
    """Read a script's arguments and its imports: packages, and files (`./…`)."""
    if kind.extension == ".py":
        tree = parse_python(text, printable(str(path)))
        try:
            return read_python_script(tree, subcommand), imported_modules(tree)
        except RecursionError as exc:
            what = "expected Python that can be read, found too much inside of each other"
            raise RyeError("invalid_item", what, where=printable(str(path))) from exc
    declared, imports = _read_text(kind.extension, text[:MAX_READ_CHARACTERS], subcommand)
    if len(text) > MAX_READ_CHARACTERS:
        declared = replace(declared, remarks=(*declared.remarks, _READ_IN_PART))
    return declared, imports


def _read_text(extension: str, text: str, subcommand: str | None) -> tuple[Declared, frozenset[str]]:
    if extension in (".js", ".mjs", ".cjs", ".ts"):
        return read_node_script(text, subcommand), imported_packages(text)
    beside = sourced_files(text) if extension in (".sh", ".bash") else frozenset()
    return _READERS.get(extension, _nothing)(text), beside


def _nothing(text: str) -> Declared:
    return Declared("nothing")


_READERS: Final[Mapping[str, Callable[[str], Declared]]] = MappingProxyType(
    {".sh": read_shell_script, ".bash": read_shell_script, ".pl": read_perl_script, ".rb": read_ruby_script}
)
