"""Verbs for agents, as tools: `explain`, `verify`, `runs` and `save`, of the project of the executor.

It is always an agent that asks, also when a person runs the tool. What looks at many files does so in a
thread; the answer has a limit, and says how much it left out. The arguments are in
docs/architecture/bridge.md.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Any, Final, Self

from anyio import to_thread

from rye_mcp.apart import in_turn
from rye_mcp.configuration import code_policy
from rye_mcp.errors import RyeError, addressed_to_a_person
from rye_mcp.executor.decider import SAVER, is_saver, require_switched_on
from rye_mcp.executor.job.in_process import InProcessCall
from rye_mcp.executor.job.outcomes import Outcome
from rye_mcp.executor.job.primitives import Surroundings
from rye_mcp.items import SpaceName
from rye_mcp.primitives._work import WorkJob, success
from rye_mcp.runs.log import RunLog
from rye_mcp.runs.records import RUNNING
from rye_mcp.trust.keys import KeyRing
from rye_mcp.trust.scope import SignerKind
from rye_mcp.verbs.context import Context
from rye_mcp.verbs.explain import ExplainRequest, explain
from rye_mcp.verbs.programs import ProgramRequest, take_back, write_program
from rye_mcp.verbs.runs import RunList, RunsRequest, list_runs
from rye_mcp.verbs.sign import SignRequest, sign
from rye_mcp.verbs.survey import Survey, SurveyRequest, survey

__all__ = ["VerbsPrimitive"]

_EVERYTHING: Final = "*"
_LIMIT: Final = 100
_THIS: Final = "rye/core/runs"

Verb = Callable[[Mapping[str, Any], Surroundings], Awaitable[dict[str, Any]]]


class VerbsPrimitive:
    """The verbs that agents have as tools."""

    confines = True
    """They start nothing and connect to nothing, whatever a tool says."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._surroundings = surroundings

    @classmethod
    def open_in(cls, surroundings: Surroundings) -> Self:
        """Those of an executor."""
        return cls(surroundings)

    def job(self, call: InProcessCall) -> WorkJob:
        """Return the work of the tool's configuration, with the arguments of the call."""
        name = call.config.get("verb")
        verb = VERBS.get(name) if isinstance(name, str) else None
        if verb is None:
            what = f"expected one of {', '.join(VERBS)} as verb, found {name!r:.60}"
            raise RyeError("invalid_item", what, where=call.tool.path, item_id=call.tool.item_id)
        if verb is _save and not is_saver(call.tool):
            what = f"expected only {SAVER} to save programs, found {call.tool.item_id}"
            raise RyeError("out_of_scope", what, item_id=call.tool.item_id, hint=f"call {SAVER}")
        return WorkJob((str(name),), partial(self._done, verb, call.arguments), call.timeout)

    async def _done(self, verb: Verb, arguments: Mapping[str, Any]) -> Outcome:
        return success(await verb(arguments, self._surroundings))


def _agent(surroundings: Surroundings) -> Context:
    spaces = surroundings.spaces
    return Context(
        spaces,
        surroundings.trust,
        KeyRing(spaces.user.root, environment=surroundings.environment),
        SignerKind.AGENT,
        project=surroundings.project,
        locked=surroundings.locked,
        open_executor=surroundings.executor,
    )


async def _explain(arguments: Mapping[str, Any], surroundings: Surroundings) -> dict[str, Any]:
    request = ExplainRequest(arguments["item_id"], arguments.get("parameters"))
    return _without_status((await explain(request, _agent(surroundings))).as_dict())


async def _verify(arguments: Mapping[str, Any], surroundings: Surroundings) -> dict[str, Any]:
    space = arguments.get("space")
    request = SurveyRequest(
        arguments.get("item_id", _EVERYTHING), space=None if space is None else SpaceName(space)
    )
    async with in_turn("verbs"):
        found = await to_thread.run_sync(survey, request, _agent(surroundings))
    items = found.refused if arguments.get("refused_only", False) else found.items
    return _counted(found, items[: arguments.get("limit", _LIMIT)], len(items))


def _counted(found: Survey, shown: tuple[Any, ...], of: int) -> dict[str, Any]:
    answer = _without_status(Survey(found.items).as_dict()) | {
        "items": [addressed_to_a_person(each.as_dict()) for each in shown]
    }
    return answer | ({"left_out": of - len(shown)} if of > len(shown) else {})


async def _runs(arguments: Mapping[str, Any], surroundings: Surroundings) -> dict[str, Any]:
    if surroundings.project is None:
        raise RyeError("no_project", "expected a project for its runs, found none")
    limit = arguments.get("limit", _LIMIT)
    request = RunsRequest(
        arguments.get("item_id", _EVERYTHING),
        project=surroundings.project,
        status=arguments.get("status"),
        limit=limit + 1,
    )

    def work() -> dict[str, Any]:
        log = RunLog(surroundings.state)
        try:
            found = list_runs(request, log).runs
        finally:
            log.close()
        # The caller's own request is already in its log.
        others = (run for run in found if (run.item_id, run.status) != (_THIS, RUNNING))
        return RunList(tuple(islice(others, limit))).for_agent()

    async with in_turn("verbs"):
        return await to_thread.run_sync(work)


async def _save(arguments: Mapping[str, Any], surroundings: Surroundings) -> dict[str, Any]:
    context = _agent(surroundings)
    require_switched_on(SAVER, code_policy(context))
    request = ProgramRequest(**arguments)

    def work() -> dict[str, Any]:
        file, before = write_program(request, context)
        try:
            return _without_status(sign(SignRequest(file.item_id), context).as_dict())
        except RyeError:
            take_back(file, before)  # it is as if it had never been written
            raise

    async with in_turn("verbs"):
        return await to_thread.run_sync(work)


VERBS: Final[Mapping[str, Verb]] = MappingProxyType(
    {"explain": _explain, "verify": _verify, "runs": _runs, "save": _save}
)
"""Values of `verb`."""


def _without_status(answer: dict[str, Any]) -> dict[str, Any]:
    """That of the call is told by the call. Hints are for an agent."""
    return addressed_to_a_person({name: value for name, value in answer.items() if name != "status"})
