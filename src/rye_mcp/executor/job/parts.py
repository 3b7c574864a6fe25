"""The parts of a run outside of the system: its programs with what is installed around them, and its needs.

Whoever remembers what came of them keeps a footprint: every look at a file is noted.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from lilux._dataclasses import dataclass
from lilux._footprints import Remembered, note_links, note_names, note_way
from rye_mcp.permissions import CLOSED, CREDENTIALS, below_any

__all__ = ["SYSTEM", "Needs", "closed_in", "expanded", "holds_any", "parts_of"]

SYSTEM: Final = ("/usr", "/etc", "/opt", "/nix", "/snap", "/bin", "/sbin", "/lib", "/lib32", "/lib64")
"""Directories that every policy shows anyway."""

_is_of_system: Final = below_any(SYSTEM)


@dataclass(frozen=True, slots=True)
class Needs:
    """The command of a run, the interpreters that it starts, whatever its command is, and other places."""

    command: str
    interpreters: tuple[str, ...] = ()
    also: tuple[str, ...] = ()


def parts_of(
    needs: Needs, *, home: str, project: str | None, hidden: tuple[str, ...], search: tuple[str, ...] | None
) -> tuple[str, ...]:
    """Return the parts of a run that may be seen: no tool is kept from them, or from anything in them.

    With `search`, the command counts only if it is in one of these directories.
    """
    note_links(needs.also)
    found = {os.path.realpath(each) for each in needs.also}
    never = (home, *hidden, *([] if project is None else [project]))
    found.update(_programs(needs, never, search))
    outside = [each for each in found if not _is_of_system(each)]
    if not outside:
        return ()
    is_closed, kept = below_any(hidden), (home, *hidden)
    return tuple(sorted(each for each in outside if not is_closed(each) and not holds_any(each, kept)))


def expanded(path: str, home: str) -> str:
    """The real path of one that may begin with `~`."""
    whole = f"{home}{path[1:]}" if path.startswith("~") else path
    note_links((whole,))
    return os.path.realpath(whole)


def closed_in(home: str) -> Iterator[str]:
    """Yield the real paths of what is closed to every tool; what is above several is looked at once."""
    closed = [f"{home}{each[1:]}" for each in (*CLOSED, *CREDENTIALS)]
    note_names(closed)
    known = {home: os.path.realpath(home)}
    yield from (_real(each, known) for each in closed)


def holds_any(place: str, others: Iterable[str]) -> bool:
    """Whether one of the others is this place, or is in it."""
    return place == os.sep or any(map(below_any((place,)), others))


def _programs(needs: Needs, never: tuple[str, ...], search: tuple[str, ...] | None) -> Iterator[str]:
    for each in dict.fromkeys((needs.command, *needs.interpreters)):
        is_known = search is None or each in needs.interpreters or _is_in(each, search)
        if each.startswith("/") and is_known:
            note_links((each,))
            real = os.path.realpath(each)
            yield from _KNOWN.value((each, real, never), partial(_around, each, real, never))


def _is_in(program: str, search: tuple[str, ...]) -> bool:
    note_links(search)
    return program.rpartition("/")[0] in map(os.path.realpath, search)


def _real(path: str, known: dict[str, str]) -> str:
    """Return the real path of a path below a known one, and make it known."""
    if path not in known:
        directory, _, name = path.rpartition("/")
        place = f"{_real(directory, known).rstrip('/')}/{name}"
        if os.path.islink(place):  # noqa: PTH114
            note_links((place,))
            place = os.path.realpath(place)
        known[path] = place
    return known[path]


_KNOWN: Final[Remembered[tuple[str, ...]]] = Remembered(most=256)
"""The places of programs, for as long as nothing there has changed."""


def _around(command: str, real: str, never: tuple[str, ...]) -> tuple[str, ...]:
    """The places of a program: its file, the prefix around it, and the virtual environment it belongs to.

    A prefix that contains a home, a project or a hidden place does not count: then only the file can be read.
    """
    note_links((real,))
    found = {real} if _is_program(real) else set()
    venv = os.path.dirname(os.path.dirname(command))  # noqa: PTH120
    if (home := _home_of_venv(venv)) is not None:
        found |= {os.path.realpath(venv)}
        base = f"{home}/{os.path.basename(real)}"  # noqa: PTH119
        note_links((home, base))
        base = os.path.realpath(base)
        found |= {os.path.realpath(home), *_prefix_of(base, never)} if _is_program(base) else set()
    elif command != real:
        beside = os.path.realpath(os.path.dirname(command))  # noqa: PTH120
        found |= set() if holds_any(beside, never) else {beside}
    found |= _prefix_of(real, never)
    note_way(lambda: found)
    return tuple(sorted(each for each in found if os.path.lexists(each)))


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)  # noqa: PTH113


def _prefix_of(real: str, never: tuple[str, ...]) -> set[str]:
    """The directory that an interpreter is installed in, with its library."""
    programs, prefix = os.path.dirname(real), os.path.dirname(os.path.dirname(real))  # noqa: PTH120
    note_links((f"{prefix}/lib",))
    is_prefix = os.path.basename(programs) == "bin" and os.path.isdir(f"{prefix}/lib")  # noqa: PTH112, PTH119
    return {prefix} if is_prefix and not holds_any(prefix, never) else set()


def _home_of_venv(venv: str) -> str | None:
    """The Python behind a virtual environment; None for any other directory."""
    note_links((f"{venv}/pyvenv.cfg",))
    try:
        lines = Path(venv, "pyvenv.cfg").read_text("utf-8", "replace").splitlines()
    except OSError:
        return None
    values = {name.strip(): value.strip() for name, _, value in (line.partition("=") for line in lines)}
    return values.get("home") if values.get("home", "").startswith("/") else None
