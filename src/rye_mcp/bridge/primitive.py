"""The primitive that calls a tool of another MCP server: `rye/core/primitives/mcp_client`.

It connects to the server, compares what the server says of the tool with what a person approved, calls it,
and makes an outcome of the answer. A tool that is described in another way is not called: `remote_changed`. A
call that failed is not repeated: nobody knows how far it got.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio

from lilux._dataclasses import dataclass
from lilux._json import find_issues, is_finite
from lilux.schemas import validate_parameters
from rye_mcp.apart import apart, off_loop
from rye_mcp.bridge.servers import BridgeError, Server, require_variables
from rye_mcp.errors import RyeError
from rye_mcp.executor.job.enforcement import Enforcement
from rye_mcp.executor.job.outcomes import Exit, Outcome
from rye_mcp.marks import without_marks, without_our_addresses
from rye_mcp.permissions import Host
from rye_mcp.visible import visible, visible_lines

if TYPE_CHECKING:
    from mcp.types import CallToolResult

    from lilux.primitives.subprocess import Spool
    from rye_mcp.bridge.connection import Connection, Progress
    from rye_mcp.bridge.pool import Pool
    from rye_mcp.executor.job.in_process import InProcessCall
    from rye_mcp.executor.job.jobs import Show, Watch

__all__ = [
    "McpClientPrimitive",
    "McpJob",
    "read_answer",
    "read_failure",
]

_SHOWN_CHARACTERS: Final = 2000
_UNCONFINED: Final = "its items leave unsaid what the server may do, or the policy lifts it"
_WHY_NOT_SEALED: Final = "another MCP server does it, whose code nobody signed here"


class McpClientPrimitive:
    """Calls tools of other MCP servers. Its connections are kept for the next call."""

    confines = True

    def __init__(self) -> None:
        self._pool: Pool | None = None

    def job(self, call: InProcessCall) -> McpJob:
        """Return the job for a call; RyeError `invalid_item` when its tool is described wrongly."""
        try:
            # What is withheld is told by a notice; the runtime's own variables need not be there.
            require_variables(call.tool.metadata.config or {}, {*call.environment, *call.withheld})
            server = _server(call)
            _require_reachable(server)
            tool, definition = _text(call.config, "tool"), _text(call.config, "definition")
        except RyeError as exc:
            element = call.tool
            about = {"where": element.path, "item_id": element.item_id, **exc.details}
            raise RyeError(exc.code, f"{element.item_id}: {exc.message}", hint=exc.hint, **about) from exc
        return McpJob(self, server, tool, definition, call)

    @property
    def pool(self) -> Pool:
        """The connections; the SDK is imported with the first one."""
        if self._pool is None:
            from rye_mcp.bridge.pool import Pool

            self._pool = Pool()
        return self._pool

    async def close(self) -> None:
        """End the connections of this event loop."""
        if self._pool is not None:
            await self._pool.close()


@dataclass(frozen=True, slots=True)
class McpJob:
    """One call of a tool of another server."""

    primitive: McpClientPrimitive
    server: Server
    tool: str
    definition: str
    call: InProcessCall = field(repr=False)
    why_not_sealed: str = _WHY_NOT_SEALED

    def shown(self) -> dict[str, Any]:
        """The command or the origin of the server, the names of its variables, and for how long."""
        return {
            "command": self.server.shown,
            "environment": [name for name, _ in self.server.env],
            "cwd": self.server.cwd,
            "timeout": self.call.timeout,
        }

    async def run(self, watch: Watch, show: Show, spool: Spool | None) -> Outcome:
        """Call it."""

        begun = time.perf_counter()

        def took() -> float:
            return (time.perf_counter() - begun) * 1000

        used: list[Connection] = []
        try:
            answer = await self._answer(_progress_to(watch), used)
        except BridgeError as exc:
            return replace(read_failure(exc, took()), enforced=self._enforced(used))
        schema = self.call.tool.metadata.output_schema
        outcome = await apart(partial(read_answer, answer, schema, took(), server=self.server.name))
        enforced = self._enforced(used)
        if not outcome.success and enforced is not None and enforced.level != "none":
            denied = await off_loop(partial(used[0].denied, outcome.error or ""))
            outcome = replace(outcome, hint=outcome.hint or self.server.how_to_give_more(), denied=denied)
        return replace(outcome, enforced=enforced)

    def _enforced(self, used: list[Connection]) -> Enforcement | None:
        """Return the confinement of the server; None if the server was never started."""
        if self.server.transport == "http":
            return Enforcement.in_server([self.server.address])
        if not used:
            return None
        enforced = used[0].enforced
        if enforced is None:
            return Enforcement.none(_UNCONFINED)
        return Enforcement.of(enforced, self.server.permissions)

    async def _answer(self, progress: Progress | None, used: list[Connection]) -> Any:
        """Return the server's answer; one time limit covers connecting, listing and calling."""
        limit = self.call.timeout
        with anyio.move_on_after(limit):
            connection = await self.primitive.pool.connection(self.server)
            used.append(connection)
            await self._require_approved(await connection.offered())
            return await connection.call(self.tool, self.call.arguments, timeout=limit, progress=progress)
        name = visible(self.server.name)
        what = f"expected an answer of the server {name} within {limit:g} s, found none, and gave the call up"
        raise BridgeError("timeout", what)

    async def _require_approved(self, offered: Mapping[str, Any]) -> None:
        from rye_mcp.bridge.definitions import approved_parts, changes

        found = offered.get(self.tool)
        name = visible(self.server.name)
        hint = f"rye mcp update {shlex.quote(name)} shows what changed"
        if found is None:
            what = (
                f"expected the server {name} to offer {visible(self.tool)}, found that it does not any more"
            )
            raise BridgeError("remote_changed", what, hint=hint, data={"changed": {"name": "not offered"}})
        if found.digest != self.definition:
            approved = approved_parts(self.call.tool.metadata, self.tool)
            changed = await apart(partial(changes, approved, found))
            listed = ", ".join(changed) or "what cannot be told apart"
            what = (
                f"expected the server {name} to say of {visible(self.tool)} what was approved, "
                f"found that it has changed: {listed}"
            )
            raise BridgeError("remote_changed", what, hint=hint, data={"changed": changed})


