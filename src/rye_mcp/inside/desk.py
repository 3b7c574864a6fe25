"""Carries out what programs ask for, as if it came from outside: same verbs, same checks, same log.

A `Desk` serves one call from outside, and every program below it. What a program may call is decided here by
`executor.tree` before anything else is looked at; what the tool that is called may do is decided by the
executor, as always. The rules are in docs/architecture/inside.md.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from rye_mcp.apart import apart, apart_if_large, off_loop
from rye_mcp.errors import RyeError
from rye_mcp.executor.configuration.words import WordsError, read_words
from rye_mcp.executor.tree import OnCall, Program, ProgramInterrupted
from rye_mcp.inside.messages import Request
from rye_mcp.inside.record import Answer
from rye_mcp.inside.service import serving
from rye_mcp.permissions import allows_call
from rye_mcp.runs.outputs import DEFAULT_LENGTH
from rye_mcp.runs.results import as_bytes, is_result_handle, with_kept
from rye_mcp.verbs.context import Context
from rye_mcp.verbs.execute import ExecuteRequest, execute, log_refusal
from rye_mcp.verbs.load import LoadRequest, load
from rye_mcp.verbs.search import MAX_LIMIT, SearchRequest, search

if TYPE_CHECKING:
    from rye_mcp.catalog import Catalog

__all__ = ["Agree", "Desk"]

Agree = Callable[[ExecuteRequest, Context, bool], Awaitable[ExecuteRequest]]
"""Has a person agree to a call where somebody has to; the flag says that the tool may do more than before."""

_log: Final = logging.getLogger(__name__)

_ASKED: Final = frozenset({"confirmation_required", "permissions_widened"})
"""Refusals that a person's agreement would lift."""

_HITS: Final = 10
"""How many tools a search finds when nobody says how many."""


class Desk:
    """Where the programs of one call from outside ask. `context` is that of the call."""

    def __init__(self, context: Context, catalog: Callable[[], Catalog], agree: Agree | None = None) -> None:
        self._context = context
        self._catalog = catalog
        self._agree = agree

    @asynccontextmanager
    async def opened(self, program: Program, on_call: OnCall | None = None) -> AsyncIterator[int]:
        """The descriptor for a program, which is served until the block ends."""
        async with serving(partial(self._answer, program, on_call), program.answer) as descriptor:
            yield descriptor

    async def _answer(self, program: Program, on_call: OnCall | None, request: Request) -> Mapping[str, Any]:
        await program.hold()
        try:
            program.count(request.what)
            program.begin(request.what)
        except RyeError as exc:
            await self._log(program, request, exc)
            raise
        try:
            return await self._carried_out(program, on_call, request)
        except RyeError:
            raise
        except ProgramInterrupted:
            await program.stop()
            raise
        except Exception as exc:
            _log.exception("a call of a program ended with an error that nobody expected")
            what = f"expected none of this, found {type(exc).__name__}"
            raise RyeError("internal", what) from exc
        finally:
            program.end()

    async def _carried_out(
        self, program: Program, on_call: OnCall | None, request: Request
    ) -> Mapping[str, Any]:
        if request.kind == "call":
            return await self._call(program, on_call, request)
        if request.kind == "read":
            return await off_loop(partial(_read, request, self._of(program)))
        work = _search if request.kind == "search" else _describe
        return await apart(partial(work, request, program, self._of(program), self._catalog))

    async def _call(self, program: Program, on_call: OnCall | None, request: Request) -> Mapping[str, Any]:
        context = self._of(program)
        try:
            program.require_callable(request.what)
            timeout = program.time_left(request.option("timeout"))
            parameters = await self._parameters(program, request)
            context = replace(context, call=program.call_of(request.what, parameters))
            known = self._known(context, request)
        except RyeError as exc:
            await self._log(program, request, exc)
            raise
        if on_call is not None:
            outermost = program.outermost
            on_call(outermost.begun_one(), outermost.made, request.what)
        if known is not None:
            return _answered(known)
        asked = ExecuteRequest(request.what, parameters=parameters, timeout=timeout)
        as_handle = request.option("as_handle", False)
        if context.span is None:
            return await self._recorded(asked, context, on_call, as_handle=as_handle)
        with context.span(request.what) as trace:
            context = replace(context, trace=trace)
            return await self._recorded(asked, context, on_call, as_handle=as_handle)

    def _known(self, context: Context, request: Request) -> Answer | None:
        """The answer to this call, where it was made before a person was asked."""
        if context.record is None or context.call is None:
            return None
        found: Answer | None = context.record.begin(context.call.key, request.what)
        return found

    async def _recorded(
        self, asked: ExecuteRequest, context: Context, on_call: OnCall | None, *, as_handle: bool
    ) -> Mapping[str, Any]:
        """What comes of a call, which is remembered where a question could start the program again."""
        record, call = context.record, context.call
        try:
            result = await self._agreed_and_run(asked, context, on_call)
            facts: Mapping[str, Any] = result.as_dict()
            if as_handle and result.success and result.data is not None:
                facts = await off_loop(partial(_kept, facts, context))
        except RyeError as exc:
            if record is not None and call is not None:
                record.keep(call.key, exc)
            raise
        if record is not None and call is not None:
            await apart_if_large(facts, partial(record.keep, call.key, facts))
        return facts

    async def _parameters(self, program: Program, request: Request) -> Mapping[str, Any]:
        """The parameters of a call, also those that it gives as words."""
        words = request.option("words")
        if not words:
            return request.parameters
        read = partial(_read_words, request.what, words, self._of(program))
        return {**request.parameters, **await apart(read)}

    async def _agreed_and_run(self, request: ExecuteRequest, context: Context, on_call: OnCall | None) -> Any:
        run = partial(execute, context=context, watch=self.watch(on_call))
        if self._agree is None:
            try:
                return await run(request)
            except RyeError as exc:
                if exc.code in _ASKED:
                    raise _needs_approval(exc, request, context) from exc
                raise
        try:
            agreed = await self._agree(request, context, False)
            try:
                return await run(agreed)
            except RyeError as exc:
                if exc.code != "permissions_widened" or agreed.agreed is not None:
                    raise
            return await run(await self._agree(request, context, True))
        except RyeError as exc:
            if exc.code in _ASKED:
                raise _needs_approval(exc, request, context) from exc
            raise

    def watch(self, on_call: OnCall | None) -> Any:
        """Observes what a program calls; programs that it calls ask here, too."""
        from rye_mcp.executor.primitive_executor import Watch

        return Watch(on_call=on_call, inside=self.opened)

    def _of(self, program: Program) -> Context:
        """The context of what a program asks for: nobody takes its word for a person's."""
        return replace(self._context, program=program)

    async def _log(self, program: Program, request: Request, error: RyeError) -> None:
        if request.kind == "call":
            asked = ExecuteRequest(request.what)
            await off_loop(partial(log_refusal, asked, error, self._of(program)), shielded=True)


