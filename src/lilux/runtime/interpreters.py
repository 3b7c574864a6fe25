"""Finds an interpreter by one of four strategies, each a value with a method `find`.

Finding only looks: nothing is made, installed or run. Where only a program knows, the answer is a `Question`
that the caller puts to the supervisor.

    >>> SystemBinary("sh").find(Surroundings({"PATH": "/bin"}))
    PosixPath('/bin/sh')
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from lilux._dataclasses import dataclass

__all__ = [
    "NodeModules",
    "Question",
    "Strategy",
    "Surroundings",
    "SystemBinary",
    "VenvPython",
    "file_exists",
    "names_in",
]

VENV_CANDIDATES: Final = ("bin/python", "Scripts/python.exe", "bin/python3")
"""Where a virtual environment keeps its interpreter, in the order of looking."""

SYSTEM_PYTHONS: Final = ("python3", "python")
"""Names of a Python on a PATH."""

NODE_CANDIDATES: Final = {"node_modules": (".bin/node",), ".bin": ("node",)}
"""Programs in a search path that already leads into `node_modules`, by its last part."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where to look: the environment as it stands so far, the project, and the user's own directory.

    `system` is the environment without anything that the project says: whatever is run comes from there.
    """

    env: Mapping[str, str]
    project: Path | None = None
    user: Path | None = None
    system: Mapping[str, str] | None = None

    @property
    def trusted(self) -> Surroundings:
        """The same surroundings without the project."""
        return Surroundings(self.env if self.system is None else self.system)

    @property
    def home(self) -> Path | None:
        """The HOME of the environment."""
        return self.directory("HOME")

    def directory(self, name: str) -> Path | None:
        """The directory that a variable names; None when it names no absolute path."""
        value = self.env.get(name, "")
        return Path(value) if value.startswith("/") else None

    def place(self, path: str, root: Path | None) -> Path | None:
        """`path` in `root`; None when it is relative and there is no root."""
        if path.startswith("/"):
            return Path(path)
        return None if root is None else root / path

    def on_path(self, name: str) -> Path | None:
        """The executable file of this name that the PATH leads to."""
        for directory in self.env.get("PATH", os.defpath).split(os.pathsep):
            place = f"{directory}/{name}"
            # Asked first, since it says no to what is not there, and paths are slow to make.
            if directory.startswith("/") and os.access(place, os.X_OK) and file_exists(found := Path(place)):
                return found
        return None


@dataclass(frozen=True, slots=True)
class Question:
    """A question for a program: `program` runs with `args`, `read` makes a path of its answer.

    It answers with the interpreter, or with a directory that has it as `binary`.
    """

    program: Path
    args: tuple[str, ...]
    binary: str | None = None

    def read(self, answer: str) -> Path | None:
        """The interpreter that an answer names; None when there is no such file."""
        line = answer.strip().partition("\n")[0].strip()
        if not line.startswith("/"):
            return None
        found = Path(line) if self.binary is None else Path(line, self.binary)
        return found if file_exists(found) else None


class Strategy(Protocol):
    """One way to find an interpreter."""

    def find(self, around: Surroundings) -> Path | Question | None:
        """The interpreter, a question that leads to it, or None."""
        ...


@dataclass(frozen=True, slots=True)
class VenvPython:
    """The Python of a virtual environment, looked for in `project`, `user` and `system` places in order."""

    venv_path: str = ".venv"
    search: Sequence[str] = ("project",)

    def find(self, around: Surroundings) -> Path | None:
        """The first interpreter that is there."""
        return next(self._found(around), None)

    def _found(self, around: Surroundings) -> Iterator[Path]:
        roots = {"project": around.project, "user": around.user}
        for place in self.search:
            candidates: Iterator[Path | None]
            if place == "system":
                candidates = (around.on_path(name) for name in SYSTEM_PYTHONS)
                yield from (found for found in candidates if found is not None)
            elif (venv := around.place(self.venv_path, roots[place])) is not None:
                yield from (found for name in VENV_CANDIDATES if file_exists(found := venv / name))


@dataclass(frozen=True, slots=True)
class NodeModules:
    """The Node.js that a project has installed as a package."""

    search_paths: Sequence[str] = (".",)

    def find(self, around: Surroundings) -> Path | None:
        """The first interpreter that is there."""
        return next(filter(file_exists, self.candidates(around)), None)

    def candidates(self, around: Surroundings) -> Iterator[Path]:
        """Every place that is looked at, in order."""
        for path in self.search_paths:
            root = around.place(path, around.project)
            names = ("node_modules/.bin/node", *NODE_CANDIDATES.get(Path(path).name, ()))
            for name in names if root is not None else ():
                yield Path(str(root), name)


@dataclass(frozen=True, slots=True)
class SystemBinary:
    """A program of the system: a name on the PATH, or an absolute path."""

    binary: str

    def find(self, around: Surroundings) -> Path | None:
        """The program, if it is there."""
        if not self.binary.startswith("/"):
            return around.on_path(self.binary)
        return found if file_exists(found := Path(self.binary)) else None


def file_exists(path: Path) -> bool:
    """Whether a file is there; what cannot be looked at is not."""
    try:
        return path.is_file()
    except OSError:  # a directory that may not be searched, a name that is too long
        return False


def names_in(directory: Path) -> list[str]:
    """List the names in a directory; empty when it cannot be read."""
    try:
        return [entry.name for entry in directory.iterdir()]
    except OSError:
        return []
