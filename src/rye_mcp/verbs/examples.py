"""`run_examples`: run the example calls that tools declare, and compare the results with what they expect.

Everything goes through the stages of a call. Tools of the project run in it, one after the other unless they
only read; all others, and examples with `files`, each run in a fresh project that is removed afterwards.

    await run_examples(ExamplesRequest("demo/*"), context, executor_in=app.executor_in)
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from difflib import unified_diff
from pathlib import Path
from typing import Any, Final, Protocol

import anyio

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.executor.job.snapshot import private_directory
from rye_mcp.executor.primitive_executor import PrimitiveExecutor
from rye_mcp.executor.results import ExecutionResult
from rye_mcp.items import ItemFile, ItemType, SpaceName
from rye_mcp.metadata import Example, ItemMetadata, examples_of
from rye_mcp.verbs._selection import is_pattern, select
from rye_mcp.verbs.context import Context

__all__ = [
    "ExampleOutcome",
    "ExamplesRequest",
    "ExamplesResult",
    "ExecutorIn",
    "differences",
    "project_of",
    "run_examples",
]

MAX_LINES: Final = 60
"""How many lines of difference are told."""

_SHOWN: Final = 200


def differences(example: Example, found: ExecutionResult) -> tuple[str, ...]:
    """Compare a result with an example, and return all differences."""
    expected = example.expected_code
    if expected is not None:
        return () if found.code == expected else (f"expected {expected}, found {found.code or 'success'}",)
    if not found.success:
        return (f"expected success, found {found.code}: {found.error}",)
    if example.expect is None:
        return ()
    how, value = example.expect
    lines = _diff(value, found.data) if how == "data" else list(_missing(value, found.data, ""))
    if len(lines) > MAX_LINES:
        lines = [*lines[:MAX_LINES], f"… and {len(lines) - MAX_LINES} more lines"]
    return tuple(lines)


def _diff(expected: Any, found: Any) -> Sequence[str]:
    if _is_same(expected, found):
        return ()
    before, after = (_spelled(value) for value in (expected, found))
    lines = list(unified_diff(before, after, "expected", "found", lineterm="", n=2))
    return lines or (f"expected {_short(expected)}, found {_short(found)}",)


def _spelled(value: Any) -> list[str]:
    """A value as lines; a text of several lines as those."""
    if isinstance(value, str):
        return value.split("\n")
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True).split("\n")


def _missing(expected: Any, found: Any, place: str) -> Iterator[str]:
    """Yield the parts of the expected value that are missing from the one found."""
    match expected, found:
        case dict(), dict():
            yield from _missing_members(expected, found, place)
        case list(), list():
            yield from _missing_elements(expected, found, place)
        case str(), str() if expected not in found:
            yield f"{place or '/'}: expected text with {_short(expected)}, found {_short(found)}"
        case str(), str():
            pass
        case _ if not _is_same(expected, found):
            yield f"{place or '/'}: expected {_short(expected)}, found {_short(found)}"


def _missing_members(expected: dict[str, Any], found: dict[str, Any], place: str) -> Iterator[str]:
    for name, value in expected.items():
        if name in found:
            yield from _missing(value, found[name], f"{place}/{name}")
        else:
            yield f"{place}/{name}: expected {_short(value)}, found nothing"


def _missing_elements(expected: list[Any], found: list[Any], place: str) -> Iterator[str]:
    for number, value in enumerate(expected):
        if not any(_contains(value, each) for each in found):
            yield f"{place}/{number}: expected {_short(value)} in the list, found {_short(found)}"


def _contains(expected: Any, found: Any) -> bool:
    return next(_missing(expected, found, ""), None) is None


def _is_same(expected: Any, found: Any) -> bool:
    match expected, found:
        case dict(), dict():
            return expected.keys() == found.keys() and all(
                _is_same(value, found[name]) for name, value in expected.items()
            )
        case list(), list():
            return len(expected) == len(found) and all(map(_is_same, expected, found))
    return isinstance(expected, bool) == isinstance(found, bool) and bool(expected == found)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


_LAST_LINES: Final = 5
_ALL: Final = -1


class ExecutorIn(Protocol):
    """Makes an executor for which a directory is the project."""

    def __call__(self, directory: Path, *, with_items: bool) -> PrimitiveExecutor:
        """With the items of this project, or with none of a project."""
        ...


@dataclass(frozen=True, slots=True)
class ExamplesRequest:
    """A selection of examples: of one tool, or of all that match a pattern; in one space, or in all of them.

    `timeout`, in seconds, only lowers that of a tool.
    """

    item_id: str
    space: SpaceName | None = None
    timeout: float | None = None


@dataclass(frozen=True, slots=True)
class ExampleOutcome:
    """The outcome of one example. `number` is its place in the list; None if the tool was refused."""

    item_id: str
    number: int | None
    description: str = ""
    differences: tuple[str, ...] = ()
    duration_ms: float = 0.0
    error: RyeError | None = None
    stderr: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether everything was as expected."""
        return not self.differences and self.error is None

    def as_dict(self) -> dict[str, Any]:
        """Return it as data."""
        answer: dict[str, Any] = {
            "item_id": self.item_id,
            "example": self.number,
            "description": self.description,
            "status": "passed" if self.passed else "failed",
            "duration_ms": round(self.duration_ms, 3),
        }
        if not self.passed:
            answer["differences"] = list(self.differences)
            answer["stderr"] = list(self.stderr)
        if self.error is not None:
            answer["refusal"] = {
                name: each for name, each in self.error.as_dict().items() if name != "status"
            }
        return answer


