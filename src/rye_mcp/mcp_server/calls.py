"""From the checked arguments of a call to the request of a verb, and from its result to data."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, AsyncExitStack, nullcontext
from dataclasses import field, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from lilux._dataclasses import dataclass
from rye_mcp.apart import apart, in_turn, off_loop
from rye_mcp.app import App
from rye_mcp.errors import RyeError
from rye_mcp.executor.caller import TraceContext
from rye_mcp.executor.primitive_executor import Watch
from rye_mcp.items import ItemType, SpaceName
from rye_mcp.mcp_server.answers import QuestionAsked
from rye_mcp.mcp_server.background_runs import BackgroundRuns
from rye_mcp.mcp_server.confirmation import Confirmer
from rye_mcp.mcp_server.file_changes import FileChanges, Progress, looking
from rye_mcp.mcp_server.progress import Reporter, Send, Tell, counting, reporting, sending
from rye_mcp.mcp_server.requests import span_of_call
from rye_mcp.runs.results import as_bytes
from rye_mcp.runs.shelf import Shelf
from rye_mcp.verbs.context import Context
from rye_mcp.verbs.execute import Executed, ExecuteRequest, execute, log_refusal
from rye_mcp.verbs.load import LoadRequest, load
from rye_mcp.verbs.runs import OutputRequest, read_output
from rye_mcp.verbs.search import SearchRequest, search
from rye_mcp.verbs.sign import SignRequest, sign
from rye_mcp.visible import visible_lines

__all__ = ["CALLS", "Asked", "run_tool"]

MAX_PIECE_BYTES: Final = 64 << 10
"""How much `load` reads at once of what was kept."""

MAX_PIECE_ANSWER_BYTES: Final = 96_000
"""How long the answer with a piece may become by what is escaped in it."""

SHORTEST_PIECE_BYTES: Final = 1024

_OF_OUTPUT: Final = frozenset({"stream", "offset", "length", "pattern"})

OnOutput = Callable[[str, bytes, int], None]

Call = Callable[[dict[str, Any], "Asked"], Awaitable[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class Asked:
    """The surroundings of a call besides its arguments: the parts for its project, and the caller.

    `tell` tells the client how far it is, `sender` makes what sends it log messages by a logger; None when it
    does not want to know. `runs` are those of the server, `trace` is what a tool is told of the trace.
    `confirmer` asks a person first, where somebody has to agree. `changes` notices what changes of files.
    `keeping` keeps the parts open for what goes on after the call.
    """

    app: App
    tell: Tell | None = None
    sender: Callable[[str], Send] | None = None
    client: str | None = None
    runs: BackgroundRuns = field(default_factory=BackgroundRuns)
    trace: TraceContext | None = None
    confirmer: Confirmer | None = None
    changes: FileChanges = field(default_factory=FileChanges)
    keeping: Callable[[App], AbstractContextManager[None]] = lambda _: nullcontext()

    def context(self) -> Context:
        """The context for verbs: the caller is an agent."""
        context = self.app.context(client=self.client, trace=self.trace)
        confirmer, context = self.confirmer, replace(context, span=span_of_call)
        if confirmer is None:
            return context
        return replace(context, agree=confirmer.inner, record=confirmer.record)


async def _search(arguments: dict[str, Any], asked: Asked) -> Mapping[str, Any]:
    space = _space(arguments.pop("space") if arguments["space"] != "all" else None)
    request = SearchRequest(**{**arguments, "space": space})

    freshness = asked.changes.freshness_of(asked.app, asked.runs.beside)

    def work(progress: Progress) -> Mapping[str, Any]:
        catalog = asked.app.kept_catalog()
        freshness.bring_up_to_date(catalog, progress)
        return search(request, asked.context(), catalog).as_dict()

    # A first index takes its time, and others are to be heard; a search in another project is one of them.
    async with in_turn(f"search {asked.app.settings.project}"), AsyncExitStack() as stack:
        if asked.tell is None:
            return await looking(work)
        reporter = await stack.enter_async_context(reporting(asked.tell))
        return await looking(work, counting(reporter))


async def _load(arguments: dict[str, Any], asked: Asked) -> Mapping[str, Any]:
    _require_one_of(arguments, "load", _OF_OUTPUT, "destination", "overwrite", "source")
    if "run_id" in arguments:
        wanted = OutputRequest(
            arguments["run_id"], **{name: arguments[name] for name in _OF_OUTPUT & arguments.keys()}
        )
        shelf = asked.app.executor().shelf
        return await apart(lambda: _fitting_piece(wanted, shelf))
    request = LoadRequest(
        arguments["item_id"],
        ItemType(arguments["item_type"]),
        source=_space(arguments.get("source")),
        destination=_space(arguments.get("destination")),
        overwrite=arguments["overwrite"],
        file=arguments.get("file"),
    )
    context = asked.context()
    return await apart(lambda: load(request, context).as_dict())


def _fitting_piece(request: OutputRequest, shelf: Shelf) -> Mapping[str, Any]:
    """A piece that fits into an answer; `next_offset` says where to go on."""
    request = replace(request, length=min(request.length, MAX_PIECE_BYTES))
    while True:
        facts = read_output(request, shelf).as_dict()
        length = max(len(as_bytes(facts)), len(visible_lines(facts["content"]).encode()))
        if length <= MAX_PIECE_ANSWER_BYTES or request.length <= SHORTEST_PIECE_BYTES:
            return facts
        fitting = request.length * MAX_PIECE_ANSWER_BYTES // length
        request = replace(request, length=max(SHORTEST_PIECE_BYTES, fitting))


async def _execute(arguments: dict[str, Any], asked: Asked) -> Mapping[str, Any]:
    _require_one_of(arguments, "execute", frozenset({"action"}), "parameters", "timeout", "dry_run", "async")
    if "run_id" in arguments:
        if arguments.get("action") == "cancel":
            return await asked.runs.cancel(arguments["run_id"])
        return await off_loop(partial(asked.runs.status, arguments["run_id"]))
    request = ExecuteRequest(
        arguments["item_id"],
        ItemType(arguments["item_type"]),
        arguments["parameters"],
        dry_run=arguments["dry_run"],
        timeout=arguments.get("timeout"),
    )
    if arguments["async"]:
        return await _in_background(request, asked, detail=arguments["detail"])
    return (await _run(request, asked)).as_dict(detail=arguments["detail"])


async def run_tool(item_id: str, parameters: Mapping[str, Any], asked: Asked) -> Mapping[str, Any]:
    """Run a tool that is one of MCP itself."""
    request = ExecuteRequest(item_id, parameters=parameters)
    return (await _run(request, asked)).as_dict()


async def _run(request: ExecuteRequest, asked: Asked) -> Executed:
    """Run it; if a program has to ask, its calls so far are kept for the call that brings the answer."""
    try:
        return await _agreed_and_run(request, asked)
    except QuestionAsked as exc:
        if asked.confirmer is not None:
            await asked.confirmer.keep(exc)
        raise


async def _agreed_and_run(request: ExecuteRequest, asked: Asked) -> Executed:
    """Run it as soon as somebody has agreed, where somebody has to."""
    agreed = await _agreed(request, asked)
    try:
        return await _watched(agreed, asked)
    except RyeError as exc:
        confirmer = asked.confirmer
        asks = exc.code == "permissions_widened" and agreed.agreed is None and not request.dry_run
        if not asks or confirmer is None:
            raise
    return await _watched(await _agreed(request, asked, is_widened=True), asked)


async def _agreed(
    request: ExecuteRequest, asked: Asked, *, in_background: bool = False, is_widened: bool = False
) -> ExecuteRequest:
    if asked.confirmer is None:
        return request
    context = asked.context()
    try:
        await asked.confirmer.take_answer()
        return await asked.confirmer.run(request, context, in_background=in_background, is_widened=is_widened)
    except RyeError as exc:
        await off_loop(partial(log_refusal, request, exc, context), shielded=True)
        raise


async def _watched(request: ExecuteRequest, asked: Asked) -> Executed:
    async with AsyncExitStack() as stack:
        heard: list[OnOutput] = []
        reporter: Reporter | None = None
        if asked.tell is not None:
            reporter = await stack.enter_async_context(reporting(asked.tell))
            heard.append(reporter.on_output)
        if asked.sender is not None:
            send = asked.sender(request.item_id)
            heard.append((await stack.enter_async_context(sending(send))).on_output)
        try:
            return await execute(request, asked.context(), watch=_watch_of(heard, reporter))
        finally:
            asked.changes.look_again(asked.app)


def _watch_of(heard: list[OnOutput], reporter: Reporter | None) -> Watch | None:
    """Return a watch that tells all listeners of output, and a reporter the rest; None without listeners."""

    def on_output(stream: str, data: bytes, skipped: int) -> None:
        for each in heard:
            each(stream, data, skipped)

    if reporter is None:
        return Watch(on_output=on_output) if heard else None
    return Watch(on_output=on_output, on_call=reporter.on_call, on_placing=reporter.on_placing)


async def _in_background(request: ExecuteRequest, asked: Asked, *, detail: bool) -> Mapping[str, Any]:
    if request.item_type is not ItemType.TOOL or request.dry_run:
        what = "expected a tool that runs beside async: true, found something that is answered at once"
        raise RyeError("unknown_argument", what, hint="leave out async")
    context, agreed = asked.context(), await _agreed(request, asked, in_background=True)

    async def run(watch: Watch) -> Mapping[str, Any]:
        try:
            with asked.keeping(asked.app):
                return (await execute(agreed, context, watch=watch)).as_dict(detail=detail)
        finally:
            asked.changes.look_again(asked.app)

    return await asked.runs.start(request.item_id, run)


def _require_one_of(arguments: dict[str, Any], name: str, of_run: frozenset[str], *of_item: str) -> None:
    """An item or a run is named, and nothing is given that belongs to the other."""
    named = [each for each in ("item_id", "run_id") if each in arguments]
    if len(named) != 1:
        found = "both" if named else "neither"
        what = f"expected item_id or run_id for {name}, found {found}"
        raise RyeError("invalid_parameters", what, hint="give item_id for an item, or run_id for a run")
    others = of_item if named == ["run_id"] else tuple(sorted(of_run))
    wrong = [each for each in others if arguments.get(each) not in (None, False, {})]
    if wrong:
        what = f"expected no {', '.join(wrong)} beside {named[0]}, found it"
        raise RyeError("unknown_argument", what, hint=f"leave out {', '.join(wrong)}")


async def _sign(arguments: dict[str, Any], asked: Asked) -> Mapping[str, Any]:
    request = SignRequest(
        arguments["item_id"],
        ItemType(arguments["item_type"]),
        source=SpaceName(arguments["source"]),
        companions=tuple(arguments["with"]),
    )
    context = asked.context()
    if asked.confirmer is not None:
        await asked.confirmer.take_answer()
        request = await asked.confirmer.signing(request, context)
    try:
        return await apart(lambda: sign(request, context).as_dict())
    finally:
        asked.changes.look_again(asked.app)


def _space(name: str | None) -> SpaceName | None:
    return None if name is None else SpaceName(name)


CALLS: Final[Mapping[str, Call]] = MappingProxyType(
    {"search": _search, "load": _load, "execute": _execute, "sign": _sign}
)
"""Name of a tool → what a call of it does."""
