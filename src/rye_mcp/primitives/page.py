"""Read a page of the web: text, JSON, or HTML as Markdown, a piece at a time.

Only public addresses are asked, on redirects too, without secrets. HTML is converted in a process of its own
(`_markdown`); a page that cannot be converted is given as it is, and `format` says so. What configuration and
arguments mean is in docs/architecture/bridge.md.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from typing import Any, Final, Self

from lilux.primitives.errors import ConfigurationError, ToolExecutionError
from lilux.primitives.http_client import HttpClientPrimitive, HttpResult
from lilux.primitives.subprocess import ProcessSpec, SubprocessPrimitive
from rye_mcp.errors import RyeError
from rye_mcp.executor.job.in_process import InProcessCall
from rye_mcp.executor.job.outcomes import Outcome, read_http
from rye_mcp.executor.job.primitives import Surroundings
from rye_mcp.primitives._work import WorkJob

__all__ = ["PagePrimitive"]

DEFAULT_LENGTH: Final = 50_000
"""How many characters are given when nobody says how many."""

MAX_HTML_CHARACTERS: Final = 2 << 20
"""How much of a page is converted; the answer says when there was more."""

_MAX_RESPONSE_BYTES: Final = 5 << 20
_CONVERT_TIMEOUT_S: Final = 10
_MAX_MARKDOWN_BYTES: Final = 16 << 20
_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
_ACCEPT: Final = "text/markdown, text/html;q=0.9, application/json;q=0.9, text/*;q=0.8, */*;q=0.5"


class PagePrimitive:
    """Reads pages. `http` is the client that asks."""

    def __init__(self, environment: Mapping[str, str], http: HttpClientPrimitive | None = None) -> None:
        self._http = http or HttpClientPrimitive()
        self._environment = {
            name: environment[name] for name in ("PATH", "HOME", "LANG") if name in environment
        }

    @classmethod
    def open_in(cls, surroundings: Surroundings) -> Self:
        """One for an executor."""
        return cls(surroundings.environment)

    def job(self, call: InProcessCall) -> WorkJob:
        """Read the page that the arguments of a call name."""
        if not isinstance(call.arguments.get("url"), str):
            what = "expected url in the arguments of the tool, found none"
            raise RyeError("invalid_parameters", what, item_id=call.tool.item_id)
        return WorkJob(("GET", "{url}"), partial(self._read, call), call.timeout, net="any")

    async def close(self) -> None:
        """Close the connections of this event loop."""
        await self._http.close()

    async def _read(self, call: InProcessCall) -> Outcome:
        config = {
            "url": "{url}",
            "follow_redirects": True,
            "timeout": call.timeout,
            "max_response_bytes": call.config.get("max_response_bytes", _MAX_RESPONSE_BYTES),
            "headers": {"Accept": _ACCEPT, "User-Agent": f"rye-mcp/{version('rye-mcp')}"},
        }
        try:
            result = await self._http.execute(config, {"url": call.arguments["url"]})
        except ConfigurationError as exc:  # the caller did not write the template
            raise ToolExecutionError(exc.message.replace("{url} as url", "url")) from exc
        outcome = read_http(result)
        if result.error_code == "host_refused":  # no option of this tool lets it pass
            refused = (result.error or "").partition(";")[0]
            return replace(outcome, error=refused, hint="name an address of the public web")
        if result.body is None:
            return outcome
        data = await self._page(result, call)
        if not result.success:
            return replace(outcome, data=data)
        # What a page says of success is not about this tool.
        return replace(outcome, success=True, code=None, error=None, hint=None, data=data)

    async def _page(self, result: HttpResult, call: InProcessCall) -> dict[str, Any]:
        kind = result.headers.get("content-type", "").partition(";")[0].strip().lower()
        page = {"url": result.url, "status": result.status_code, "content_type": kind}
        if not isinstance(result.body, str) or result.encoding == "json":
            return page | _json_piece(result.body, call.arguments)
        if kind in _HTML and not call.arguments.get("raw", False):
            return page | await self._article(result.body, result.url or "", call)
        name = "base64" if result.encoding == "base64" else "html" if kind in _HTML else "text"
        return page | _piece(name, result.body, call.arguments)

    async def _article(self, body: str, url: str, call: InProcessCall) -> dict[str, Any]:
        """The text of an HTML page; the page itself where it cannot be converted."""
        limit = call.config.get("convert_timeout", _CONVERT_TIMEOUT_S)
        converted = await self._converted(body, url, limit)
        if converted is None:
            return _piece("html", body, call.arguments)
        named: dict[str, Any] = {"title": converted["title"]} if converted["title"] else {}
        if len(body) > MAX_HTML_CHARACTERS:
            named["truncated"] = True
        return named | _piece("markdown", converted["markdown"], call.arguments)

    async def _converted(self, html: str, base: str, limit: float) -> dict[str, str] | None:
        """The page as Markdown; None when that took too long, or too much."""
        program = ["-I", "-m", "rye_mcp.primitives._markdown", base]
        spec = ProcessSpec(
            command=sys.executable,
            args=program,
            cwd=os.sep,
            env=self._environment,
            input=html[:MAX_HTML_CHARACTERS].encode("utf-8", "replace"),
            timeout=limit,
            max_output=_MAX_MARKDOWN_BYTES,
        )
        done = await SubprocessPrimitive().run(spec)
        if not done.success or done.truncated:
            return None
        found: dict[str, str] = json.loads(done.stdout)
        return found


def _json_piece(value: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """A value as it is, when all of it was asked for and fits; else a piece of its text."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    whole = not arguments.get("start", 0) and len(text) <= arguments.get("length", DEFAULT_LENGTH)
    return {"format": "json", "content": value} if whole else _piece("text", text, arguments)


def _piece(kind: str, text: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    start = arguments.get("start", 0)
    end = start + arguments.get("length", DEFAULT_LENGTH)
    answer = {"format": kind, "content": text[start:end]}
    return answer | ({"next_start": end, "total": len(text)} if end < len(text) else {})
