"""Files beside a tool that its code seems to need. These are guesses, for warnings and hints only."""

from __future__ import annotations

import ast
import re
import shlex
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final

from rye_mcp.errors import RyeError
from rye_mcp.executor.chain.files import BundledFiles
from rye_mcp.items import parse_relative_path, printable
from rye_mcp.spaces.source_tree import SourceTree

__all__ = ["mentioned_companions", "missing_companion", "placeholders_in_shell"]

MAX_CANDIDATES: Final = 500
"""How many names of a text are looked for."""

MAX_NAMED: Final = 10
"""How many files one hint names."""

MAX_ERROR_CHARACTERS: Final = 64 << 10
"""How much of an error output is looked at: its end."""

MAX_PATH_CHARACTERS: Final = 255
"""Longer words are nobody's file."""

MAX_PATH_SEGMENTS: Final = 4
"""How many directories deep something beside a tool is looked for by the end of a longer path."""

_SHELLS: Final = frozenset({"sh", "bash", "dash", "ksh", "zsh", "ash", "fish"})
_COMMAND_OPTION: Final = re.compile(r"-[A-Za-z]*c")
_PLACEHOLDER: Final = re.compile(r"(?<!\$)\{([A-Za-z_][A-Za-z0-9_.-]*)\}")
_ALL_PARAMETERS: Final = "params_json"
_ONE_PARAMETER: Final = "params."

_WORD: Final = re.compile(r"[A-Za-z0-9_./-]+", re.ASCII)
_MODULE_IN_ERROR: Final = re.compile(
    r"(?:No module named|Cannot find module|cannot load such file --) ['\"]?([A-Za-z0-9_./-]{1,255})",
    re.ASCII,
)
_PYTHON_MODULE_IN_ERROR: Final = re.compile(
    r"No module named ['\"]?([A-Za-z_][A-Za-z0-9_.]{0,254})", re.ASCII
)
_MODULE_IN_CODE: Final = re.compile(
    r"""\b(?:require|require_relative|from|import)\b\s{0,4}\(?\s{0,4}["']([A-Za-z0-9_./-]{1,255})["']""",
    re.ASCII,
)
_MODULE_ENDINGS: Final = (".py", "/__init__.py", ".js", ".mjs", ".cjs", ".ts", ".json", ".rb", ".pm", ".pl")


def mentioned_companions(content: bytes, extension: str, directory: str, tree: SourceTree) -> list[str]:
    """The files below a directory of a space that a tool's code seems to name; by path below the root."""
    text = content.decode("utf-8", "replace")
    names = _names_in_python(text) if extension == ".py" else _names_in_text(text)
    found = {
        f"{directory}/{name}"
        for name in _first(map(_normal, names))
        if name and tree.holds(f"{directory}/{name}")
    }
    return sorted(found)


def missing_companion(stderr: str, carried: BundledFiles, tool_dir: Path) -> str | None:
    """Return the hint for a run that failed because a file beside the tool is not part of it."""
    text = stderr[-MAX_ERROR_CHARACTERS:]
    files = (each for each in _files_in(text) if not _is_elsewhere(each, carried.source))
    names = [*_modules(_MODULE_IN_ERROR.findall(text)), *files]
    with SourceTree(tool_dir) as tree:
        for module in _PYTHON_MODULE_IN_ERROR.findall(text):
            parts = [name for name in _first(_parts_of(module, carried)) if _is_left(name, carried, tree)]
            if parts:
                return _hint(carried.tool.relative, parts[:MAX_NAMED])
        for name in _first(ending for each in names for ending in _endings_of(each)):
            if _is_left(name, carried, tree):
                return _hint(carried.tool.relative, [name])
    return None


def _is_left(name: str, carried: BundledFiles, tree: SourceTree) -> bool:
    """Whether a file stands in the tool's directory and was not carried."""
    directory = carried.tool.relative.rpartition("/")[0]
    if any(file.relative == f"{directory}/{name}" for file in carried.files):
        return False
    try:
        return tree.holds(name)
    except RyeError:
        return False


def _parts_of(module: str, carried: BundledFiles) -> Iterator[str]:
    """The files that a Python module may be, and the files that the tool's code names of the same package."""
    path = module.replace(".", "/")
    package = f"{path.partition('/')[0]}/"
    yield from _python_files_of(path)
    for name in map(_normal, _names_in_python(carried.tool.content.decode("utf-8", "replace"))):
        if name.startswith(package):
            yield name


