"""How a run ended, in one form for programs and requests, and the hint for a missing package.

Success is never guessed: the exit code, and `success: false` in an object that the tool returns. The rules
are in `docs/architecture/execution.md`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from signal import Signals
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from lilux._dataclasses import dataclass
from lilux.primitives.errors import SupervisorError
from lilux.primitives.subprocess import StreamCounts, SubprocessResult, Usage
from rye_mcp.executor.job.decoding import Decoded, decode_output, decode_result
from rye_mcp.executor.job.enforcement import Enforcement
from rye_mcp.notices import Notice
from rye_mcp.runs.ids import STREAMS, StreamName, handle_of

if TYPE_CHECKING:
    from lilux.primitives.http_client import HttpResult
    from rye_mcp.permissions.denials import Denial

__all__ = [
    "MAX_STDERR_CHARACTERS",
    "Cut",
    "Exit",
    "Outcome",
    "Runtime",
    "missing_package_hint",
    "read_http",
    "read_lost",
    "read_process",
]

MAX_STDERR_CHARACTERS: Final = 16 * 1024
"""How much of standard error, from its end, stands in the result of a failure."""

Show = Callable[[str], str]
"""Makes paths of the private copy that ran into those of the files that people know."""

_CODES: Final[Mapping[str, str]] = {
    "exited": "tool_failed",
    "signaled": "tool_failed",
    "timeout": "timeout",
    "cancelled": "cancelled",
    "spawn_failed": "spawn_failed",
}
"""How a program ended → the code of the failure."""

_SAYS_NO: Final = "the tool says that it failed: its data has success: false"
# Not a hint that stands in the data: whoever made that could speak in the name of this program.
_READ_DATA: Final = "read its data: it says why"
_NO_ANSWER: Final = "check the address, and whether its server answers"


def _as_it_is(text: str) -> str:
    return text


# --- the parts of a result ------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Exit:
    """How a run ended.

    `kind` is that of `SubprocessResult`, `lost` when the supervisor died, or `http` for a request. A request
    has a `status_code` instead of a return code; it is None when there was no answer.
    """

    kind: str
    return_code: int | None = None
    signal: int | None = None
    status_code: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return it as data."""
        answer: dict[str, Any] = {"kind": self.kind, "return_code": self.return_code}
        if self.signal is not None:
            answer["signal"] = self.signal
        if self.status_code is not None:
            answer["status_code"] = self.status_code
        return answer


@dataclass(frozen=True, slots=True)
class Cut:
    """A stream of which bytes were left out; `kept` bytes of it, from its beginning, are in a file."""

    stream: StreamName
    total: int
    omitted: int
    kept: int

    def notice(self, run_id: str) -> Notice:
        """Return the notice about the cut, which names the place of the rest."""
        what = f"{self.omitted} of {self.total} bytes of {self.stream} were left out"
        if not self.kept:
            return Notice("output_cut", f"{what}, and were not kept")
        kept = "all of it is" if self.kept == self.total else f"its first {self.kept} bytes are"
        return Notice("output_cut", f"{what}; {kept} in {handle_of(run_id, self.stream)}")