def _answered(known: Answer) -> Mapping[str, Any]:
    """What a call was answered before; RyeError for a refusal."""
    if isinstance(known, RyeError):
        raise known
    return known


def _needs_approval(error: RyeError, request: ExecuteRequest, context: Context) -> RyeError:
    path = () if context.program is None else context.program.path
    what = (
        f"expected a person to agree to {request.item_id}, called by {' → '.join(path)}, "
        f"found that nobody could be asked: {error.message}"
    )
    return RyeError("approval_required", what, hint=error.hint, item_id=request.item_id, why=error.code)


def _kept(facts: Mapping[str, Any], context: Context) -> Mapping[str, Any]:
    """The facts of a result whose data is kept."""
    results = context.executor().shelf.results
    return with_kept(facts, results.keep(as_bytes(facts["data"]), name="data"))


def _read_words(item_id: str, words: Sequence[str], context: Context) -> Mapping[str, Any]:
    """The parameters that words give, as the schema of the tool says; RyeError for other words."""
    metadata = load(LoadRequest(item_id), context).as_dict()["metadata"]
    try:
        return read_words(words, metadata.get("config_schema"))
    except WordsError as exc:
        raise RyeError("invalid_parameters", str(exc), item_id=item_id) from exc


def _read(request: Request, context: Context) -> Mapping[str, Any]:
    """A piece of a result that runs of this project have made: as text, or its very bytes in base64."""
    shelf, handle = context.executor().shelf, request.what
    offset, length = request.option("offset", 0), request.option("length", DEFAULT_LENGTH)
    if not request.option("base64") and is_result_handle(handle):
        return shelf.read(handle, offset=offset, length=length).as_dict()
    data, start, total = shelf.results.read_bytes(handle, offset=offset, length=length)
    end = start + len(data)
    return {
        "handle": handle,
        "content": base64.b64encode(data).decode(),
        "offset": start,
        "next_offset": None if end >= total else end,
        "total": total,
        "encoding": "base64",
    }


def _describe(
    request: Request, program: Program, context: Context, catalog: Callable[[], Catalog]
) -> Mapping[str, Any]:
    """Describe a tool that the program may call, without its source."""
    program.require_callable(request.what)
    found = load(LoadRequest(request.what), context).as_dict()
    metadata = found["metadata"]
    told = ("name", "description", "version", "config_schema", "output_schema")
    return {"item_id": found["item_id"], **{name: metadata[name] for name in told if metadata.get(name)}}


def _search(
    request: Request, program: Program, context: Context, catalog: Callable[[], Catalog]
) -> Mapping[str, Any]:
    """The tools that the program may call, among those that are found."""
    found = catalog()
    found.refresh()
    hits = search(SearchRequest(request.what, limit=MAX_LIMIT), context, found).as_dict()["results"]
    allowed = [each for each in hits if allows_call(program.calls, each["id"])]
    return {"results": allowed[: request.option("limit", _HITS)], "total": len(allowed)}
