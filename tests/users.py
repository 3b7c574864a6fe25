"""Other users of the machine: what a process of theirs does, and finds."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import pytest

from rye_mcp.errors import RyeError

__all__ = ["ADA", "BOB", "as_user", "two_users"]

ADA, BOB = 4001, 4002
two_users = pytest.mark.skipif(os.getuid() != 0, reason="only root becomes other users")


def as_user(uid: int, act: Callable[[], Any]) -> Any:
    """What a process of another user finds, or the code of its refusal."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            os.write(writing, json.dumps(outcome(act)).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        found = answer.read()
    os.waitpid(child, 0)
    return json.loads(found)


def outcome(act: Callable[[], Any]) -> Any:
    try:
        return act()
    except RyeError as error:
        return error.code
