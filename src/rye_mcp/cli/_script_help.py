"""What a script prints with `--help`: it runs here as the person who agreed to that, and nothing else of it.

A script that its owner may not execute is started by the program that its runtime would use.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rye_mcp.verbs.adopt import Proposal

if TYPE_CHECKING:
    from lilux.primitives.subprocess import SubprocessResult

__all__ = ["Help", "help_of"]

_LIMIT_S: Final = 10
_LAST_CHARACTERS: Final = 200

_PROGRAMS: Final = {
    "python_script_runtime": ("python3",),
    "uv_script_runtime": ("uv", "run", "--script"),
    "bash_runtime": ("bash",),
    "node_runtime": ("node",),
    "perl_runtime": ("perl",),
    "ruby_runtime": ("ruby",),
}
"""The last segment of a runtime → what starts a script of its language."""

_OF_TYPESCRIPT: Final = ("tsx",)


@dataclass(frozen=True, slots=True)
class Help:
    """What was printed, and what went wrong: nothing where the script ended with 0."""

    text: str
    failure: str | None = None


async def help_of(proposal: Proposal) -> Help:
    """Run a script with `--help`."""
    from lilux.primitives.subprocess import ProcessSpec, SubprocessPrimitive

    program, *arguments = _command(proposal)
    spec = ProcessSpec(command=program, args=(*arguments, "--help"), env=dict(os.environ), timeout=_LIMIT_S)
    result = await SubprocessPrimitive().run(spec)
    return Help(f"{result.stdout}\n{result.stderr}", _failure(result))


def _command(proposal: Proposal) -> tuple[str, ...]:
    source = proposal.source
    runtime = proposal.kind.executor_id.rpartition("/")[2]
    if os.access(source, os.X_OK) or runtime not in _PROGRAMS:
        return (str(source),)
    programs = _OF_TYPESCRIPT if source.suffix == ".ts" else _PROGRAMS[runtime]
    return (*_of_project(programs, proposal.file.space.root.parent), str(source))


def _of_project(programs: tuple[str, ...], project: Path) -> tuple[str, ...]:
    """The same, with the program that the project has installed for itself, if it has."""
    name, *rest = programs
    places = (project / ".venv/bin" / name, project / "node_modules/.bin" / name)
    found = next((each for each in places if os.access(each, os.X_OK)), None)
    return (name if found is None else str(found), *rest)


def _failure(result: SubprocessResult) -> str | None:
    """How the script ended, if not well, with the last line that it wrote."""
    if result.success:
        return None
    last = result.stderr.strip().rpartition("\n")[2][-_LAST_CHARACTERS:]
    how = {"exited": f"ended with exit code {result.return_code}", "spawn_failed": "did not start"}
    ending = how.get(result.kind, f"was ended ({result.kind})")
    return f"{ending}: {last}" if last else ending
