"""Requests over loopback, beside bare httpx with the same settings; each side keeps its one connection."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from harness.loopback import loopback
from lilux.primitives.http_client import HttpClientPrimitive, render
from sections.case import Case

ORDER = {"items": [{"id": number, "name": f"item {number}"} for number in range(20)]}


@contextmanager
def cases(directory: Path) -> Iterator[Sequence[Case]]:
    """The cases, against a server in another process."""
    with loopback() as address, asyncio.Runner() as runner:
        both = _Both(address, runner.get_loop())
        yield [
            Case("GET 1 KB of JSON", both.get, both.get_bare, is_right=_is_right, max_ratio=1.1),
            Case("POST 1 KB of JSON", both.post, both.post_bare, is_right=_is_right, max_ratio=1.1),
            Case("GET 100 KB of JSON", both.large, both.large_bare, is_right=_is_right, max_ratio=1.1),
            Case("GET, rendered before", both.send, both.get_bare, is_right=_is_right),
        ]
        both.close()


def _is_right(answer: Any) -> bool:
    body = answer.json() if isinstance(answer, httpx.Response) else answer.body
    return body["ok"] is True


class _Both:
    """The same requests through lilux and through httpx. Templates and decoding are part of them."""

    def __init__(self, address: str, loop: asyncio.AbstractEventLoop) -> None:
        self._address = address
        self._loop = loop
        self._http = HttpClientPrimitive()
        self._bare = httpx.AsyncClient(
            limits=httpx.Limits(max_keepalive_connections=10, max_connections=20), timeout=httpx.Timeout(30.0)
        )
        auth = {"type": "bearer", "token": "token"}
        self._get = {"url": f"{address}/json/{{id}}?q={{q}}", "headers": {"X-Tenant": "acme"}, "auth": auth}
        self._post = {"url": f"{address}/json", "method": "POST", "body": "{order}", "auth": auth}
        self._rendered = render(self._get, {"id": 7, "q": "x"})

    def get(self) -> Any:
        return self._run(self._http.execute(self._get, {"id": 7, "q": "x"}))

    def get_bare(self) -> Any:
        headers = {"X-Tenant": "acme", "Authorization": "Bearer token"}
        return self._decoded(self._bare.get(f"{self._address}/json/7?q=x", headers=headers))

    def post(self) -> Any:
        return self._run(self._http.execute(self._post, {"order": ORDER}))

    def post_bare(self) -> Any:
        headers = {"Authorization": "Bearer token"}
        return self._decoded(self._bare.post(f"{self._address}/json", json=ORDER, headers=headers))

    def large(self) -> Any:
        return self._run(self._http.execute({"url": f"{self._address}/large"}, {}))

    def large_bare(self) -> Any:
        return self._decoded(self._bare.get(f"{self._address}/large"))

    def send(self) -> Any:
        return self._run(self._http.send(self._rendered))

    def close(self) -> None:
        self._run(self._http.close())
        self._run(self._bare.aclose())

    def _run(self, request: Coroutine[Any, Any, Any]) -> Any:
        return self._loop.run_until_complete(request)

    def _decoded(self, request: Coroutine[Any, Any, httpx.Response]) -> httpx.Response:
        response: httpx.Response = self._run(request)
        response.json()
        return response
