"""What we need of the SDK, uvicorn, watchfiles, jsonschema and CPython that their documents do not promise.

Each test uses the library alone, without anything of ours. If a new version of it fails here, the module that
the test names has to change.
"""

from __future__ import annotations

import _imp
import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from types import CodeType
from typing import Any, ClassVar
from uuid import UUID

import anyio
import pytest
import uvicorn
from jsonschema import Draft7Validator, Draft202012Validator
from mcp import Client
from mcp.server import MCPServer
from mcp.server.lowlevel import NotificationOptions
from mcp.server.mcpserver import Context
from mcp.server.sse import SseServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.types import TextContent
from referencing import Registry
from uvicorn.protocols.http.h11_impl import H11Protocol
from watchfiles import awatch
from watchfiles._rust_notify import WatchfilesRustInternalError

pytestmark = pytest.mark.anyio


async def test_a_session_knows_its_connection_which_outlasts_requests_and_ends_with_the_client() -> None:
    """`subscriptions` keeps with it what a client wants, and forgets the client when it ends."""
    connections: list[Any] = []
    ended: list[str] = []
    server = MCPServer("plain")

    @server.tool()
    def note(context: Context[Any, Any]) -> str:
        connection = context.session._connection
        connections.append(connection)
        connection.state["calls"] = connection.state.get("calls", 0) + 1
        if len(connections) == 1:
            connection.exit_stack.callback(ended.append, "ended")
        return str(connection.state["calls"])

    async with Client(server, mode="legacy") as client:
        assert [await _text(client, "note") for _ in range(2)] == ["1", "2"]
        assert ended == []
    assert ended == ["ended"]
    assert connections[0] is connections[1]
    async with Client(server, mode="legacy") as client:
        assert await _text(client, "note") == "1"


async def test_the_inner_server_takes_other_options_and_has_a_handler_that_holds_streams() -> None:
    """`rye_server` promises notices of changes; `subscriptions` looks before a stream is held."""
    server = MCPServer("plain")
    inner = server._lowlevel_server
    assert inner.middleware is server.middleware
    options = NotificationOptions(tools_changed=True)
    vars(inner)["create_initialization_options"] = partial(inner.create_initialization_options, options)
    held = inner.get_request_handler("subscriptions/listen")
    assert held is not None
    assert callable(held.handler)
    async with Client(server, mode="legacy") as client:
        capabilities = client.server_capabilities
        assert capabilities.tools is not None
        assert capabilities.tools.list_changed


async def test_the_inner_server_asks_for_the_schema_of_a_tool() -> None:
    """`rye_server` tells it the schemas of its own tools, by which headers are compared."""

    class Asked(MCPServer[None]):
        def _tool_input_schema(self, name: str) -> dict[str, Any] | None:
            return {"type": "object", "title": name}

    found = Asked("plain")._lowlevel_server
    assert any(getattr(value, "__func__", None) is Asked._tool_input_schema for value in vars(found).values())


async def test_a_stream_of_events_is_known_by_the_id_that_its_client_is_told() -> None:
    """`http` takes the newest entry for the one that was just made."""
    transport = SseServerTransport("/messages/")
    sent: list[dict[str, Any]] = []
    told = anyio.Event()

    async def send(message: Any) -> None:
        sent.append(message)
        if b"session_id" in message.get("body", b""):
            told.set()

    async def receive() -> Any:
        await looked.wait()
        return {"type": "http.disconnect"}

    looked = anyio.Event()
    scope = {"type": "http", "method": "GET", "path": "/sse", "headers": [], "query_string": b""}
    with anyio.fail_after(20):
        async with transport.connect_sse(scope, receive, send) as (incoming, outgoing):
            async with incoming, outgoing:
                newest = next(reversed(transport._read_stream_writers))
                assert isinstance(newest, UUID)
                await told.wait()
            looked.set()
    assert f"session_id={newest.hex}".encode() in b"".join(each.get("body", b"") for each in sent)


async def test_sessions_are_admitted_in_one_place_and_kept_by_their_ids() -> None:
    """`http` makes room where there are too many, and lets those that have called be idle for longer."""
    manager = StreamableHTTPSessionManager(
        MCPServer("plain")._lowlevel_server, max_sessions=1, session_idle_timeout=5
    )
    session = manager._admit_session(None)
    assert session is not None
    assert manager._server_instances == {session.mcp_session_id: session}
    assert (session._idle_timeout, session.idle_scope) == (5, None)
    assert manager._admit_session(None) is None
    manager._server_instances.clear()
    assert manager._admit_session(None) is not None
    assert manager._session_owners == {}


class Recorded(H11Protocol):
    """uvicorn's parser of one connection, as `http_connections` uses it."""

    made: ClassVar[list[Recorded]] = []
    looks = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.app_state = {**self.app_state, "own": self}
        super().connection_made(transport)
        self.made.append(self)

    def handle_events(self) -> None:
        super().handle_events()
        self.looks += 1


class Unsignalled(uvicorn.Server):
    """Its server, which leaves signals alone."""

    captured = 0

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        self.captured += 1
        yield


