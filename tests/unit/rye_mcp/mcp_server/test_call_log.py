"""What the line of a call says when it has no answer: nothing that a client gave to a tool of its own."""

from __future__ import annotations

import logging

import pytest
from mcp.types import CallToolResult

from rye_mcp.mcp_server.call_log import logged
from rye_mcp.mcp_server.logs import JsonLines

SECRET = "hunter2-hunter2"

pytestmark = pytest.mark.anyio


class _Kept(logging.Handler):
    """Formats at once, as the log does: what belongs to the call is known then."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(JsonLines())
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.text += self.format(record)


@pytest.mark.parametrize(("tool", "is_told"), [("execute", True), ("demo_greet", False)])
async def test_of_a_call_without_an_answer_only_an_id_that_is_one_is_told(tool: str, is_told: bool) -> None:
    async def ended() -> CallToolResult:
        raise TimeoutError

    log, kept = logging.getLogger("rye_mcp.mcp_server.call_log"), _Kept()
    level = log.level
    log.addHandler(kept)
    log.setLevel(logging.INFO)
    try:
        with pytest.raises(TimeoutError):
            await logged(tool, {"item_id": SECRET, "run_id": SECRET}, None, ended)
    finally:
        log.removeHandler(kept)
        log.setLevel(level)
    assert '"outcome": "cancelled"' in kept.text
    assert (SECRET in kept.text) is is_told