@dataclass(frozen=True, slots=True)
class Runtime:
    """Whether a program ran in an interpreter that waited for the call; why not, in a word of `WHY_COLD`."""

    why_cold: str | None = None
    is_warm: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return it as data."""
        if self.is_warm:
            return {"runtime": "warm"}
        return {"runtime": "cold", **({} if self.why_cold is None else {"why_cold": self.why_cold})}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a primitive, as far as it alone can tell.

    `code` and `error` are None for a success, `hint` where that of the table of errors will do. `stdout` is
    what a tool printed beside its data, None where the data is all of it. `stderr` is its end. `digests` has
    the SHA-256 of everything that was written to each stream.
    """

    success: bool
    data: Any
    exit: Exit
    duration_ms: float
    code: str | None = None
    error: str | None = None
    hint: str | None = None
    stdout: str | None = None
    stderr: str | None = None
    cuts: tuple[Cut, ...] = ()
    digests: tuple[tuple[StreamName, str], ...] = ()
    usage: Usage | None = None
    notices: tuple[Notice, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    enforced: Enforcement | None = None
    runtime: Runtime | None = None
    denied: Denial | None = None

    @property
    def truncated(self) -> bool:
        """Whether bytes of any stream were left out."""
        return bool(self.cuts)


# --- from a primitive's result to an outcome ------------------------------------


def read_process(
    result: SubprocessResult,
    *,
    timeout: float | None = None,
    show: Show = _as_it_is,
    last_line: bool = True,
) -> Outcome:
    """Read the result of a program; `timeout` is for the message; `last_line` as in `decode_output`."""
    decoded = _data_of(result, last_line)
    code, error = _failure_of(result, decoded.value, timeout)
    aside = None if decoded.source in ("stdout", "text") else result.stdout
    return Outcome(
        success=code is None,
        data=_shown(decoded.value, show),
        exit=Exit(result.kind, result.return_code, result.signal),
        duration_ms=result.duration_ms,
        code=code,
        error=None if error is None else show(error),
        hint=_READ_DATA if result.success and code is not None else _hint_of(result),
        stdout=None if aside is None else show(aside),
        stderr=_tail(show(result.stderr)),
        cuts=tuple(_cuts(result.streams)),
        digests=tuple(_digests(result.streams)),
        usage=result.usage,
        notices=(*decoded.notices, *_notices(result)),
        metadata={"data_from": decoded.source},
    )


def read_http(result: HttpResult) -> Outcome:
    """Read the result of a request."""
    code, error, hint = None, None, None if result.success else _NO_ANSWER
    if not result.success:
        code = "timeout" if result.error_code == "timeout" else "tool_failed"
        error = result.error or f"expected a good answer, found status {result.status_code}"
    elif _says_no(result.body):
        code, error = "tool_failed", _SAYS_NO
    facts = {
        "data_from": "body",
        "attempts": result.attempts,
        "encoding": result.encoding,
        "content_type": result.headers.get("content-type"),
        "error_code": result.error_code,
    }
    return Outcome(
        success=code is None,
        data=result.body,
        exit=Exit("http", status_code=result.status_code or None),
        duration_ms=result.duration_ms,
        code=code,
        error=error,
        hint=_READ_DATA if code == "tool_failed" and result.body is not None else hint,
        notices=tuple(Notice("http", words) for words in (*result.notices, *map(_sink, result.failed_sinks))),
        metadata={name: value for name, value in facts.items() if value is not None},
    )


def read_lost(error: SupervisorError, duration_ms: float) -> Outcome:
    """Return the outcome of a run whose supervisor failed: it is over, but how far it got is unknown."""
    return Outcome(
        success=False,
        data=None,
        exit=Exit("lost"),
        duration_ms=duration_ms,
        code="lost",
        error=f"expected the supervisor to see the run to its end, found {error.code}: {error.message}",
        metadata={"data_from": "none"},
    )


def _hint_of(result: SubprocessResult) -> str | None:
    """Say how to give a program the package that it did not find."""
    return missing_package_hint(result.stderr) if result.kind == "exited" and not result.success else None


def _sink(words: str) -> str:
    return f"a sink has failed: {words}"


def _data_of(result: SubprocessResult, last_line: bool) -> Decoded:
    if result.kind == "spawn_failed":
        return Decoded(None, "none")
    if result.result is not None and result.result.strip():
        return decode_result(result.result, counts=result.streams.get("result"))
    return decode_output(result.stdout, counts=result.streams.get("stdout"), last_line=last_line)


def _failure_of(
    result: SubprocessResult, data: Any, timeout: float | None
) -> tuple[str, str] | tuple[None, None]:
    """The code of a failure and a sentence, or neither."""
    if result.error is not None and result.error.code == "isolation_unavailable":
        return "isolation_unavailable", _sentence(result, timeout)
    if not result.success:
        return _CODES.get(result.kind, "tool_failed"), _sentence(result, timeout)
    return ("tool_failed", _SAYS_NO) if _says_no(data) else (None, None)


def _sentence(result: SubprocessResult, timeout: float | None) -> str:
    match result.kind:
        case "exited":
            return f"expected the tool to end with exit code 0, found {result.return_code}"
        case "signaled":
            return f"expected the tool to end by itself, found that {_signal(result.signal)} ended it"
        case "timeout":
            limit = "in time" if timeout is None else f"within {timeout:g} s"
            return f"expected the tool to end {limit}, found it running, and ended it"
        case "cancelled":
            return "expected the tool to end by itself, found that the run was cancelled"
        case _:
            why = result.stderr if result.error is None else result.error.message
            return f"expected to start the program, found: {why}"


def _signal(number: int | None) -> str:
    try:
        return f"signal {number} ({Signals(number or 0).name})"
    except ValueError:
        return f"signal {number}"


def _says_no(data: Any) -> bool:
    return isinstance(data, dict) and data.get("success") is False


def _cuts(streams: Mapping[str, StreamCounts]) -> Iterator[Cut]:
    for name in STREAMS:
        counts = streams.get(name)
        if counts is not None and counts.omitted:
            yield Cut(name, counts.total, counts.omitted, counts.spooled)


def _digests(streams: Mapping[str, StreamCounts]) -> Iterator[tuple[StreamName, str]]:
    for name in STREAMS:
        counts = streams.get(name)
        if counts is not None and counts.sha256 is not None:
            yield name, counts.sha256


def _notices(result: SubprocessResult) -> Iterator[Notice]:
    if result.encoding == "lossy":
        yield Notice("not_utf8", "some output was no UTF-8; U+FFFD stands where it was not")
    if result.cleanup is not None and result.cleanup.state != "complete":
        pids = ", ".join(map(str, result.cleanup.pids))
        yield Notice("processes_left", f"processes of the tool could not be ended: {pids}")
    elif result.cleanup is not None and result.cleanup.ended:
        yield Notice("background_ended", _BACKGROUND_ENDED)


_BACKGROUND_ENDED: Final = (
    "the tool had left processes running, and they were ended with the call, as always; "
    "to start one that goes on, call rye/process/spawn"
)


def _tail(text: str) -> str:
    """The end of a text, with a mark where something stood before it."""
    if len(text) <= MAX_STDERR_CHARACTERS:
        return text
    left_out = len(text) - MAX_STDERR_CHARACTERS
    return f"[… {left_out} characters before …]\n{text[left_out:]}"


def _shown(value: Any, show: Show) -> Any:
    """The same value, with `show` applied to its texts (not to its keys)."""
    if show is _as_it_is:
        return value
    if isinstance(value, str):
        return show(value)
    if isinstance(value, list):
        return [_shown(each, show) for each in value]
    if isinstance(value, dict):
        return {name: _shown(each, show) for name, each in value.items()}
    return value


_LOOKED_AT: Final = 8 << 10
"""How much of standard error, from its end: 8 KiB."""

_PYTHON: Final = re.compile(
    r"^ModuleNotFoundError: No module named '([A-Za-z_][A-Za-z0-9_.]{0,99})'", re.M | re.A
)
_NODE: Final = re.compile(
    r"(?:^Error: Cannot find module '|^Error \[ERR_MODULE_NOT_FOUND\]: Cannot find (?:package|module) ')"
    r"((?:@[a-z0-9][a-z0-9._-]{0,99}/)?[a-zA-Z0-9][a-zA-Z0-9._-]{0,99})(?:/[A-Za-z0-9._/-]{0,200})?'",
    re.MULTILINE | re.ASCII,
)

_NO_TSX: Final = re.compile(r"^expected tsx, or a Node\.js that reads TypeScript", re.MULTILINE)

_UNKNOWN_ISSUER: Final = re.compile(r"^\s+cause: invalid peer certificate: (UnknownIssuer)$", re.MULTILINE)

_PACKAGES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "attr": "attrs",
        "bs4": "beautifulsoup4",
        "cv2": "opencv-python",
        "dateutil": "python-dateutil",
        "dotenv": "python-dotenv",
        "PIL": "pillow",
        "serial": "pyserial",
        "skimage": "scikit-image",
        "sklearn": "scikit-learn",
        "yaml": "pyyaml",
    }
)
"""Modules whose package has another name."""


