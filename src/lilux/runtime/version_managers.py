"""Finds interpreters that pyenv, nvm, rbenv, asdf or mise have installed.

Their documented directories come first, because asking a manager takes a shell script. A manager is asked if
the version is not there, or if no version is given; nvm never, because that would run a login profile.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from lilux import _files
from lilux._dataclasses import dataclass
from lilux.runtime.interpreters import Question, Surroundings, file_exists, names_in

__all__ = ["MANAGERS", "VersionManager", "is_version"]

BINARIES: Final = {"nodejs": "node", "golang": "go"}
"""Programs that are called other than the tool that has them."""

DEFAULT_TOOL: Final = "python"

ALIAS_LIMIT_BYTES: Final = 256
ALIAS_STEPS: Final = 8
"""How long an alias of nvm may be, and how many may lead to each other."""

NEWEST: Final = frozenset(["node", "stable"])
"""Names of nvm for the newest version of all."""

_NUMBERS = re.compile(r"v?(\d{1,9}(?:\.\d{1,9})*)\Z", re.ASCII)
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+:*-]*(?:/[A-Za-z0-9*][A-Za-z0-9._+*-]*)*\Z", re.ASCII)


def is_version(text: str) -> bool:
    """Whether a text can name a version: never an option, never a way out of its directory."""
    return _VERSION.match(text) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Manager:
    """How one manager keeps what it has installed, and how it is asked.

    Its root is what the variable `root` names, else `xdg`: a variable and a path below what it names,
    else `home`: a path below the home directory. Versions stand in `versions` below that.
    """

    name: str
    root: str
    home: str
    versions: str
    xdg: tuple[str, str] | None = None
    tool: str | None = None
    where: tuple[str, ...] = ()
    which: tuple[str, ...] = ("which", "{binary}")

    def directory(self, around: Surroundings) -> Path | None:
        """Where this manager keeps everything."""
        if (named := around.directory(self.root)) is not None:
            return named
        if self.xdg is not None and (base := around.directory(self.xdg[0])) is not None:
            return base / self.xdg[1]
        return None if around.home is None else around.home / self.home

    def program(self, around: Surroundings) -> Path | None:
        """The manager itself: on the PATH, else where it installs itself."""
        root, home = self.directory(around), around.home
        places = [root and root / "bin" / self.name, home and home / ".local/bin" / self.name]
        found = around.on_path(self.name)
        return found or next((place for place in places if place and file_exists(place)), None)


MANAGERS: Final = {
    manager.name: manager
    for manager in (
        Manager(
            name="pyenv",
            root="PYENV_ROOT",
            home=".pyenv",
            versions="versions",
            tool="python",
            where=("prefix", "{version}"),
        ),
        Manager(
            name="rbenv",
            root="RBENV_ROOT",
            home=".rbenv",
            versions="versions",
            tool="ruby",
            where=("prefix", "{version}"),
        ),
        Manager(
            name="nvm",
            root="NVM_DIR",
            xdg=("XDG_CONFIG_HOME", "nvm"),
            home=".nvm",
            versions="versions/node",
            tool="node",
            which=(),
        ),
        Manager(
            name="asdf",
            root="ASDF_DATA_DIR",
            home=".asdf",
            versions="installs/{tool}",
            where=("where", "{tool}", "{version}"),
        ),
        Manager(
            name="mise",
            root="MISE_DATA_DIR",
            xdg=("XDG_DATA_HOME", "mise"),
            home=".local/share/mise",
            versions="installs/{tool}",
            where=("where", "{tool}@{version}"),
        ),
    )
}


@dataclass(frozen=True, slots=True)
class VersionManager:
    """An interpreter of a version that one of the `MANAGERS` has installed."""

    manager: str
    version: str | None = None
    tool: str | None = None
    binary: str | None = None

    def find(self, around: Surroundings) -> Path | Question | None:
        """The interpreter where the manager is known to keep it, else the question for the manager."""
        manager = MANAGERS[self.manager]
        tool = manager.tool or self.tool or DEFAULT_TOOL
        binary = self.binary or BINARIES.get(tool, tool)
        root = manager.directory(around)
        if root is not None:
            wanted = _nvm_version(root, self.version) if manager.name == "nvm" else self.version
            versions = root / manager.versions.format(tool=tool)
            found = _installed(versions, wanted, f"bin/{binary}")
            if found is not None:
                return found
        return self._question(manager, around, tool, binary)

    def _question(self, manager: Manager, around: Surroundings, tool: str, binary: str) -> Question | None:
        words = manager.which if self.version is None else manager.where
        program = manager.program(around.trusted) if words else None
        if program is None:
            return None
        args = tuple(word.format(tool=tool, version=self.version, binary=binary) for word in words)
        return Question(program, args, None if self.version is None else f"bin/{binary}")


def _installed(versions: Path, wanted: str | None, interpreter: str) -> Path | None:
    """The interpreter of this version, else of the newest one that begins with it."""
    if wanted is None:
        return None
    exact = (found for name in (wanted, f"v{wanted}") if file_exists(found := versions / name / interpreter))
    newest = (
        found for name in _newest(versions, wanted) if file_exists(found := versions / name / interpreter)
    )
    return next(exact, None) or next(newest, None)


def _newest(versions: Path, prefix: str) -> list[str]:
    """The names of versions that begin with these numbers (any, without numbers), the newest first."""
    wanted = _numbers(prefix)
    if wanted is None:
        return []
    numbered = ((numbers, name) for name in names_in(versions) if (numbers := _numbers(name)) is not None)
    return [name for numbers, name in sorted(numbered, reverse=True) if numbers[: len(wanted)] == wanted]


def _numbers(version: str) -> tuple[int, ...] | None:
    """A version as numbers; None when it is more than that (`3.14-dev`)."""
    if not version:
        return ()
    found = _NUMBERS.match(version)
    return tuple(int(number) for number in found[1].split(".")) if found else None


def _nvm_version(root: Path, version: str | None) -> str | None:
    """The version that nvm means, through its alias files; "" for the newest of all, None when unknown."""
    wanted = version or "default"
    for _ in range(ALIAS_STEPS):
        if wanted in NEWEST:
            return ""
        if _numbers(wanted) is not None:
            return wanted
        try:
            content = _files.read_capped(root / "alias" / wanted, ALIAS_LIMIT_BYTES)
            wanted = content.decode("ascii").strip()
        except (OSError, ValueError):
            return None
        if not is_version(wanted):
            return None
    return None