def placeholders_in_shell(config: Mapping[str, Any], parameters: Iterable[str]) -> list[str]:
    """The placeholders for what a caller gives that stand inside of a shell's command string."""
    given = frozenset(parameters)
    found = _PLACEHOLDER.findall(_shell_command(config))
    return sorted({name for name in found if name in given or _stands_for_parameters(name)})


def _shell_command(config: Mapping[str, Any]) -> str:
    """Return the command for a shell; empty where values are quoted, or there is no shell."""
    command, arguments = config.get("command"), config.get("args")
    if config.get("shell") is True or not isinstance(command, str) or not isinstance(arguments, list):
        return ""
    if PurePosixPath(command).name not in _SHELLS:
        return ""
    words = [each if isinstance(each, str) else "" for each in arguments]
    option = next((number for number, word in enumerate(words) if _COMMAND_OPTION.fullmatch(word)), None)
    return "" if option is None else "".join(words[option + 1 : option + 2])


def _stands_for_parameters(name: str) -> bool:
    return name == _ALL_PARAMETERS or name.startswith(_ONE_PARAMETER)


def _is_elsewhere(path: str, source: Path) -> bool:
    """Whether it is a module that Python found somewhere else: its name is no reason to sign one beside."""
    return path.startswith("/") and path.endswith(".py") and not path.startswith(f"{source}/")


def _hint(tool: str, names: Sequence[str]) -> str:
    try:
        _, item_id, _ = parse_relative_path(tool)
    except RyeError:
        item_id = tool
    stand, were = ("stands", "was") if len(names) == 1 else ("stand", "were")
    options = " ".join(f"--with {shlex.quote(printable(name))}" for name in names)
    return (
        f"{item_id} needs {', '.join(map(printable, names))}, which {stand} beside it but {were} not signed "
        f"with it: rye sign {item_id} {options}"
    )


# --- which names stand in a text ---


def _names_in_python(text: str) -> Iterator[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(value)):
                yield from _files_in(value)
            case ast.Import(names=names):
                for alias in names:
                    yield from _python_files_of(alias.name.replace(".", "/"))
            case ast.ImportFrom(module=module, names=names):
                above = (module or "").replace(".", "/")
                for alias in names:
                    yield from _python_files_of(f"{above}/{alias.name}".lstrip("/"))


def _python_files_of(path: str) -> Iterator[str]:
    """The files that Python may read to import a module: it, and the `__init__.py` of each package above."""
    segments = path.split("/")
    for count in range(1, len(segments) + 1):
        above = "/".join(segments[:count])
        yield f"{above}.py"
        yield f"{above}/__init__.py"


def _names_in_text(text: str) -> Iterator[str]:
    yield from _modules(_MODULE_IN_CODE.findall(text))
    yield from _files_in(text)


def _files_in(text: str) -> Iterator[str]:
    """The words that look like the path of a file: their last segment has an extension."""
    for found in _WORD.finditer(text):
        word = found[0].rstrip(".")
        if len(word) <= MAX_PATH_CHARACTERS and "." in word.rpartition("/")[2].lstrip("."):
            yield word


def _modules(names: Iterable[str]) -> Iterator[str]:
    """The files that a module of this name may be."""
    for name in names:
        yield name
        yield from (name + ending for ending in _MODULE_ENDINGS)


def _endings_of(path: str) -> Iterator[str]:
    """Yield the possible paths below the tool's directory: the last segment, the last two, and so on."""
    segments = [segment for segment in path.split("/") if segment not in ("", ".")]
    for count in range(1, min(len(segments), MAX_PATH_SEGMENTS) + 1):
        ending = segments[-count:]
        if ".." not in ending:
            yield "/".join(ending)


def _normal(name: str) -> str:
    """The path without `./`; nothing for one that leads elsewhere.

    One that begins with `/` is what follows a directory in most programs: `f"{here}/data.json"`.
    """
    segments = [segment for segment in name.removeprefix("/").split("/") if segment != "."]
    return "" if not segments or not all(segments) or ".." in segments else "/".join(segments)


def _first(names: Iterable[str]) -> list[str]:
    """The names, each once, and not too many of them."""
    kept: dict[str, None] = {}
    for name in names:
        kept.setdefault(name)
        if len(kept) >= MAX_CANDIDATES:
            break
    return list(kept)
