"""How requests are refused, and what the log says of a call: nothing that a client gave to a tool."""

from __future__ import annotations

import logging

import pytest
from mcp.shared.exceptions import MCPError
from mcp.types import CallToolResult

from rye_mcp.errors import RyeError
from rye_mcp.mcp_server.logs import JsonLines
from rye_mcp.mcp_server.requests import logged, protocol_error

INTERNAL, INVALID_PARAMS = -32603, -32602


@pytest.mark.parametrize(
    ("error", "code", "name"),
    [
        (RyeError("item_not_found", "expected an item, found none"), INVALID_PARAMS, "item_not_found"),
        (OSError("password=hunter2"), INTERNAL, "internal"),
        (KeyError("hunter2"), INTERNAL, "internal"),
    ],
)
def test_a_failure_has_a_code_and_a_hint_and_not_the_text_of_what_nobody_expected(
    error: Exception, code: int, name: str
) -> None:
    with pytest.raises(MCPError) as found, protocol_error(uri="rye://item/tool/a"):
        raise error
    said = found.value.error
    assert (said.code, said.data["code"], said.data["uri"]) == (code, name, "rye://item/tool/a")
    assert said.data["hint"]
    assert not said.data["hint"].startswith("rye ")
    assert "hunter2" not in said.model_dump_json()


def test_an_error_of_the_protocol_stays_as_it_is() -> None:
    error = MCPError(code=-32000, message="the server is ending")
    with pytest.raises(MCPError) as found, protocol_error():
        raise error
    assert found.value is error


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

    log, kept = logging.getLogger("rye_mcp.mcp_server.requests"), _Kept()
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
