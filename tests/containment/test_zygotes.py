"""What a zygote forks is parked only if the kernel says that it is where it must be, and whose child."""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.containment.client import WAITER, Client
from tests.containment.nobody import Nobody, as_root
from tests.containment.processes import is_gone_by

PREFIXES = sorted({os.path.realpath(place) for place in (sys.prefix, sys.base_prefix)})
CELL: dict[str, Any] = {"policy": {"tier": "cell", "require": "cell", "read": PREFIXES}}
GONE_S = 10.0

OMISSIONS = {
    "the files": ('            self.enter(passed[-2], "mnt")\n', ""),
    "shared memory": ('            self.enter(passed[-1], "ipc")\n', ""),
    "processes": ('            self.enter(passed[-3], "pid")\n', "            pass\n"),
    "capabilities": ('            self.give_up(order["keep"])\n', ""),
    "the bounding set": ("self.prctl(PR_CAPBSET_DROP, number, 0, 0, 0) < 0", "True"),
}
"""What a zygote with a module that was tampered with may leave out."""

OTHERS = {
    "no number": ("self.say(pid)\n", "self.say(None)\n"),
    "a number of its own": ("self.say(pid)\n", "self.say(os.getpid())\n"),
    "a number of somebody else": ("self.say(pid)\n", "self.say(1)\n"),
    "a child of its own": ("flags = CLONE_PARENT | CLONE_SETTID", "flags = CLONE_SETTID"),
    "nothing": ("self.say(pid)\n", "sys.exit(3)\n"),
}


def tampered(old: str, new: str) -> str:
    text = WAITER.read_text()
    assert text.count(old) == 1, old
    return text.replace(old, new)


def refused(client: Client, waiter: str, **fields: Any) -> tuple[str, str]:
    """The code and the sentence with which nothing is forked; the zygote ends with it."""
    zygote = client.start_zygote(waiter=waiter, **fields)
    run = client.send("run", command="", zygote=zygote.id, park={}, **fields)
    ended = client.end_of(run)
    assert ended.result["kind"] == "spawn_failed"
    client.end_of(int(zygote.header["id"]))
    assert is_gone_by(zygote.header["pid"], time.monotonic() + GONE_S)
    return ended.error, ended.result["error"]["message"]


@pytest.mark.parametrize("omitted", OMISSIONS)
def test_a_process_that_has_not_entered_the_cell_whole_is_not_parked(client: Client, omitted: str) -> None:
    code, message = refused(client, tampered(*OMISSIONS[omitted]), **CELL)
    assert code == "zygote_failed"
    assert "Operation not permitted" in message or "arrival" in message


@pytest.mark.parametrize("said", OTHERS)
@pytest.mark.parametrize("fields", [{}, CELL], ids=["none", "cell"])
def test_a_zygote_that_says_what_is_not_so_is_ended(
    client: Client, said: str, fields: dict[str, Any]
) -> None:
    assert refused(client, tampered(*OTHERS[said]), **fields)[0] == "zygote_failed"


@as_root
def test_another_user_forks_in_cells_too(nobody: Nobody) -> None:
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    if python is None:
        pytest.skip("only the interpreter of the system is there for another user")
    fields: dict[str, Any] = {"policy": {"tier": "cell", "require": "cell"}}
    with nobody.client() as client:
        zygote = client.start_zygote(command=python, **fields)
        run = client.fork(zygote.id, **fields)
        client.send("call", id=run, args=["/dev/null"])
        assert client.end_of(run).result["return_code"] == 0


@as_root
def test_no_process_of_its_user_looks_into_a_zygote(nobody: Nobody) -> None:
    """The kernel shows what may not be looked into as root's."""
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    if python is None:
        pytest.skip("only the interpreter of the system is there for another user")
    with nobody.client() as client:
        zygote = client.start_zygote(command=python)
        assert Path("/proc", str(zygote.header["pid"]), "mem").stat().st_uid == 0