@asynccontextmanager
async def serving(application: Any) -> AsyncIterator[tuple[Unsignalled, int]]:
    """A server in this process, and its port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(application, http=Recorded, ws="none", lifespan="off", log_config=None)
        server = Unsignalled(config)
        async with anyio.create_task_group() as group:
            group.start_soon(server.serve, [listening])
            yield server, listening.getsockname()[1]
            server.should_exit = True


async def until(holds: Callable[[], bool]) -> None:
    with anyio.fail_after(20):
        while True:
            if holds():
                return
            await anyio.sleep(0.01)


async def test_a_connection_of_uvicorn_says_what_it_has_read_and_goes_on_reading() -> None:
    """`http_connections` closes slow and silent ones, and reads while a request is served."""
    Recorded.made.clear()
    go_on, states = anyio.Event(), list[Any]()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        states.append(scope["state"])
        await receive()
        await go_on.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    async with serving(application) as (server, port), await anyio.connect_tcp("127.0.0.1", port) as stream:
        await until(lambda: bool(Recorded.made))
        connection = Recorded.made[0]
        assert connection in connection.connections
        assert connection.client == ("127.0.0.1", connection.client[1] if connection.client else 0)
        assert getattr(connection, "cycle", None) is None
        await stream.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\na")
        await until(lambda: getattr(connection, "cycle", None) is not None)
        assert (connection.cycle.response_complete, connection.cycle.more_body) == (False, True)
        await stream.send(b"b" + b"GET /next HTTP/1.1\r\n")
        await until(lambda: not connection.cycle.more_body)
        assert connection.looks > 0
        await until(lambda: connection.conn.trailing_data[0] == b"GET /next HTTP/1.1\r\n")
        connection.flow.resume_reading()
        assert states == [{"own": connection}]
        assert connection.transport.get_write_buffer_size() == 0
        go_on.set()
        await until(lambda: connection.cycle.response_complete)
        connection.transport.abort()
        await until(lambda: connection not in connection.connections)
        assert server.captured == 1


async def test_a_connection_of_uvicorn_can_be_made_of_one_that_was_accepted_before() -> None:
    """`ui.serving` goes on with the connections that came before uvicorn was imported."""

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    config = uvicorn.Config(application, ws="none", lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    made = partial(H11Protocol, config=config, server_state=server.server_state, app_state={})
    ours, theirs = socket.socketpair()
    with ours:
        await asyncio.get_running_loop().connect_accepted_socket(made, theirs)
        assert len(server.server_state.connections) == 1
        ours.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        ours.setblocking(False)
        found = await asyncio.get_running_loop().sock_recv(ours, 1 << 16)
        assert found.startswith(b"HTTP/1.1 204")
        await until(lambda: not server.server_state.connections)


async def test_an_error_of_the_watcher_has_a_type_of_its_own(tmp_path: Path) -> None:
    """`file_changes` makes an OSError of it, so that somebody says that nothing is watched."""
    assert issubclass(WatchfilesRustInternalError, RuntimeError)
    with pytest.raises(OSError, match="No"):
        async for _ in awatch(tmp_path / "missing"):
            pass


@pytest.mark.parametrize("dialect", [Draft7Validator, Draft202012Validator])
def test_a_validator_of_jsonschema_has_a_resolver_that_it_passes_on(dialect: Any) -> None:
    """`lilux.schemas` follows the references of a schema, and evaluates what they lead to, by it."""
    schema = {"$ref": "#/definitions/a", "definitions": {"a": {"type": "integer"}}}
    validator = dialect(schema, registry=Registry())
    found = validator._resolver.lookup(schema["$ref"])
    assert found.contents == {"type": "integer"}
    below = validator.evolve(schema=found.contents, _resolver=found.resolver)
    assert below._resolver is found.resolver
    assert (below.is_valid(1), below.is_valid("1")) == (True, False)


NESTED = """\
def outer():
    def inner():
        return [each / 0 for each in (1,)]
    return inner

class Kept:
    made = outer()
"""


def test_code_of_one_file_becomes_that_of_another_in_its_place_with_all_that_is_in_it() -> None:
    """`_waiter` compiles a script before it knows where its copy will be, and then names that file."""
    code = compile(NESTED, "<waiting>", "exec")
    assert len(list(_codes_in(code))) >= 4
    assert getattr(_imp, "_fix_co_filename")(code, "/run/copy.py") is None  # noqa: B009 - private
    assert {each.co_filename for each in _codes_in(code)} == {"/run/copy.py"}
    names: dict[str, Any] = {"__name__": "copy"}
    exec(code, names)  # noqa: S102 - the code above
    with pytest.raises(ZeroDivisionError) as caught:
        names["Kept"].made()
    assert str(caught.traceback[-1].path) == "/run/copy.py"


def _codes_in(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes_in(each)


async def _text(client: Client, tool: str) -> str:
    result = await client.call_tool(tool, {})
    assert isinstance(result.content[0], TextContent)
    return result.content[0].text
