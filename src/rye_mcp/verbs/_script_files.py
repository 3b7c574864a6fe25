"""What `adopt` reads: a script, and what stands beside it; all within limits, whatever the files hold."""

from __future__ import annotations

import errno
import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lilux import _files as whole_files
from lilux import _json
from rye_mcp.errors import RyeError, printable
from rye_mcp.items import MAX_ITEM_BYTES
from rye_mcp.visible import visible

__all__ = ["Imports", "module_kind", "read_script_file", "shell_word", "text_of_script"]

_PACKAGE: Final = "package.json"
_MAX_PACKAGE_BYTES: Final = 1 << 20
_ENDINGS: Final = ("", ".js", ".ts", ".cjs", ".mjs", "/index.js")


@dataclass(frozen=True, slots=True)
class Imports:
    """What a script imports: packages, and the files beside it, by their paths from its directory."""

    packages: tuple[str, ...]
    beside: tuple[str, ...]

    @classmethod
    def of(cls, names: frozenset[str], source: Path) -> Imports:
        """The names that a script imports, told apart by what stands beside it."""
        found = {name: each for name in names for each in _files_of(name, source.parent) if each.is_file()}
        packages = {name for name in names - found.keys() if not name.startswith(".")}
        beside = {os.path.relpath(each, source.parent) for each in found.values()}
        return cls(tuple(sorted(packages)), tuple(sorted(beside)))

    @property
    def below(self) -> tuple[str, ...]:
        """The files that can be copied along with the script: none of a directory above."""
        return tuple(each for each in self.beside if not each.startswith(".."))


def read_script_file(source: Path) -> bytes:
    """The bytes of a script; RyeError for what is no regular file, or too large for an item."""
    shown = printable(source)
    try:
        return whole_files.read_capped(source, MAX_ITEM_BYTES)
    except OSError as exc:
        if exc.errno == errno.EFBIG:
            what = f"expected at most {MAX_ITEM_BYTES} bytes, found more"
            raise RyeError("too_large", what, where=shown) from exc
        raise RyeError("read_failed", f"expected a script, found: {exc.strerror}", where=shown) from exc


def text_of_script(source: Path, content: bytes) -> str:
    """The script as text, when it is one that every runtime reads alike."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text or "\r" in text or text.startswith("\ufeff"):
        what = "expected plain UTF-8 with LF, and no byte order mark, found other bytes"
        raise RyeError("not_text", what, where=printable(source))
    return text


def module_kind(source: Path) -> tuple[bool, tuple[str, ...]]:
    """Whether the nearest package.json makes a JavaScript file a module; a remark where it cannot be read."""
    marker = next((each / _PACKAGE for each in source.parents if (each / _PACKAGE).is_file()), None)
    if marker is None:
        return False, ()
    try:
        found = _json.decode(whole_files.read_capped(marker, _MAX_PACKAGE_BYTES))
    except (OSError, _json.NotJsonError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else str(exc.issues[0])
        return False, (f"{visible(printable(marker))} was not read, so this counts as no module: {why}",)
    return isinstance(found, dict) and found.get("type") == "module", ()


def shell_word(value: Path | str) -> str:
    """A path or a text as one word of a shell: what cannot be seen stands there as an escape."""
    text = str(value)
    shown = visible(printable(text))
    if shown == text:
        return shlex.quote(text)
    return f"$'{''.join(map(_escaped, text))}'"


def _escaped(character: str) -> str:
    """A character between `$'` and `'`: itself, or its bytes where it cannot be seen."""
    if character in "\\'":
        return f"\\{character}"
    if visible(printable(character)) == character:
        return character
    return "".join(f"\\x{byte:02x}" for byte in os.fsencode(character))


def _files_of(name: str, directory: Path) -> Iterator[Path]:
    """Where a script beside another one would be found by this name."""
    if name.startswith("."):
        yield from (directory / f"{name}{ending}" for ending in _ENDINGS)
    else:
        yield from (directory / f"{name}.py", directory / name / "__init__.py")
