"""The table of errors: every code of the contract, and what a program gets of an error."""

import json
from pathlib import Path

import pytest

from rye_mcp.errors import ERRORS, RyeError

# Codes that programs rely on. One may be added; none may go, or be called something else.
STABLE = [
    "unsigned",
    "malformed_signature",
    "content_changed",
    "bad_signature",
    "untrusted_key",
    "out_of_scope",
    "revoked_key",
    "secret_missing",
    "signer_changed",
    "variable_not_set",
    "weak_key",
    "not_in_manifest",
    "unsafe_path",
    "permissions_widened",
    "isolation_unavailable",
    "denied_by_policy",
    "unsafe_permissions",
    "too_large",
    "not_text",
    "invalid_id",
    "item_not_found",
    "ambiguous_item",
    "invalid_item",
    "not_named",
    "not_runnable",
    "executor_not_found",
    "executor_cycle",
    "chain_too_deep",
    "chain_invalid",
    "invalid_parameters",
    "unknown_argument",
    "no_project",
    "person_required",
    "confirmation_required",
    "confirmation_declined",
    "confirmation_outdated",
    "lock_mismatch",
    "lock_missing",
    "code_switched_off",
    "malformed_handle",
    "malformed_lockfile",
    "spawn_failed",
    "tool_failed",
    "timeout",
    "cancelled",
    "lost",
    "invalid_query",
    "invalid_run_id",
    "malformed_receipt",
    "receipt_not_found",
    "receipts_broken",
    "run_not_live",
    "no_fitting_node",
    "workspace_unavailable",
    "question_not_found",
    "answers_too_long",
    "approval_required",
    "call_not_allowed",
    "calls_too_deep",
    "malformed_call",
    "too_many_calls",
    "too_many_calls_at_once",
    "run_not_found",
    "too_many_runs",
    "output_not_found",
    "answer_too_long",
    "remote_changed",
    "internal",
    "cannot_listen",
    "client_configuration",
    "no_key",
    "unusable_key",
    "passphrase_required",
    "malformed_trust",
    "unknown_key",
    "document_exists",
    "document_changed",
    "item_exists",
    "read_failed",
    "write_failed",
    "artifact_not_found",
    "replay_differs",
    "code_refused",
    "engine_unreachable",
    "node_overdue",
    "node_refused",
    "edited_locally",
    "invalid_artifact",
    "invalid_reference",
    "malformed_sources",
    "project_not_approved",
    "registry_failed",
    "registry_refused",
    "registry_unreachable",
    "sources_differ",
]


def test_the_codes_are_the_stable_ones() -> None:
    assert sorted(ERRORS) == sorted(STABLE)


@pytest.mark.parametrize("code", ERRORS)
def test_every_code_has_a_sentence_and_a_hint(code: str) -> None:
    assert ERRORS[code].sentence.endswith(".")
    assert ERRORS[code].hint


def test_an_unknown_code_is_a_mistake_of_the_program() -> None:
    with pytest.raises(ValueError, match="found 'no_such_code'"):
        RyeError("no_such_code", "message")


def test_details_cannot_take_the_place_of_the_message() -> None:
    with pytest.raises(ValueError, match=r"found \['error', 'status'\]"):
        RyeError("unsigned", "message", error="other", status="success")


def test_the_hint_names_what_the_error_is_about() -> None:
    assert RyeError("unsigned", "message", item_id="demo/hello").hint == "rye sign demo/hello"
    assert RyeError("unsigned", "message").hint == "rye sign ITEM_ID"
    assert RyeError("unsigned", "message", hint="rye init").hint == "rye init"


def test_a_path_in_a_hint_is_quoted_for_a_shell() -> None:
    assert RyeError("read_failed", "message", where="a b; rm -rf x").hint == "ls -la 'a b; rm -rf x'"


def test_as_dict_is_json() -> None:
    error = RyeError("ambiguous_item", "two", where=Path("here"), candidates=[Path("a"), Path("b")])
    assert json.loads(json.dumps(error.as_dict())) == {
        "status": "error",
        "code": "ambiguous_item",
        "error": "two",
        "hint": "rename or remove one of them",
        "where": "here",
        "candidates": ["a", "b"],
    }
    assert str(error) == "two"


@pytest.mark.parametrize(
    ("found", "shown"), [("caf\udcff", "caf\\xff"), ("half \ud800", "half \\ud800"), ("ü", "ü")]
)
def test_as_dict_can_be_encoded_whatever_a_path_is_called(found: str, shown: str) -> None:
    error = RyeError(
        "unsafe_path", f"expected a file: {found}", where=Path(found), each=[Path(found), {found: found}]
    )
    answer = error.as_dict()
    assert json.dumps(answer, ensure_ascii=False).encode()
    assert (answer["error"], answer["where"]) == (f"expected a file: {shown}", shown)
    assert shown in answer["hint"]
    assert answer["each"] == [shown, {shown: shown}]