@dataclass(frozen=True, slots=True)
class ExamplesResult:
    """The outcomes, by tool and place; `without` are tools that declare no example."""

    outcomes: tuple[ExampleOutcome, ...]
    without: tuple[str, ...] = ()

    @property
    def failed(self) -> tuple[ExampleOutcome, ...]:
        """Those that did not pass."""
        return tuple(outcome for outcome in self.outcomes if not outcome.passed)

    def as_dict(self) -> dict[str, Any]:
        """Return it as data; nothing has passed where nothing was run."""
        passed = bool(self.outcomes) and not self.failed
        return {
            "status": "passed" if passed else "failed",
            "examples": [outcome.as_dict() for outcome in self.outcomes],
            "without_examples": list(self.without),
            "total": len(self.outcomes),
            "passed": len(self.outcomes) - len(self.failed),
            "failed": len(self.failed),
        }


@dataclass(frozen=True, slots=True)
class _Call:
    """One example, ready to be run; `alone` when it must not run beside others."""

    item_id: str
    number: int
    example: Example
    of_project: bool
    in_project: bool
    alone: bool


async def run_examples(
    request: ExamplesRequest,
    context: Context,
    *,
    executor_in: ExecutorIn,
) -> ExamplesResult:
    """Run the examples of everything that is meant; RyeError only when nothing can be meant by the request.

    `executor_in` makes an executor for which a directory is the project.
    """
    outcomes: list[ExampleOutcome] = []
    calls: list[_Call] = []
    without: list[str] = []
    for item_id in _ids(request, context):
        try:
            found = _calls(item_id, request, context)
        except RyeError as exc:
            outcomes.append(ExampleOutcome(item_id, None, error=exc))
            continue
        calls += found or ()
        if found == []:
            without.append(item_id)
    runner = _Runner(request, context, executor_in)

    async def run_one(call: _Call) -> None:
        outcomes.append(await runner.run(call))

    async with anyio.create_task_group() as group:
        for call in calls:
            group.start_soon(run_one, call)
    ordered = sorted(outcomes, key=lambda each: (each.item_id, _ALL if each.number is None else each.number))
    return ExamplesResult(tuple(ordered), tuple(without))


