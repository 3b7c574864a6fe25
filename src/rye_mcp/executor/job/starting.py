"""Where a program is started, which file that is, and what to install if it is missing.

The program is the real file behind all links and shims; a caller that runs the primitive itself names its
program and directory, and gets them. The rules are in `docs/architecture/execution.md`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from lilux._dataclasses import dataclass
from lilux._files import real_path
from lilux.primitives.subprocess import Halves, ProcessSpec, RuntimeSpec
from rye_mcp.errors import RyeError
from rye_mcp.executor.environment.shims import PathWithoutShims, is_shim, meant
from rye_mcp.executor.job.in_process import InProcessCall
from rye_mcp.items import printable
from rye_mcp.notices import Notice
from rye_mcp.trust.directories import Directories, Look

__all__ = [
    "WORKING_DIRECTORY",
    "Missing",
    "Starting",
    "how_to_install",
    "install_hint",
    "why_not_there",
    "without_shims",
]

WORKING_DIRECTORY: Final = "RYE_WORKING_DIRECTORY"
"""Where a program is to go that is started in `/` instead."""

_NOWHERE: Final = "/dev/null"
_VERSION: Final = re.compile(r"[-.\d]*\Z")
_CONFIGURATION: Final = "pyvenv.cfg"

Located = tuple[str, str | None]
"""A program, and the place to look for it; None for the PATH of the process."""


class Starting:
    """The rule for what one executor starts."""

    def __init__(self, directories: Directories) -> None:
        self.directories = directories
        self._path = PathWithoutShims(directories.state)

    async def process(self, process: Halves, *, direct: bool = False, keep_cwd: bool = False) -> Halves:
        """A process as it is started: `direct` if the caller names the program, `keep_cwd` the directory."""
        runtime, call = process
        cwd, variables, look = os.fspath(call.cwd or os.sep), process.env, Look()
        if "/" in runtime.command:
            command, searched = await self._by_path(runtime, cwd, variables, look, direct=direct)
        else:
            command, searched = await located(
                runtime.command, runtime.search_path, variables, self.directories, look
            )
        if command != runtime.command or searched != runtime.search_path:
            runtime = replace(runtime, command=command, search_path=searched)
        placed, own = self._placed(cwd, variables, look)
        if keep_cwd:
            placed = cwd
            own.pop(WORKING_DIRECTORY, None)
        if placed != call.cwd or own:
            call = replace(call, cwd=placed, env={**call.env, **own})
        return Halves(runtime, call)

    def in_process(self, call: InProcessCall) -> InProcessCall:
        """A call of a primitive of this process that may start a program."""
        cwd, own = self._placed(call.cwd, call.environment, Look())
        variables = {**call.environment, **own} if own else call.environment
        return InProcessCall(
            call.tool, call.config, call.arguments, cwd, call.timeout, variables, call.withheld
        )

    def notices(self, process: Halves, library: Path | None) -> Iterator[Notice]:
        """That a program was not started where it was to be, unless the library of its runtime knows."""
        elsewhere = process.call.env.get(WORKING_DIRECTORY)
        if elsewhere is None:
            return
        if library is not None and any(str(library) in text for half in process for text in half.args):
            return
        what = f"started in /, and not in {printable(elsewhere)}: {self.directories.why_not(elsewhere)}"
        yield Notice("started_elsewhere", f"{what}. {WORKING_DIRECTORY} names that directory")

    def _placed(self, cwd: str, variables: Mapping[str, str], look: Look) -> tuple[str, dict[str, str]]:
        """Where a program is started, and what it is told where that is somewhere else."""
        if self.directories.why_not(cwd, look) is None:
            return cwd, {}
        own = {WORKING_DIRECTORY: cwd}
        if "PATH" in variables:
            own["PATH"] = self._path.of(variables)["PATH"]
        return os.sep, own

    async def _by_path(
        self, runtime: RuntimeSpec, cwd: str, variables: Mapping[str, str], look: Look, *, direct: bool
    ) -> Located:
        path = os.path.join(cwd, runtime.command)  # noqa: PTH118 - it may be absolute
        if is_shim(path):
            behind = await meant(path, variables, self.directories)
            look.clear()  # a manager may have been asked, which takes a while
            if behind is None:
                name = os.path.basename(path)  # noqa: PTH119
                return await located(name, runtime.search_path, variables, self.directories, look)
            path = behind
        if direct:
            return path, runtime.search_path
        started = _real(path)
        why = _why_not(path, started, self.directories, look)
        if why is not None:
            what = f"expected a program that no other user can exchange, found {printable(path)}: {why}"
            raise RyeError("invalid_item", what, hint="rye trust project, or name another program")
        return started, runtime.search_path


async def located(
    name: str,
    search_path: str | None,
    variables: Mapping[str, str],
    directories: Directories,
    look: Look | None = None,
) -> Located:
    """The real file of a program that is on the PATH; without one, its name and where else to look."""
    look = Look() if look is None else look
    passed_over: list[str] = []
    path = variables.get("PATH", os.defpath) if search_path is None else search_path
    for found in _found(name, path):
        program: str | None = found
        if is_shim(found):
            passed_over.append(os.path.dirname(found))  # noqa: PTH120
            program = await meant(found, variables, directories)
            look.clear()  # as above
        started = None if program is None else _checked(program, directories, look)
        if started is not None:
            return started, None
        passed_over.append(os.path.dirname(found))  # noqa: PTH120
    if not passed_over:
        return name, search_path
    kept = [entry for entry in path.split(os.pathsep) if entry.rstrip("/") not in passed_over]
    return name, os.pathsep.join(kept) or _NOWHERE


async def without_shims(spec: ProcessSpec, directories: Directories) -> ProcessSpec:
    """The same process; a command that is a shim is exchanged for what it stands for in `/`."""
    if "/" in spec.command:
        return spec
    command, searched = await located(spec.command, spec.search_path, spec.env, directories)
    return replace(spec, command=command, search_path=searched)


def _found(name: str, path: str) -> Iterator[str]:
    """The executable files of this name on a PATH, in order."""
    for directory in path.split(os.pathsep):
        place = f"{directory.rstrip('/')}/{name}"
        if directory.startswith("/") and os.access(place, os.X_OK) and os.path.isfile(place):  # noqa: PTH113
            yield place


def _checked(program: str, directories: Directories, look: Look) -> str | None:
    """Resolve a program once, and check the file and the way to it."""
    started = _real(program)
    return started if _why_not(program, started, directories, look) is None else None


def _why_not(program: str, started: str, directories: Directories, look: Look) -> str | None:
    """Why a program is not started: the way to it leads elsewhere, or the file does."""
    return directories.why_not(program, look) or directories.why_not(started, look)


def _real(program: str) -> str:
    """The real file, unless the name that a program is started by means something to it."""
    real = real_path(program)
    here = os.path.dirname(program)  # noqa: PTH120 - in every call
    places = (os.path.dirname(here), here)  # noqa: PTH120
    in_environment = any(os.path.exists(f"{place}/{_CONFIGURATION}") for place in places)  # noqa: PTH110
    return program if in_environment or _stem(program) != _stem(real) else real


def _stem(path: str) -> str:
    return _VERSION.sub("", os.path.basename(path))  # noqa: PTH119


_DEFAULT_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_SHOWN_CHARACTERS: Final = 1024

_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "node": "Node.js (https://nodejs.org)",
        "uv": "uv (https://docs.astral.sh/uv/, or: pipx install uv)",
        "python3": "Python 3 (https://www.python.org)",
        "ruby": "Ruby (https://www.ruby-lang.org)",
        "perl": "Perl (https://www.perl.org)",
    }
)
"""Packages of programs, where the name of the program does not tell."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A program that is not there: where it was looked for, and what to do; None where nothing is known."""

    sentence: str
    hint: str | None


