"""The token of Ray opens the cluster and no call: tools do not get it, nor does its holder get calls to read.

What all processes and files of a cluster hold is looked through by tests/ray/test_secrecy.py, and a slot that
answers with a pickle is tried by tests/ray/test_pickles.py.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from rye_mcp.errors import RyeError
from rye_mcp.metadata import Cluster
from rye_mcp.nodes.cluster import sidecar_program
from rye_mcp.nodes.sidecar import PIECE_BYTES, Slot, bytes_of, end_of

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


async def test_a_token_that_others_can_read_is_refused(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("0" * 64)
    cluster = Cluster(address="127.0.0.1:6379", token_file=str(token))
    for mode in (0o640, 0o604, 0o620):
        token.chmod(mode)
        with pytest.raises(RyeError) as caught:
            sidecar_program(sys.executable, cluster, {})
        assert (caught.value.code, caught.value.hint) == ("unsafe_permissions", f"chmod go-rwx {token}")
    token.chmod(0o600)
    sidecar_program(sys.executable, cluster, {})
    token.unlink()
    os.mkfifo(token, 0o600)
    with pytest.raises(RyeError, match="expected a file with the token of a cluster"):
        sidecar_program(sys.executable, cluster, {})


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
        assert json.loads(await slot.end()) == [1, said]


@pytest.mark.parametrize("answer", [None, 7, "text", bytearray(b"x"), [b"x"], b"x" * (PIECE_BYTES + 1)])
def test_what_is_not_bytes_is_no_answer_of_a_slot(answer: Any) -> None:
    assert bytes_of(b"x" * PIECE_BYTES)
    with pytest.raises(ValueError, match="expected bytes of a slot"):
        bytes_of(answer)


@pytest.mark.parametrize("answer", [b"", b"\xff", b"7", b"[1]", b'[null, ""]', b"[[], 1]", b"[" * 100_000])
def test_what_is_not_an_end_is_none_of_a_worker(answer: bytes) -> None:
    assert end_of(b'[1, "no such file"]') == ("that it ended with exit code 1", "no such file")
    with pytest.raises(ValueError, match="expected the end of a worker"):
        end_of(answer)


async def test_a_worker_that_is_not_there_is_told_of_in_bytes() -> None:
    assert b"FileNotFoundError" in await Slot().begin(["/no/such/program"])