def missing_package_hint(stderr: str) -> str | None:
    """The hint for what a program wrote when it ended; None when no package was missing."""
    end = stderr[-_LOOKED_AT:]
    for pattern, hint in _HINTS:
        if found := pattern.findall(end):
            return hint(found[-1])
    return None


def _of_python(module: str) -> str | None:
    name = module.partition(".")[0]
    if name in sys.stdlib_module_names:
        return None
    package = _PACKAGES.get(name, name)
    return (
        f"the module {name} is not installed where this tool runs. Either let uv install it: write "
        f"'# /// script', '# dependencies = [\"{package}\"]' and '# ///' at the top of the file, and name "
        "rye/core/runtimes/uv_script_runtime as its executor. Or install it in the project: python3 -m venv "
        f".venv && .venv/bin/pip install {package} && rye trust project. Look first whether the package is "
        "really called so, and sign the tool again if you changed it"
    )


def _of_node(package: str) -> str | None:
    return (
        f"the package {package} is not installed where this tool runs: in the project, run "
        f"npm install {package} (it writes package.json, and node_modules), then approve the project: "
        "rye trust project. Packages of a project that nobody approved are not used"
    )


def _of_typescript(found: str) -> str:
    return (
        "npm install tsx in the project, then approve the project: rye trust project; or install it for all "
        "projects: npm install --global tsx"
    )


def _of_uv(found: str) -> str:
    return (
        "uv does not trust the certificate of the server that has the packages. If your network has a "
        "certificate authority of its own, set SSL_CERT_FILE to its file where rye-mcp runs"
    )


_HINTS: Final[tuple[tuple[re.Pattern[str], Callable[[str], str | None]], ...]] = (
    (_PYTHON, _of_python),
    (_NODE, _of_node),
    (_NO_TSX, _of_typescript),
    (_UNKNOWN_ISSUER, _of_uv),
)
