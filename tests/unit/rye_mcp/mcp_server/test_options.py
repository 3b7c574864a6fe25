"""The keys that workers share: where they come from, and what is none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rye_mcp.mcp_server.options import find_state_keys
from tests.trust_world import refused

KEYS = ("a" * 32, "b" * 40)


def test_keys_come_from_a_file_before_the_environment_and_leave_it(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.touch(0o600)
    file.write_text(f"{KEYS[0]}\n  {KEYS[1]}\n\n{KEYS[0]}\n")
    environment = {"RYE_HTTP_STATE_KEY": KEYS[1], "HOME": "/"}
    assert find_state_keys(file, environment) == KEYS
    assert environment == {"HOME": "/"}
    assert find_state_keys(None, {"RYE_HTTP_STATE_KEY": f" {KEYS[1]} "}) == KEYS[1:]
    assert find_state_keys(None, {}) == ()


@pytest.mark.parametrize("text", ["", " \n", "a" * 31, f"{'a' * 32} b"])
def test_what_can_be_guessed_is_no_key_and_is_not_shown(text: str) -> None:
    error = refused("cannot_listen", lambda: find_state_keys(None, {"RYE_HTTP_STATE_KEY": text}))
    assert "aaa" not in error.message


def test_keys_that_others_may_read_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(KEYS[0])
    os.chmod(file, 0o640)  # noqa: PTH101
    refused("unsafe_permissions", lambda: find_state_keys(file, {}))