def _ids(request: ExamplesRequest, context: Context) -> Sequence[str]:
    """The ids that are meant, each once."""
    if not is_pattern(request.item_id):
        return (request.item_id,)
    names = [request.space] if request.space else [space.name for space in context.spaces.accessible()]
    selection = select(context.spaces, request.item_id, names=names, types=[ItemType.TOOL])
    ids = {place.item_id for place in selection.places} | {each.item_id for each in selection.refused}
    if not ids:
        what = f"expected tools that match {request.item_id}, found none in {', '.join(names)}"
        raise RyeError("item_not_found", what, item_id=request.item_id)
    return sorted(ids)


def _calls(item_id: str, request: ExamplesRequest, context: Context) -> list[_Call] | None:
    """The examples of one tool; None for what nobody runs by itself and that has none."""
    file = context.spaces.find(item_id, ItemType.TOOL, only=request.space).item
    if request.space is SpaceName.SYSTEM and _is_there(item_id, SpaceName.USER, context):
        what = (
            f"expected {item_id} of the system space to be what runs, found that of the user in front of it"
        )
        raise RyeError("item_not_found", what, item_id=item_id)
    metadata = context.metadata(context.verify(file))
    examples = examples_of(file)
    if not examples and (metadata.is_library or metadata.is_runtime or metadata.is_primitive):
        return None
    return [_call(file, metadata, number, example) for number, example in enumerate(examples)]


def _is_there(item_id: str, space: SpaceName, context: Context) -> bool:
    try:
        context.spaces.find(item_id, ItemType.TOOL, only=space)
    except RyeError as exc:
        return exc.code != "item_not_found"
    return True


def _call(file: ItemFile, metadata: ItemMetadata, number: int, example: Example) -> _Call:
    of_project = file.space.name is SpaceName.PROJECT
    in_project = of_project and not example.files
    only_reads = (metadata.annotations or {}).get("readOnlyHint") is True
    return _Call(file.item_id, number, example, of_project, in_project, in_project and not only_reads)


class _Runner:
    """Runs examples: as many at once as there are processors, those of the project that write one by one."""

    def __init__(self, request: ExamplesRequest, context: Context, executor_in: ExecutorIn) -> None:
        self._timeout = request.timeout
        self._context = context
        self._executor_in = executor_in
        self._places = anyio.CapacityLimiter(max(2, os.cpu_count() or 1))
        self._project = anyio.Lock()

    async def run(self, call: _Call) -> ExampleOutcome:
        """Run one example."""
        if call.alone:
            async with self._project:
                return await self._run(call)
        return await self._run(call)

    async def _run(self, call: _Call) -> ExampleOutcome:
        error: RyeError | None = None
        async with self._places:
            try:
                async with self._executor(call) as executor:
                    result = await executor.run(
                        call.item_id,
                        dict(call.example.parameters),
                        timeout=self._timeout,
                        use_lockfile=call.in_project or self._context.locked,
                    )
            except RyeError as exc:
                result, error = ExecutionResult.refused(exc, item_id=call.item_id), exc
        found = differences(call.example, result)
        return ExampleOutcome(
            call.item_id,
            call.number,
            call.example.description,
            found,
            result.duration_ms,
            error if found else None,
            tuple((result.stderr or "").splitlines()[-_LAST_LINES:]),
        )

    @asynccontextmanager
    async def _executor(self, call: _Call) -> AsyncIterator[PrimitiveExecutor]:
        """Yield the executor for an example: the project's own, or one in a directory made for it."""
        if call.in_project:
            yield self._context.executor()
            return
        with project_of(call.example) as project:
            executor = self._executor_in(project, with_items=call.of_project)
            try:
                yield executor
            finally:
                with anyio.CancelScope(shield=True):
                    await executor.close()


@contextmanager
def project_of(example: Example) -> Iterator[Path]:
    """A fresh project with the files of an example; it is gone when the block ends."""
    with private_directory(os.environ) as project:
        _lay_out(project, example)
        yield project


def _lay_out(project: Path, example: Example) -> None:
    """Write the files of an example; RyeError when two of them are in each other's way."""
    (project / ".ai").mkdir()
    try:
        for relative, text in example.files.items():
            path = project / relative
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="")
    except (OSError, UnicodeEncodeError) as exc:
        raise RyeError("write_failed", f"expected room for the files of an example, found: {exc}") from exc
