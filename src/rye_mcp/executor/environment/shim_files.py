"""Resolve a shim in `/` by the files of its version manager, without starting anything.

Only what these files say beyond doubt counts. Where the manager has more to say (a hook, a plugin, a file in
`/`, a version that is a pattern), there is no answer here, and the manager is asked. No file is read that an
unapproved project or another user could have written. The rules are in `docs/architecture/execution.md`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from lilux._dataclasses import dataclass
from lilux._files import read_capped
from lilux.runtime.interpreters import Surroundings
from lilux.runtime.version_managers import MANAGERS

__all__ = ["ShimFiles"]

FILE_LIMIT_BYTES: Final = 64 * 1024
"""How long a file of a manager may be."""

_VERSION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*\Z", re.ASCII)
_ROOT: Final = "/"
_HOOKS_ELSEWHERE: Final = (
    "/usr/etc/pyenv.d",
    "/usr/local/etc/pyenv.d",
    "/etc/pyenv.d",
    "/usr/lib/pyenv/hooks",
)
_HOOKED: Final = ("which", "version-name")
_HARMLESS: Final = "plugins/pyenv-virtualenv/etc/pyenv.d/which/"
"""These hooks only look for a program that its version does not have."""

_ASDF_PLUGIN: Final = re.compile(r"^# asdf-plugin: (\S+) (\S+)$", re.MULTILINE)
_TOOL_OF: Final = MappingProxyType({"python": "python", "python3": "python", "node": "node", "ruby": "ruby"})
"""The tool of mise that has a program."""


class _Unclear(Exception):  # noqa: N818 - it says what was found
    """The files do not say it."""


@dataclass(frozen=True, slots=True)
class ShimFiles:
    """Reads what managers keep; `is_safe` says of a path whether it may have a say in what is started."""

    environment: Mapping[str, str]
    is_safe: Callable[[str], bool]

    def program(self, manager: str | None, shim: str) -> str | None:
        """The program that a shim of this manager stands for; None where only the manager can tell."""
        read = _READERS.get(manager or "")
        if read is None or manager is None:
            return None
        try:
            root = MANAGERS[manager].directory(Surroundings(self.environment))
            if root is None or not self.is_safe(str(root)):
                return None
            return read(self, root, shim)
        except (_Unclear, OSError, ValueError):
            return None

    def _text(self, path: Path) -> str:
        if not self.is_safe(str(path)):
            raise _Unclear
        return read_capped(path, FILE_LIMIT_BYTES).decode()

    def _pyenv(self, root: Path, shim: str) -> str:
        self._require_only({"PYENV_ROOT", "PYENV_VERSION", "PYENV_SHELL"}, "PYENV_")
        if os.path.lexists("/.python-version") or any(_hooks(root)) or not (root / "bin/pyenv").exists():
            raise _Unclear
        named = self.environment.get("PYENV_VERSION")
        versions = named.split(":") if named else _words(self._text(root / "version"))
        return _program_in(root / "versions" / _plain(versions[0]), shim)

    def _asdf(self, root: Path, shim: str) -> str:
        self._require_only({"ASDF_DATA_DIR", "ASDF_DIR"}, "ASDF_")
        offered = set(_ASDF_PLUGIN.findall(self._text(Path(shim))))
        plugins = {plugin for plugin, _ in offered}
        home = self.environment.get("HOME", "")
        if len(plugins) != 1 or not home.startswith("/"):
            raise _Unclear
        plugin = plugins.pop()
        callbacks = root / "plugins" / _plain(plugin) / "bin"
        if any((callbacks / name).exists() for name in ("list-bin-paths", "exec-path")) or _stands_in_root():
            raise _Unclear
        wanted = [line.split() for line in self._text(Path(home, ".tool-versions")).splitlines()]
        version = next((words[1] for words in wanted if len(words) == 2 and words[0] == plugin), "")
        if (plugin, version) not in offered:
            raise _Unclear
        return _program_in(root / "installs" / plugin / _plain(version), shim)

    def _mise(self, root: Path, shim: str) -> str:
        import tomllib

        self._require_only({"MISE_DATA_DIR", "MISE_SHELL"}, "MISE_")
        home, tool = self.environment.get("HOME", ""), _TOOL_OF.get(os.path.basename(shim))  # noqa: PTH119
        base = self.environment.get("XDG_CONFIG_HOME") or f"{home}/.config"
        place = Path(base, "mise")
        alone = not (place / "conf.d").exists() and not os.path.lexists("/etc/mise") and not _stands_in_root()
        if tool is None or not place.is_absolute() or not alone or Path(home, ".tool-versions").exists():
            raise _Unclear
        written = tomllib.loads(self._text(place / "config.toml"))
        tools = written.get("tools")
        if (
            not isinstance(tools, dict)
            or written.keys() != {"tools"}
            or not tools.keys() <= {*_TOOL_OF.values()}
        ):
            raise _Unclear
        return _program_in(root / "installs" / tool / _plain(tools.get(tool)), shim)

    def _require_only(self, known: set[str], prefix: str) -> None:
        if any(name.startswith(prefix) and name not in known for name in self.environment):
            raise _Unclear


_READERS: Final[Mapping[str, Callable[[ShimFiles, Path, str], str]]] = MappingProxyType(
    {"pyenv": ShimFiles._pyenv, "asdf": ShimFiles._asdf, "mise": ShimFiles._mise}
)


def _words(text: str) -> list[str]:
    """The first word of each line, as pyenv reads it."""
    found = [line.split()[0] for line in text.splitlines() if line.split()]
    versions = [word for word in found if not word.startswith("#")]
    if not versions:
        raise _Unclear
    return versions


def _plain(version: object) -> str:
    """A name that is a version itself, and no pattern, alias or way out."""
    if not isinstance(version, str) or _VERSION.match(version) is None:
        raise _Unclear
    return version


def _program_in(installation: Path, shim: str) -> str:
    found = f"{installation}/bin/{os.path.basename(shim)}"  # noqa: PTH119
    if not os.access(found, os.X_OK):
        raise _Unclear
    return found


def _hooks(root: Path) -> Iterator[Path]:
    """The scripts that may say something else than the files."""
    places = [root / "pyenv.d", *root.glob("plugins/*/etc/pyenv.d"), *map(Path, _HOOKS_ELSEWHERE)]
    for place in places:
        for name in _HOOKED:
            yield from (
                each
                for each in (place / name).glob("*.bash")
                if not str(each).startswith(f"{root}/{_HARMLESS}")
            )


def _stands_in_root() -> bool:
    """Whether the root of the file system has files of a manager, which count for everything below it."""
    marks = (
        "mise",
        ".mise",
        ".config",
        ".tool-versions",
        ".rtx",
        ".python-version",
        ".node-version",
        ".nvmrc",
    )
    return any(name.startswith(marks) for name in os.listdir(_ROOT))  # noqa: PTH208