def _server(call: InProcessCall) -> Server:
    """The server of a call, with what confines it."""
    if call.bounds is None:
        return Server.of(call.config, call.cwd, None)
    return Server.of(call.config, call.cwd, call.bounds.directories, call.bounds.shared())


def _require_reachable(server: Server) -> None:
    """RyeError `denied_by_policy` for a server over HTTP that is not among the hosts of its tool.

    An address that no host stands for is only what the item says, and then nothing else is said of hosts.
    """
    permissions = server.permissions
    if server.transport != "http" or permissions.any_host or permissions.reaches(Host.parse(server.address)):
        return
    what = f"expected a server that the tool may reach, found {server.address}"
    hint = f"rye mcp update {shlex.quote(visible(server.name))} --net {server.address}"
    raise RyeError("denied_by_policy", what, hint=hint)


def _progress_to(watch: Watch) -> Progress | None:
    """Show progress to a watcher as a line on standard error."""
    told = watch.on_output
    if told is None:
        return None

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        of = "" if total is None else f" of {total:g}"
        said = visible((message or "")[:_SHOWN_CHARACTERS])
        line = f"{progress:g}{of}{': ' if message else ''}{said}\n"
        told("stderr", line.encode("utf-8", "replace"), 0)

    return tell


def _text(config: Mapping[str, Any], key: str) -> str:
    value = config.get(key)
    if not isinstance(value, str) or not value:
        what = f"config.{key}: expected text, found {type(value).__name__}"
        raise RyeError("invalid_item", what, field=f"config.{key}")
    return value


# --- results ---
# The answer of another server, as the outcome of a run.
#
# The data of a success is `content` and `structuredContent`, as they are; nothing in them speaks in the
# name of rye-mcp. An answer that says `isError`, does not fit the approved output schema, or has a number
# that JSON cannot hold, is a failure.


KIND: Final = "mcp"
"""The kind of exit of such a run."""

_FROM: Final[Mapping[str, Any]] = {"data_from": "mcp"}


def read_answer(
    answer: CallToolResult, schema: Mapping[str, Any] | None, duration_ms: float, *, server: str
) -> Outcome:
    """Read the answer to a call; `schema` is the output schema that was approved."""
    if problem := _not_finite(answer):
        what = f"expected an answer of the server {visible(server)} that JSON can hold, found: {problem}"
        return _failed(None, what, duration_ms)
    said = answer.model_dump(by_alias=True, mode="json", exclude_none=True)
    data: dict[str, Any] = {name: said[name] for name in ("content", "structuredContent") if name in said}
    data["content"] = [without_our_addresses(without_marks(block)) for block in data.get("content", ())]
    if answer.is_error:
        return _failed(
            data, _text_of(data) or "the server says that it failed, and nothing else", duration_ms
        )
    if schema is not None and (problem := _misfit(data.get("structuredContent"), schema)):
        what = (
            f"expected output of the server {visible(server)} that fits its output schema, found: {problem}"
        )
        return _failed(data, what, duration_ms)
    return Outcome(True, data, Exit(KIND), duration_ms, metadata=_FROM)


def read_failure(error: BridgeError, duration_ms: float) -> Outcome:
    """Return the outcome of a call that was not answered."""
    kind = {"timeout": "timeout", "spawn_failed": "spawn_failed", "lost": "lost"}.get(error.code, KIND)
    return Outcome(
        False,
        error.data,
        Exit(kind),
        duration_ms,
        code=error.code,
        error=error.message,
        hint=error.hint,
        denied=error.denied,
        metadata={"data_from": "none", **({"said": list(error.lines)} if error.lines else {})},
    )


def _failed(data: Any, error: str, duration_ms: float) -> Outcome:
    return Outcome(False, data, Exit(KIND), duration_ms, code="tool_failed", error=error, metadata=_FROM)


def _text_of(data: Mapping[str, Any]) -> str:
    texts = [block["text"] for block in data.get("content", ()) if block.get("type") == "text"]
    return visible_lines("\n".join(texts).strip()[:_SHOWN_CHARACTERS])[:_SHOWN_CHARACTERS]


def _not_finite(answer: CallToolResult) -> str | None:
    """Where the first number is that is NaN or beyond a double; the parser of the SDK lets both pass."""
    said = answer.model_dump(by_alias=True, exclude_none=True)
    return None if is_finite(said) else visible(str(find_issues(said)[0]))


def _misfit(structured: Any, schema: Mapping[str, Any]) -> str | None:
    if structured is None:
        return "no structured content"
    errors = validate_parameters(structured, schema).errors
    return "; ".join(map(str, errors))[:_SHOWN_CHARACTERS] or None