def how_to_install(program: str) -> str:
    """Say which package has a program."""
    return _NAMES.get(program, program)


def install_hint(program: str) -> str | None:
    """Return the hint for a missing program; None for a path, which no package is named after."""
    if "/" in program:
        return None
    return f"install {how_to_install(program)}, or put it on the PATH"


def why_not_there(spec: ProcessSpec) -> Missing | None:
    """Why the program of a process cannot be started; None when it is there."""
    if any(Path(path).exists() for path in _candidates(spec)):
        return None
    if "/" in spec.command:
        return Missing(f"expected the program {spec.command}, found that it does not exist", None)
    searched = _search_path(spec)[:_SHOWN_CHARACTERS]
    what = f"expected {spec.command} on the PATH of the tool, found none (searched {searched})"
    return Missing(what, install_hint(spec.command))


def _candidates(spec: ProcessSpec) -> Iterator[str]:
    if "/" in spec.command:
        yield os.path.join(spec.cwd or "", spec.command)  # noqa: PTH118 - it may be absolute
        return
    for directory in _search_path(spec).split(os.pathsep):
        if directory.startswith("/"):
            yield f"{directory}/{spec.command}"


def _search_path(spec: ProcessSpec) -> str:
    found = spec.env.get("PATH", _DEFAULT_PATH) if spec.search_path is None else spec.search_path
    return os.fsdecode(found)
