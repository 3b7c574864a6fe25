"""The token of Ray opens the cluster and no call: tools do not get it, nor does its holder get calls to read.

What all processes and files of a cluster hold is looked through by tests/ray/test_secrecy.py.
"""

from __future__ import annotations

import sys

import pytest

from rye_mcp.nodes.sidecar import Slot

pytestmark = pytest.mark.anyio


async def all_of(slot: Slot) -> bytes:
    found = b""
    while data := await slot.read():
        found += data
    return found


async def test_a_worker_gets_no_variable_of_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", "/etc/ray.token")
    monkeypatch.setenv("COUNTED", "yes")
    slot = Slot()
    await slot.begin(["/usr/bin/env"])
    said = await all_of(slot)
    await slot.end()
    assert b"COUNTED=yes\n" in said
    assert b"RAY_" not in said


async def test_a_worker_that_does_not_start_says_why_and_one_that_had_a_call_says_nothing() -> None:
    code = "import sys; sys.stdin.read(1); sys.exit('no such file, secret')"
    for fed, said in ((False, "no such file, secret"), (True, "")):
        slot = Slot()
        await slot.begin([sys.executable, "-c", code])
        if fed:
            await slot.feed(0, b"x")
        else:
            slot._worker.stdin.close()
        await all_of(slot)
        assert await slot.end() == (1, said)
