"""Jobs: what a primitive of another package does becomes an outcome, whatever it raises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from lilux.primitives.errors import ToolExecutionError
from rye_mcp.executor.job.jobs import OtherJob, Watch

pytestmark = pytest.mark.both_loops


@dataclass
class Said:
    """What such a primitive may return."""

    success: bool
    error: str | None = None


class Teleport:
    """A primitive of another package, which does what its configuration says."""

    async def execute(self, config: Mapping[str, Any]) -> Any:
        action = config["do"]
        if isinstance(action, Exception):
            raise action
        return action


async def outcome(action: object) -> tuple[bool, str | None, Any]:
    done = await OtherJob(Teleport(), {"do": action}).run(Watch(), str, None)
    assert done.exit.kind == "primitive"
    assert (done.code is None) == done.success
    return done.success, done.error, done.data


@pytest.mark.parametrize(
    ("action", "success", "said"),
    [
        ({"there": True}, True, None),
        (Said(True), True, None),
        (Said(False, "no way"), False, "no way"),
        (Said(False), False, "says that it failed"),
        (ToolExecutionError("lost in space"), False, "lost in space"),
        (KeyError("anything"), False, "KeyError"),
    ],
)
async def test_what_it_does_is_an_outcome(action: object, success: bool, said: str | None) -> None:
    done, error, data = await outcome(action)
    assert done is success
    assert (error is None) if said is None else said in (error or "")
    assert data == (None if isinstance(action, Exception) else action)


def test_what_is_shown_of_it_has_no_values() -> None:
    shown = OtherJob(Teleport(), {"do": "a secret", "timeout": 5}).shown()
    assert "a secret" not in str(shown)
    assert (shown["command"], shown["timeout"]) == (["do", "timeout"], 5)
