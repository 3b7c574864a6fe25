"""The paths of the page, and what answers each of them."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any, Final

from anyio import to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from rye_mcp.errors import RyeError
from rye_mcp.items import ItemType, check_item_id
from rye_mcp.runs.ids import check_run_id, check_stream
from rye_mcp.runs.outputs import RunOutputs, not_kept
from rye_mcp.runs.records import RUNNING
from rye_mcp.ui.documents import ICON
from rye_mcp.ui.events import change_events, log_state, questions_state, run_events
from rye_mcp.ui.guard import form_of
from rye_mcp.ui.layout import path
from rye_mcp.ui.markup import Content, tag
from rye_mcp.ui.parts import Parts
from rye_mcp.ui.views.runs import RunsQuery, runs_view

__all__ = ["ui_application"]

_BLOCK_BYTES: Final = 1 << 18
_SEE_OTHER: Final = 303
_REPORT: Final = "try the other views; RYE_TRACEBACK=1 rye ui, and report what its terminal shows"

_log = logging.getLogger(__name__)


def ui_application(parts: Parts, *, cookie: str) -> ASGIApp:
    """The views, for requests that the guard has let in; `cookie` is the name of the session's."""
    pages = _Pages(parts, cookie)
    routes = [
        Route("/", pages.first),
        Route("/session", pages.open_session, methods=["POST"]),
        Route("/icon.svg", _icon),
        Route("/runs", pages.runs),
        Route("/runs/changes", pages.changes),
        Route("/runs/{run}", pages.run),
        Route("/runs/{run}/live", pages.live),
        Route("/runs/{run}/end", pages.end, methods=["POST"]),
        Route("/runs/{run}/receipt", pages.receipt),
        Route("/runs/{run}/output/{stream}", pages.output),
        Route("/runs/{run}/output/{stream}/download", pages.download),
        Route("/items", pages.items),
        Route("/items/{type}/{item:path}/chain.svg", pages.chain),
        Route("/items/{type}/{item:path}", pages.item),
        Route("/trust", pages.trust),
        Route("/trust/ask", pages.ask_trust, methods=["POST"]),
        Route("/trust/decide", pages.decide_trust, methods=["POST"]),
        Route("/questions", pages.questions),
        Route("/questions/changes", pages.question_changes),
        Route("/questions/ask", pages.ask_question, methods=["POST"]),
        Route("/questions/agree", pages.agree, methods=["POST"]),
        Route("/questions/refuse", pages.refuse, methods=["POST"]),
        Route("/health", pages.health),
    ]
    return Starlette(
        routes=routes,
        exception_handlers={RyeError: pages.refused, 404: pages.missing, Exception: pages.refused},
    )


async def _icon(_: Request) -> Response:
    return Response(ICON, media_type="image/svg+xml")


