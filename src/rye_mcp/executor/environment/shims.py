"""Shims, which are programs of version managers: what they stand for, and a PATH without them.

A shim is never started, as it lets the working directory choose the program. The rules are in
`docs/architecture/execution.md`.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

from lilux._dataclasses import dataclass
from lilux._files import make_directory, read_capped, real_path
from lilux._stamps import Stamp, settled, stamp_of
from lilux.primitives.errors import ToolExecutionError
from lilux.primitives.subprocess import ProcessSpec, SubprocessPrimitive
from lilux.runtime.interpreters import Surroundings
from lilux.runtime.version_managers import MANAGERS
from rye_mcp.apart import on_loop
from rye_mcp.executor.environment.variables import is_private, is_withheld
from rye_mcp.other_users import why_others_write
from rye_mcp.trust.directories import Directories

__all__ = [
    "ASK_LIMIT_S",
    "KEPT_S",
    "PathWithoutShims",
    "ShimFiles",
    "behind_shims",
    "is_place_of_shims",
    "is_shim",
    "meant",
]

ASK_LIMIT_S: Final = 5.0
"""How long a manager may take to say which program it means."""

_NAMES: Final = (
    "pyenv",
    "rbenv",
    "nodenv",
    "goenv",
    "plenv",
    "phpenv",
    "asdf",
    "mise",
    "rtx",
    "volta",
    "jenv",
    "vfox",
)
_LINKED: Final = frozenset(
    {"mise", "rtx", "asdf", "volta", "volta-shim", "proto", "proto-shim", "rustup", "aqua-proxy"}
)
"""Managers that are one program, and do what the name says that they are started by."""

_PLACES: Final = re.compile(r"/shims/*|/\.volta/bin/*|/\.proto/bin/*")
_HANDS_OVER: Final = re.compile(rb"\b(%s)\b[\"']?\s+(?:exec|x|run)\b" % "|".join(_NAMES).encode())
_HEAD_BYTES: Final = 2048
_ANSWER_BYTES: Final = 1 << 16


def is_place_of_shims(directory: str) -> bool:
    """Whether a directory of this name has nothing but shims."""
    return re.search(rf"(?:{_PLACES.pattern})\Z", directory) is not None


def is_shim(program: str) -> bool:
    """Whether a file hands over to a version manager."""
    return is_place_of_shims(os.path.dirname(program)) or _manager_of(program) is not None  # noqa: PTH120


async def meant(program: str, environment: Mapping[str, str], directories: Directories) -> str | None:
    """Resolve a shim outside of projects: by files, else by asking its manager; None if unknown.

    `directories` says where nothing may be found through.
    """
    files = ShimFiles(environment, lambda path: directories.why_not(path) is None)
    found = files.program(_manager_of(program), program)
    return found if found is not None and _is_program(found) else await _asked(program, directories)


async def _asked(program: str, directories: Directories) -> str | None:
    """Ask the manager of a shim; None when it does not know.

    Nothing confines the manager. So it gets the server's variables, none of a tool, and lies where no tool
    can have put it.
    """
    environment = {
        name: text
        for name, text in directories.environment.items()
        if not (is_withheld(name) or is_private(name))
    }
    name, manager = os.path.basename(program), _path_of_manager(program, environment)  # noqa: PTH119
    if manager is None or directories.why_tools_write(manager) is not None:
        return None
    spec = ProcessSpec(
        command=manager,
        args=("which", name),
        cwd=os.sep,
        env=environment,
        timeout=ASK_LIMIT_S,
        max_output=_ANSWER_BYTES,
    )
    await on_loop()
    try:
        result = await SubprocessPrimitive().run(spec)
    except ToolExecutionError:
        return None
    answer = result.stdout.strip().partition("\n")[0].strip() if result.success else ""
    return answer if _is_program(answer) else None


def behind_shims(name: str, environment: Mapping[str, str]) -> list[str]:
    """The files that shims of this name on the PATH may stand for, as pyenv and its kin keep them."""
    found: list[str] = []
    for entry in environment.get("PATH", os.defpath).split(os.pathsep):
        shim = Path(entry, name)
        if shim.is_absolute() and is_shim(str(shim)):
            found += [
                str(path)
                for path in sorted(shim.parent.parent.glob(f"versions/*/bin/{name}"))
                if _is_program(str(path))
            ]
    return found


def _is_program(path: str) -> bool:
    is_there = path.startswith("/") and os.access(path, os.X_OK) and os.path.isfile(path)  # noqa: PTH113
    return is_there and not is_shim(path)


def _path_of_manager(program: str, environment: Mapping[str, str]) -> str | None:
    name = _manager_of(program)
    if name in _LINKED and os.path.islink(program):  # noqa: PTH114 - never raises
        return os.path.realpath(program)
    if name in _LINKED and _is_same(beside := _beside(program, name), program):
        return beside
    if name is None:
        return None
    around = Surroundings(environment)
    found = MANAGERS[name].program(around) if name in MANAGERS else around.on_path(name)
    return None if found is None else os.path.realpath(found)


def _manager_of(program: str) -> str | None:
    """The manager that a file hands over to, by its own name or by its text."""
    return _seen(program, stamp_of(program, follow=False), stamp_of(program))


@lru_cache(maxsize=1024)
def _seen(program: str, _link: Stamp | None, _file: Stamp | None) -> str | None:
    real = _name_of(program)
    if real in _LINKED:
        return None if os.path.basename(program) == real else real  # noqa: PTH119
    try:
        with open(program, "rb", buffering=0) as file:  # noqa: PTH123 - of each file on a PATH
            head = file.read(_HEAD_BYTES)
    except OSError:
        return None
    found = _HANDS_OVER.search(head) if head.startswith(b"#!") else None
    return found[1].decode() if found else None


def _name_of(program: str) -> str:
    """Return the name of a file behind all links; a hard link has the name of the manager beside it."""
    real = real_path(program)
    try:
        is_linked = os.stat(real).st_nlink > 1  # noqa: PTH116 - of each file on a PATH
    except OSError:
        is_linked = False
    if is_linked:
        for name in _LINKED:
            if _is_same(_beside(real, name), real):
                return name
    return os.path.basename(real)  # noqa: PTH119


def _beside(program: str, name: str) -> str:
    return os.path.join(os.path.dirname(program), name)  # noqa: PTH118, PTH120 - never raises


def _is_same(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)  # noqa: PTH121
    except OSError:
        return False


KEPT_S: Final = 30 * 24 * 3600.0
"""How long a directory of links is kept after it was used last."""

_USED_AGAIN_S: Final = 24 * 3600.0
_NOWHERE: Final = "/dev/null"
_NAME: Final = "programs"
_OF_THE_SYSTEM: Final = ("/bin", "/sbin", "/usr/bin", "/usr/sbin")


class PathWithoutShims:
    """Exchanges entries of PATH, for one user; `place` says where directories of links may be."""

    def __init__(self, place: Callable[[], Path]) -> None:
        self._place = place
        self._known: dict[str, tuple[Stamp | None, str | None]] = {}

    def of(self, variables: Mapping[str, str]) -> Mapping[str, str]:
        """These variables, with another PATH where a shim would be found on it."""
        if not variables.get("PATH"):
            return variables
        entries = variables["PATH"].split(os.pathsep)
        seen: dict[str, set[str]] = {}
        kept = [used for entry in entries if (used := self._used_for(entry, seen)) is not None]
        return variables if kept == entries else {**variables, "PATH": os.pathsep.join(kept) or _NOWHERE}

    def _used_for(self, entry: str, seen: dict[str, set[str]]) -> str | None:
        """Return the replacement of an entry; None without one. `seen` has the shims of entries before."""
        if is_place_of_shims(entry):
            return None
        stamp = stamp_of(entry)
        known = self._known.get(entry)
        if known is None or known[0] is None or known[0] != stamp:
            known = self._known[entry] = (settled(stamp), self._looked_up(entry, seen))
        return known[1]

    def _looked_up(self, entry: str, seen: dict[str, set[str]]) -> str | None:
        real = os.path.realpath(entry)
        place = real if real in _OF_THE_SYSTEM else entry  # of these, one often is a link to another
        if place not in seen:
            seen[place] = {os.path.basename(path) for path in _programs_in(place) if is_shim(path)}  # noqa: PTH119
        shims = {os.path.join(entry, name) for name in seen[place]}  # noqa: PTH118
        if not shims:
            return entry
        try:
            return self._directory_of(_every_name(entry) - shims)
        except OSError:
            return None

    def _directory_of(self, programs: set[str]) -> str | None:
        """A directory with a link to each of these; None where another user could change it."""
        every = sorted(programs)
        digest = hashlib.sha256("\0".join(every).encode("utf-8", "surrogateescape")).hexdigest()[:32]
        place = self._place() / _NAME
        for directory in (place.parent, place):
            make_directory(directory, mode=0o700)
        if why_others_write(str(place)) is not None:
            return None
        found = place / digest
        if not found.is_dir():
            _remove_old(place)
            _make(found, every)
        elif time.time() - found.stat().st_mtime > _USED_AGAIN_S:
            os.utime(found)
        return str(found)


def _programs_in(entry: str) -> Iterator[str]:
    """Yield the programs of a directory that may be shims."""
    links_alone = entry in _OF_THE_SYSTEM
    with suppress(OSError), os.scandir(entry) as found:
        yield from (each.path for each in found if not links_alone or each.is_symlink())


def _every_name(entry: str) -> set[str]:
    with os.scandir(entry) as found:
        return {each.path for each in found if not each.is_dir()}


def _make(directory: Path, programs: list[str]) -> None:
    made = Path(tempfile.mkdtemp(prefix=".", dir=directory.parent))
    try:
        for program in programs:
            (made / os.path.basename(program)).symlink_to(program)  # noqa: PTH119
        made.rename(directory)
    except OSError:
        shutil.rmtree(made, ignore_errors=True)
        if not directory.is_dir():  # else another process has been quicker
            raise


def _remove_old(place: Path) -> None:
    latest = time.time() - KEPT_S
    for directory in place.iterdir():
        with suppress(OSError):
            if directory.stat().st_mtime < latest:
                shutil.rmtree(directory, ignore_errors=True)


# --- the files of shims ---
# Resolve a shim in `/` by the files of its version manager, without starting anything.
#
# Only what these files say beyond doubt counts. Where the manager has more to say (a hook, a plugin, a file
# in `/`, a version that is a pattern), there is no answer here, and the manager is asked. No file is read
# that an unapproved project or another user could have written. The rules are in
# `docs/architecture/execution.md`.


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
