"""A job that is a piece of work in this process, and the one form in which it ends.

A RyeError is a failure of the tool, with the refusal as its data; a ToolExecutionError is one with a
sentence. Nothing else is caught. When its time is over, what it is doing is cancelled.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import field, replace
from typing import Any, Final, Literal

import anyio

from lilux._dataclasses import dataclass
from lilux.primitives.errors import ToolExecutionError
from lilux.primitives.subprocess import Spool
from rye_mcp.errors import RyeError
from rye_mcp.executor.job.enforcement import Enforcement
from rye_mcp.executor.job.jobs import Show, Watch
from rye_mcp.executor.job.outcomes import Exit, Outcome

__all__ = ["WorkJob", "success"]

_CHECK: Final = "check the parameters of the call"


@dataclass(frozen=True, slots=True)
class WorkJob:
    """A piece of work; a dry run shows its `title`."""

    title: tuple[str, ...]
    work: Callable[[], Awaitable[Outcome]] = field(repr=False)
    timeout: float
    net: Literal["none", "any"] = "none"
    """Where it connects to."""

    def shown(self) -> dict[str, Any]:
        """Describe the work."""
        return {"command": list(self.title), "environment": [], "cwd": None, "timeout": self.timeout}

    async def run(self, watch: Watch, show: Show, spool: Spool | None) -> Outcome:
        """Do it, within its time."""
        begun = time.perf_counter()
        try:
            with anyio.fail_after(self.timeout):
                outcome = await self.work()
        except TimeoutError:
            sentence = f"expected the tool to end within {self.timeout:g} s, found it at work, and ended it"
            outcome = _failure("timeout", sentence, None)
        except RyeError as exc:
            data = {name: value for name, value in exc.as_dict().items() if name != "status"}
            outcome = replace(_failure("tool_failed", exc.message, data), hint=exc.hint)
        except ToolExecutionError as exc:
            outcome = replace(_failure("tool_failed", exc.message, None), hint=_CHECK)
        took = (time.perf_counter() - begun) * 1000
        enforced = outcome.enforced or Enforcement.in_server(self.net)
        return replace(outcome, duration_ms=took, enforced=enforced)


def success(data: Any) -> Outcome:
    """The outcome of work that was done."""
    return Outcome(True, data, Exit("primitive"), 0.0, metadata={"data_from": "body"})


def _failure(code: str, error: str, data: Any) -> Outcome:
    return replace(success(data), success=False, code=code, error=error)