class _Pages:
    """What answers each path. What reads files is no coroutine, so that it is done in a thread."""

    def __init__(self, parts: Parts, cookie: str) -> None:
        self._parts = parts
        self._cookie = cookie

    # --- the session ---

    async def first(self, _: Request) -> Response:
        """The first view."""
        return RedirectResponse("/runs", _SEE_OTHER)

    async def open_session(self, request: Request) -> Response:
        """A session for the secret, once, and the first view with it."""
        secret = bytearray()
        async for piece in request.stream():
            secret += piece
            if len(secret) > 1024:
                break
        cookie = self._parts.session.open(bytes(secret[:1024]).decode("utf-8", "replace"))
        if cookie is None:
            return Response(status_code=403)
        try:
            answer = await to_thread.run_sync(self.runs, request)
        except Exception as exc:  # noqa: BLE001 - the session has begun in any case, and other views may work
            answer = self.refused(request, exc)
        answer.set_cookie(self._cookie, cookie, httponly=True, samesite="strict", path="/")
        return answer

    # --- runs ---

    def runs(self, request: Request) -> Response:
        """The list of runs."""
        query = RunsQuery.of(request.query_params)
        live = self._changes if query.before is None else None
        return self._page("Runs", *runs_view(query, self._parts.log), here="/runs", live=live)

    def run(self, request: Request) -> Response:
        """One run."""
        from rye_mcp.ui.views.run import run_view

        run_id = check_run_id(request.path_params["run"])
        live = self._changes if self._parts.log.get(run_id).status == RUNNING else None
        return self._page("Run", *run_view(run_id, self._parts), here="/runs", live=live)

    @property
    def _changes(self) -> str:
        """Where a page is told that the log is another one than it shows."""
        return path("runs", "changes", seen=log_state(self._parts.log))

    async def changes(self, request: Request) -> Response:
        """Events of the log."""
        look = partial(log_state, self._parts.log)
        return _events(change_events(look, request.query_params.get("seen", "")))

    async def live(self, request: Request) -> Response:
        """What a run writes."""
        run_id = check_run_id(request.path_params["run"])
        return _events(run_events(run_id, self._parts.log, self._parts.live))

    async def end(self, request: Request) -> Response:
        """End a run."""
        from rye_mcp.verbs.runs import kill_run

        fields = await form_of(request, self._parts.session)
        if isinstance(fields, Response):
            return fields
        run_id = check_run_id(request.path_params["run"])
        await to_thread.run_sync(partial(kill_run, run_id, self._parts.log, self._parts.live))
        return RedirectResponse(path("runs", run_id), _SEE_OTHER)

    def output(self, request: Request) -> Response:
        """A stream of a run."""
        from rye_mcp.ui.views.run import OutputQuery, output_view

        run_id, stream = check_run_id(request.path_params["run"]), check_stream(request.path_params["stream"])
        query = OutputQuery.of(request.query_params)
        return self._page("Output", *output_view(run_id, stream, query, self._parts), here="/runs")

    def download(self, request: Request) -> Response:
        """The same as a file, which no browser shows."""
        run_id, stream = check_run_id(request.path_params["run"]), check_stream(request.path_params["stream"])
        outputs = RunOutputs(self._parts.state)
        if stream not in outputs.kept(run_id):
            raise not_kept(run_id, stream)

        def blocks() -> Iterator[bytes]:
            with outputs.opened(run_id, stream) as descriptor:
                offset = 0
                while block := os.pread(descriptor, _BLOCK_BYTES, offset):
                    offset += len(block)
                    yield block

        return _attachment(blocks(), f"{run_id}-{stream}.txt")

    def receipt(self, request: Request) -> Response:
        """The receipts of a run and of all that it called."""
        from rye_mcp.runs.receipts import ReceiptStore
        from rye_mcp.verbs.receipts import export_run

        run_id = check_run_id(request.path_params["run"])
        with ReceiptStore(self._parts.state) as store:
            return _attachment(iter([b"".join(export_run(run_id, store))]), f"{run_id}.ndjson")

    # --- items ---

    def items(self, request: Request) -> Response:
        """The list of items."""
        from rye_mcp.ui.views.items import ItemsQuery, items_view

        query = ItemsQuery.of(request.query_params)
        return self._page("Items", *items_view(query, self._parts), here="/items")

    async def item(self, request: Request) -> Response:
        """One item."""
        from rye_mcp.ui.views.item import explained, item_view

        item_type, item_id = _item_in(request)
        found = await explained(item_type, item_id, self._parts)

        def page() -> Response:
            return self._page(item_id, *item_view(item_type, item_id, found, self._parts), here="/items")

        return await to_thread.run_sync(page)

    async def chain(self, request: Request) -> Response:
        """The chain of a tool as a picture."""
        from rye_mcp.ui.chain_picture import as_svg
        from rye_mcp.ui.views.item import explained

        found = await explained(*_item_in(request), self._parts)
        if found.explanation is None:
            raise found.refusal or RyeError("item_not_found", "expected a tool, found another kind of item")
        return Response(as_svg(found.explanation), media_type="image/svg+xml")

    # --- trust ---

    def trust(self, _: Request) -> Response:
        """Keys, and what is undecided."""
        from rye_mcp.ui.views.trust import trust_view

        return self._page("Trust", *trust_view(self._parts), here="/trust")

    async def ask_trust(self, request: Request) -> Response:
        """Have the terminal show a code for a decision."""
        from rye_mcp.ui.views.trust import Wanted, ask_code, trust_view

        fields = await form_of(request, self._parts.session)
        if isinstance(fields, Response):
            return fields
        wanted = Wanted.of(fields)

        def page() -> Response:
            number = ask_code(wanted, self._parts)
            return self._page("Trust", *trust_view(self._parts, wanted, number), here="/trust")

        return await to_thread.run_sync(page)

    async def decide_trust(self, request: Request) -> Response:
        """Decide, with the code of the terminal."""
        from rye_mcp.ui.views.trust import Wanted, carry_out

        fields = await form_of(request, self._parts.session)
        if isinstance(fields, Response):
            return fields
        decide = partial(carry_out, Wanted.of(fields), fields.get("number", ""), fields.get("code", ""))
        await to_thread.run_sync(decide, self._parts)
        return RedirectResponse("/trust", _SEE_OTHER)

    # --- questions ---

    def questions(self, _: Request) -> Response:
        """What servers ask."""
        from rye_mcp.ui.views.questions import questions_view

        live = path("questions", "changes", seen=questions_state(self._parts.state))
        return self._page("Questions", *questions_view(self._parts), here="/questions", live=live)

    async def question_changes(self, request: Request) -> Response:
        """Events of the questions."""
        look = partial(questions_state, self._parts.state)
        return _events(change_events(look, request.query_params.get("seen", "")))

    async def ask_question(self, request: Request) -> Response:
        """Have the terminal show a code for a yes."""
        from rye_mcp.ui.views.questions import ask_code, questions_view

        fields = await form_of(request, self._parts.session)
        if isinstance(fields, Response):
            return fields

        def page() -> Response:
            asked = ask_code(fields.get("question", ""), fields.get("mark", ""), self._parts)
            return self._page("Questions", *questions_view(self._parts, *asked), here="/questions")

        return await to_thread.run_sync(page)

    async def agree(self, request: Request) -> Response:
        """Agree to a question, with the code of the terminal."""
        from rye_mcp.ui.views.questions import agree

        return await self._answer(request, agree, "question", "mark", "number", "code")

    async def refuse(self, request: Request) -> Response:
        """Refuse what a question asks."""
        from rye_mcp.ui.views.questions import refuse

        return await self._answer(request, refuse, "question", "mark")

    async def _answer(self, request: Request, act: Callable[..., None], *names: str) -> Response:
        fields = await form_of(request, self._parts.session)
        if isinstance(fields, Response):
            return fields
        given = [fields.get(name, "") for name in names]
        await to_thread.run_sync(partial(act, *given, self._parts))
        return RedirectResponse("/questions", _SEE_OTHER)

    # --- health ---

    async def health(self, request: Request) -> Response:
        """Figures, and the checks, if they were asked for."""
        from rye_mcp.ui.views.health import health_view

        query = request.query_params
        findings = await self._parts.check_up() if query.get("check") else None

        def page() -> Response:
            view = health_view(query.get("span", ""), findings, self._parts)
            return self._page("Health", *view, here="/health")

        return await to_thread.run_sync(page)

    # --- refusals ---

    def refused(self, _: Request, error: Exception) -> Response:
        """What was refused, with what helps; the terminal says that a view failed as nobody expected."""
        if isinstance(error, RyeError):
            return self._parts.frame.refusal(error)
        _log.error("a view of the page failed", exc_info=error)
        found = f"expected none of this, found {type(error).__name__}: {error}"
        return self._parts.frame.refusal(RyeError("internal", found, hint=_REPORT), status=500)

    def missing(self, request: Request, _: Exception) -> Response:
        """A path that nothing answers."""
        return self._page("Not found", tag("h1", "There is no such page"), status=404)

    def _page(self, title: str, *content: Content, **options: Any) -> HTMLResponse:
        return self._parts.frame.page(title, *content, **options)


def _item_in(request: Request) -> tuple[ItemType, str]:
    """The item that an address names; RyeError `item_not_found` or `invalid_id` for none."""
    wanted = request.path_params["type"]
    if wanted not in set(ItemType):
        raise RyeError("item_not_found", f"expected one of {', '.join(ItemType)}, found another type")
    return ItemType(wanted), check_item_id(request.path_params["item"])


def _events(events: AsyncIterator[bytes]) -> Response:
    return StreamingResponse(events, media_type="text/event-stream")


def _attachment(blocks: Iterator[bytes], name: str) -> Response:
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(blocks, media_type="application/octet-stream", headers=headers)
