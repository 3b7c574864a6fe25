"""What came of a run, as bytes between a node and the server, read strictly.

The server takes nothing of it as a statement about itself: handles of the node stay there, and a code that
this version does not know is a refusal of the node.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Annotated, Any, Final, NoReturn

import msgspec

from lilux._dataclasses import dataclass
from lilux._json import ValueCount
from lilux.primitives.subprocess import Usage
from rye_mcp.errors import ERRORS, RyeError
from rye_mcp.executor.elsewhere import ON_NODE, on_node
from rye_mcp.executor.job.decoding import require_shallow
from rye_mcp.executor.job.enforcement import Enforcement
from rye_mcp.executor.job.outcomes import MAX_STDERR_CHARACTERS, Cut, Exit, Outcome, Runtime
from rye_mcp.executor.results import ExecutionResult
from rye_mcp.notices import Notice
from rye_mcp.permissions import read_permissions
from rye_mcp.permissions.denials import Denial
from rye_mcp.runs.ids import StreamName, is_run_id

__all__ = [
    "MAX_RESULT_BYTES",
    "MAX_RESULT_VALUES",
    "SMALL_BYTES",
    "Remote",
    "decode_refusal",
    "decode_result",
    "encode_refusal",
    "encode_result",
]

MAX_RESULT_BYTES: Final = 64 << 20
"""How long a result may be on its way."""

SMALL_BYTES: Final = 16 << 10
"""Up to which length a result is written and read at once: changing to a thread would take longer."""

MAX_RESULT_VALUES: Final = 1_000_000
"""How many values it may hold: each takes up to a microsecond, and a hundred bytes of memory, to be read."""

_MAX_TEXT: Final = 64 << 10
"""How many characters the texts of a refusal may have."""

_MAX_REFUSAL_BYTES: Final = 2 << 20
"""How long a refusal may be, however its texts are escaped; and a result without data and output."""

_MAX_MARK: Final = 100
"""How many characters a mark has that stands where something was left out."""

_UNKNOWN: Final = "node_refused"

_MOST: Final = 1 << 53
_LONGEST_MS: Final = 1e12
"""Numbers about a run are smaller than these; those in its data may be any that JSON has."""

_OF_THIS_SERVER: Final = frozenset({"approval_required", "confirmation_required", "permissions_widened"})
"""Refusals that make this server ask somebody, and send the call again: no node has it do that."""

_KINDS: Final = frozenset(
    ["exited", "signaled", "timeout", "cancelled", "spawn_failed", "lost", "http", "primitive"]
)
_PARTS: Final = ("exit", "usage", "enforced", "notices")
"""Values with defaults and no rule about more names: each has to be exactly as it was sent."""

_WELL_FORMED: Final = ("exit", "usage", "enforced", "why_cold")
"""What the log keeps as JSON: there is no half a character in it."""

_OVER: Final = frozenset({"exited", "http", "primitive"})
"""The kinds of ends that a success may have."""

_OF_THE_TOOL: Final = frozenset({"data", "stdout"})
"""What may be as long as the tool likes: of both, a part is shown."""

_DIGEST: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Remote:
    """An outcome that a node tells of; `run_id` and `receipt` are those of its own log."""

    outcome: Outcome
    run_id: str
    receipt: str | None
    sealed: bool


_Said = Annotated[str, msgspec.Meta(max_length=_MAX_TEXT)]


class _Strict(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    pass


class _Cut(_Strict):
    stream: StreamName
    total: int
    omitted: int


class _Denied(_Strict):
    certain: tuple[str, ...]
    likely: tuple[str, ...]
    would_need: dict[str, Any] | str
    notes: tuple[str, ...]


class _Result(_Strict):
    success: bool
    data: Any
    error: str | None
    code: str | None
    hint: str | None
    duration_ms: float
    run_id: str
    receipt: str | None
    exit: Exit
    stdout: str | None
    stderr: Annotated[str, msgspec.Meta(max_length=MAX_STDERR_CHARACTERS + _MAX_MARK)] | None
    cuts: tuple[_Cut, ...]
    usage: Usage | None
    sealed: bool
    notices: tuple[Notice, ...]
    enforced: Enforcement | None
    warm: bool | None
    why_cold: str | None
    denied: _Denied | None
    kept: tuple[str, ...]


class _Refusal(_Strict):
    code: str
    error: _Said
    hint: _Said


def encode_result(result: ExecutionResult) -> bytes:
    """The result of a run on this machine; RyeError `answer_too_long` for one that is too long."""
    denied = result.denied
    found = {
        "success": result.success,
        "data": result.data,
        "error": result.error,
        "code": result.code,
        "hint": result.hint,
        "duration_ms": result.duration_ms,
        "run_id": result.run_id,
        "receipt": result.receipt,
        "exit": None if result.exit is None else asdict(result.exit),
        "stdout": result.stdout,
        "stderr": result.stderr,
        "cuts": [
            {"stream": each.stream, "total": each.total, "omitted": each.omitted} for each in result.cuts
        ],
        "usage": None if result.usage is None else asdict(result.usage),
        "sealed": bool(result.sealed),
        "notices": [each.as_dict() for each in result.notices if each.code != "output_cut"],
        "enforced": None if result.enforced is None else asdict(result.enforced),
        "warm": None if result.runtime is None else result.runtime.is_warm,
        "why_cold": None if result.runtime is None else result.runtime.why_cold,
        "denied": None if denied is None else _denied(denied),
        "kept": [each.name for each in result.kept],
    }
    data = json.dumps(found, separators=(",", ":")).encode("ascii")
    if len(data) > MAX_RESULT_BYTES:
        what = f"expected a result of at most {MAX_RESULT_BYTES} bytes, found {len(data)}"
        raise RyeError("answer_too_long", what, item_id=result.item_id)
    if not _is_read_soon(data):
        what = f"expected a result of at most {MAX_RESULT_VALUES} values, found more"
        raise RyeError("answer_too_long", what, item_id=result.item_id)
    return data


def decode_result(data: bytes) -> Remote:
    """The result that a node sent; RyeError `lost` for anything that `encode_result` does not write."""
    if not _is_read_soon(data):
        raise _malformed()
    try:
        said = json.loads(data, parse_constant=_no_number, parse_float=_number)
        found = msgspec.convert(said, _Result)
        require_shallow(found.data, data.count(b"[") + data.count(b"{"))
        _require_short({name: value for name, value in said.items() if name not in _OF_THE_TOOL})
        json.dumps([said[name] for name in _WELL_FORMED], ensure_ascii=False).encode()
    except (ValueError, msgspec.ValidationError, RecursionError) as exc:
        raise _malformed() from exc
    parts = [getattr(found, name) for name in _PARTS]
    if json.loads(json.dumps(msgspec.to_builtins(parts))) != [said[name] for name in _PARTS]:
        raise _malformed()
    if not _has_possible_numbers(found) or not _has_possible_names(found):
        raise _malformed()
    if found.success != (found.code is None) or (found.success and found.exit.kind not in _OVER):
        raise _malformed()
    return Remote(_outcome(found), found.run_id, found.receipt, found.sealed)


def _has_possible_numbers(found: _Result) -> bool:
    return 0 <= found.duration_ms <= _LONGEST_MS and all(abs(each) < _MOST for each in _numbers(found))


def _has_possible_names(found: _Result) -> bool:
    is_receipt = _DIGEST.fullmatch(found.receipt or "0" * 64) is not None
    return found.exit.kind in _KINDS and is_run_id(found.run_id) and is_receipt


def encode_refusal(error: RyeError) -> bytes:
    """A refusal: its code and what it says."""
    told = {"code": error.code, "error": error.message[:_MAX_TEXT], "hint": error.hint[:_MAX_TEXT]}
    return json.dumps(told).encode("ascii")


def decode_refusal(data: bytes) -> RyeError:
    """The refusal that a node sent, as one of this program; RyeError `lost` for anything else."""
    if len(data) > _MAX_REFUSAL_BYTES:
        raise _malformed()
    try:
        found = msgspec.convert(json.loads(data), _Refusal)
    except (ValueError, msgspec.ValidationError, RecursionError) as exc:
        raise _malformed() from exc
    return RyeError(_known(found.code), found.error, hint=f"{ON_NODE}{found.hint}")


def _require_short(about: Mapping[str, Any]) -> None:
    """ValueError for more than can be shown: what is said about a run is never kept instead."""
    if len(json.dumps(about)) > _MAX_REFUSAL_BYTES:
        raise ValueError


def _is_read_soon(data: bytes) -> bool:
    """Whether JSON holds no more values than a result may."""
    return len(data) <= MAX_RESULT_VALUES or ValueCount(MAX_RESULT_VALUES).feed(data)


def _outcome(found: _Result) -> Outcome:
    """The same outcome, with the words of this program."""
    return Outcome(
        success=found.success,
        data=found.data,
        exit=found.exit,
        duration_ms=found.duration_ms,
        code=None if found.code is None else _known(found.code),
        error=found.error,
        hint=None if found.hint is None else f"{ON_NODE}{found.hint}",
        stdout=found.stdout,
        stderr=found.stderr,
        cuts=tuple(Cut(each.stream, each.total, each.omitted, 0) for each in found.cuts),
        usage=found.usage,
        notices=tuple(_notices(found)),
        enforced=found.enforced,
        runtime=None if found.warm is None else Runtime(found.why_cold, found.warm),
        denied=None if found.denied is None else _denial(found.denied),
    )


def _numbers(found: _Result) -> Iterator[float]:
    """What is said about the run in numbers; the log and its receipts have no room for any others."""
    for part in (found.exit, found.usage, *found.cuts):
        said = {} if part is None else msgspec.to_builtins(part)
        yield from (value for value in said.values() if isinstance(value, int | float))


def _number(text: str) -> float:
    """A number that JSON can say again; ValueError for one that is too large."""
    if not math.isfinite(found := float(text)):
        raise ValueError(text)
    return found


def _no_number(text: str) -> NoReturn:
    raise ValueError(text)


def _notices(found: _Result) -> list[Notice]:
    notices = list(map(on_node, found.notices))
    if found.kept:
        names = ", ".join(found.kept)
        message = f"these files of the run stay on the node, where its run is {found.run_id}: {names}"
        notices.append(Notice("kept_on_node", message))
    return notices


def _denied(denied: Denial) -> dict[str, Any]:
    needed = denied.would_need.canonical()
    return {
        "certain": denied.certain,
        "likely": denied.likely,
        "would_need": needed,
        "notes": denied.notes,
    }


def _denial(found: _Denied) -> Denial:
    needed, problems = read_permissions(found.would_need)
    if problems:
        raise _malformed()
    return Denial(found.certain, found.likely, needed, found.notes)


def _known(code: str) -> str:
    return code if code in ERRORS and code not in _OF_THIS_SERVER else _UNKNOWN


def _malformed() -> RyeError:
    return RyeError("lost", "expected the result of a run from the node, found something else")
