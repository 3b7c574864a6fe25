"""Somebody runs the HTTP client itself, and so names its host: a service that only this machine can reach.

A tool that names a host in its own file was signed by somebody; the configuration of a direct call was not.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.http_server import Connection, Request, serve
from tests.runtime_workshop import Workshop
from tests.trust_world import World

HTTP_CLIENT = "rye/core/primitives/http_client"


async def _secret(connection: Connection, request: Request) -> None:
    await connection.reply("200 OK", b"a secret of this machine")


def _workshop(place: Path) -> Workshop:
    workshop = Workshop(World(place))
    (workshop.project / ".ai").mkdir(parents=True, exist_ok=True)
    return workshop


@pytest.mark.parametrize(
    "given",
    [
        {"config": {"url": "{base}/"}},
        {"config": {"url": "{url}"}, "params": {"url": "{base}/"}},
        {"config": {"url": "{base}/", "mode": "stream"}},
    ],
    ids=["in the configuration", "in a parameter", "as a stream"],
)
async def test_a_direct_call_reaches_public_addresses_only(tmp_path: Path, given: dict[str, Any]) -> None:
    async with serve(_secret) as server:
        found = await _workshop(tmp_path).run(HTTP_CLIENT, _filled(given, server.url))
        assert server.requests == []
    assert (found.success, found.code) == (False, "tool_failed")
    assert "is not public (loopback)" in (found.error or "")


async def test_a_direct_call_cannot_allow_itself_more(tmp_path: Path) -> None:
    async with serve(_secret) as server:
        given = {"config": {"url": f"{server.url}/", "allow_private_hosts": True}}
        found = await _workshop(tmp_path).run(HTTP_CLIENT, given)
        assert server.requests == []
    assert (found.success, found.code) == (False, "invalid_parameters")
    assert "allow_private_hosts" in (found.error or "")


def _filled(value: Any, base: str) -> Any:
    if isinstance(value, dict):
        return {name: _filled(each, base) for name, each in value.items()}
    return value.replace("{base}", base)
