"""What a client is told when a prompt, a resource or a list is refused, or fails."""

from __future__ import annotations

import pytest
from mcp.shared.exceptions import MCPError

from rye_mcp.errors import RyeError
from rye_mcp.mcp_server.requests import protocol_error

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
