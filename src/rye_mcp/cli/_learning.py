"""`rye dev --learn`: run a tool's examples, or one call, under observation, and print what it may need.

The tool runs as its person could, so this is for a person at a terminal. No file is changed: what is printed
is to be read, and pasted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from lilux._dataclasses import dataclass
from rye_mcp.cli._printing import print_json, say, warn
from rye_mcp.errors import RyeError
from rye_mcp.items import ItemFile, SpaceName
from rye_mcp.metadata import Example, yaml_lines
from rye_mcp.permissions import Permissions, difference, sentence

if TYPE_CHECKING:
    from lilux.primitives.subprocess import Facts
    from rye_mcp.app import App
    from rye_mcp.executor.learning import Learner, Place
    from rye_mcp.executor.primitive_executor import PrimitiveExecutor
    from rye_mcp.trust.drafts import Draft

__all__ = ["Learned", "Subject", "block", "learn", "parse_places", "print_learned"]


@dataclass(frozen=True, slots=True)
class Subject:
    """The tool to learn about, the calls that show what it does, and what it declares now."""

    file: ItemFile
    draft: Draft | None
    calls: tuple[Example, ...]
    declared: Permissions | None
    places: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class Learned:
    """The needs of all calls together. `failed` says which of them did not succeed, and why."""

    file: ItemFile
    permissions: Permissions
    declared: Permissions | None
    notes: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return it as data."""
        declared = self.declared
        return {
            "item_id": self.file.item_id,
            "permissions": self.permissions.canonical(),
            "declared": None if declared is None else declared.canonical(),
            "missing": [] if declared is None else list(difference(declared, self.permissions)),
            "unused": [] if declared is None else list(difference(self.permissions, declared)),
            "notes": list(self.notes),
            "failed": list(self.failed),
            "block": block(self.file, self.permissions),
        }


def parse_places(texts: list[str]) -> tuple[Place, ...]:
    """The hosts of `--resolve`; wrong use for another form."""
    from rye_mcp.executor.learning import Place

    try:
        return tuple(map(Place.parse, texts))
    except ValueError:
        raise typer.BadParameter("expected NAME:PORT:ADDRESS", param_hint="--resolve") from None


def block(file: ItemFile, permissions: Permissions) -> str:
    """The permissions as they stand in the metadata of such a file."""
    said = permissions.canonical()
    marks = [mark for mark in ("//", "#") if f"{mark} /// rye".encode() in file.content]
    if file.path.suffix == ".py" and not marks:
        return f"PERMISSIONS = {_python(said)}"
    lines = yaml_lines({"permissions": said}) if said else ["permissions: {}"]
    before = f"{marks[0]} " if marks else ""
    return "\n".join(f"{before}{line}" for line in lines)


def _python(said: Mapping[str, Any] | str) -> str:
    if isinstance(said, str):
        return f'"{said}"'
    entries = (f'"{name}": {_python_value(value)}' for name, value in said.items())
    return f"{{{', '.join(entries)}}}"


def _python_value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_python_value, value))}]"
    return '"{}"'.format(str(value).replace("\\", "\\\\").replace('"', '\\"'))


async def learn(subject: Subject, app: App) -> Learned:
    """Run every call under observation; RyeError where nothing can be seen."""
    from lilux.primitives.subprocess import SubprocessPrimitive

    can = await SubprocessPrimitive().probe()
    found: Permissions | None = None
    notes: dict[str, None] = {}
    failed: list[str] = []
    if can.cell is None:
        notes[f"hosts are known by their addresses only: no cell can be made here ({can.no_cell})"] = None
    for number, call in enumerate(subject.calls):
        learner, error = await _observed(subject, call, app, can)
        if error is not None:
            failed.append(f"call {number}: {error}")
        proposal = learner.proposal
        found = proposal.permissions if found is None else found.join(proposal.permissions)
        notes |= dict.fromkeys(proposal.notes)
    return Learned(subject.file, found or Permissions(), subject.declared, tuple(notes), tuple(failed))


async def _observed(subject: Subject, call: Example, app: App, can: Facts) -> tuple[Learner, str | None]:
    """One call, again as long as it asks for ports that were not open; there is an end to ports."""
    from rye_mcp.executor.learning import Learner, surroundings
    from rye_mcp.executor.primitive_executor import Watch

    settings = app.settings
    hidden = [app.spaces.user.root, settings.state]
    ports: set[int] = set()
    while True:
        async with _executor(subject, call, app) as (executor, project):
            where = surroundings(project, hidden, settings.environment)
            learner = Learner(where, can, subject.declared, subject.places)
            learner.ports |= ports
            result = await executor.run(
                subject.file.item_id,
                dict(call.parameters),
                use_lockfile=subject.draft is None,
                watch=Watch(observer=learner),
            )
        if learner.is_blind:
            what = f"expected a tool that runs as a program of its own, found {subject.file.item_id}"
            raise RyeError("chain_invalid", what, item_id=subject.file.item_id)
        if not learner.open_more_ports():
            break
        ports = learner.ports
    expected = result.success or result.code == call.expected_code
    return learner, None if expected else f"{result.code}: {result.error}"


@asynccontextmanager
async def _executor(
    subject: Subject, call: Example, app: App
) -> AsyncIterator[tuple[PrimitiveExecutor, Path | None]]:
    """Yield the executor of a call and its project: this one, or a fresh one with the example's files."""
    import anyio

    from rye_mcp.verbs.examples import project_of

    @asynccontextmanager
    async def closing(executor: PrimitiveExecutor) -> AsyncIterator[PrimitiveExecutor]:
        try:
            yield executor
        finally:
            with anyio.CancelScope(shield=True):
                await executor.close()

    if not call.files:
        async with closing(_made(subject, app, app.settings.project)) as executor:
            yield executor, app.settings.project
        return
    with project_of(call) as project:
        async with closing(_made(subject, app, project, is_fresh=True)) as executor:
            yield executor, project


def _made(subject: Subject, app: App, project: Path | None, *, is_fresh: bool = False) -> PrimitiveExecutor:
    from rye_mcp.executor.drafts import DraftExecutor

    settings = app.settings
    if subject.draft is not None:
        return DraftExecutor.of_draft(
            subject.draft,
            app.spaces,
            project=project,
            state=settings.state,
            locked=settings.locked,
            environment=settings.environment,
        )
    of_project = subject.file.space.name is SpaceName.PROJECT
    if is_fresh and project is not None:
        return app.executor_in(project, with_items=of_project)
    from rye_mcp.executor.primitive_executor import PrimitiveExecutor

    return PrimitiveExecutor.of(
        app.spaces,
        app.trust,
        project=project,
        state=settings.state,
        locked=settings.locked,
        environment=settings.environment,
        writes_locks=lambda space: False,
    )


def print_learned(learned: Learned, *, as_json: bool) -> None:
    """The block, what it says, and how it differs from what is declared."""
    if as_json:
        print_json(learned.as_dict())
        return
    for line in _lines(learned):
        say(line)
    for note in (*learned.failed, *learned.notes):
        warn(note)


def _lines(learned: Learned) -> Iterator[str]:
    yield from block(learned.file, learned.permissions).splitlines()
    yield ""
    yield f"{learned.file.item_id} {sentence(learned.permissions)}"
    if learned.declared is None:
        yield "it declares nothing now"
        return
    yield from (f"+ {each}" for each in difference(learned.declared, learned.permissions))
    yield from (f"- {each}" for each in difference(learned.permissions, learned.declared))
    if learned.declared == learned.permissions:
        yield "this is what it declares"
