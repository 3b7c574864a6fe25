"""The MCP server over HTTP: the SDK's client on both transports and in both eras, and how the server ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from anyio import to_thread
from mcp import Client
from mcp.types import CallToolResult, ListRootsResult, Root, ToolListChangedNotification

from tests import forked_server
from tests.http_world import (
    TOKEN,
    HttpServer,
    Mode,
    Transport,
    connected,
    gone,
    http_server,
    is_alive,
    post,
)
from tests.people import Person

GREET = '''\
"""Greets somebody."""

__version__ = "1.0.0"
__executor_id__ = "python_runtime"


def main(name="world"):
    return {"greeting": f"Hello, {name}!"}
'''

REGION = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}

WAITING = '''\
"""Waits until it is told to go on, or ended."""

__version__ = "1.0.0"
__executor_id__ = "python_runtime"

import os
import subprocess


def main(pipe, end):
    child = subprocess.Popen(["sleep", "600"])
    with open(pipe, "w") as file:
        file.write(f"{os.getpid()} {child.pid}")
    with open(end) as file:
        file.read()
    child.kill()
    return {"ended": True}
'''

CALLER = """
import sys
import anyio, httpx2
from mcp import Client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

url, transport, mode, token, pipe = sys.argv[1:]
headers = {"Authorization": f"Bearer {token}"}


async def main():
    call = {"item_id": "demo/wait", "parameters": {"pipe": pipe, "end": pipe + ".end"}}
    if transport == "sse":
        place = sse_client(url.removesuffix("/mcp") + "/sse", headers=headers)
    else:
        place = streamable_http_client(url, http_client=httpx2.AsyncClient(headers=headers))
    async with Client(place, mode=mode) as client:
        await client.call_tool("execute", call)


anyio.run(main)
"""

WAYS = [("http", "auto"), ("http", "legacy"), ("sse", "legacy")]
"""HTTP+SSE is of the revisions that have a handshake; a newer client falls back to one."""

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def ada(tmp_path_factory: pytest.TempPathFactory) -> Person:
    return Person("ada", tmp_path_factory.mktemp("ada"))


@pytest.fixture(scope="module")
def project(ada: Person) -> Path:
    project = ada.place / "the project"
    tools = project / ".ai/tools/demo"
    project.mkdir()
    ada.begin(project)
    tools.mkdir(parents=True)
    (tools / "greet.py").write_text(GREET)
    (tools / "wait.py").write_text(WAITING)
    ada.rye("sign", "demo/*", cwd=project)
    return project


@pytest.fixture(scope="module")
def server(ada: Person, project: Path) -> Iterator[HttpServer]:
    with http_server(ada, project) as found:
        yield found


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    """Where a waiting tool says who it is; beside it, `.end` is what it waits for."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    os.mkfifo(f"{pipe}.end")
    return pipe


def facts(result: Any) -> dict[str, Any]:
    assert isinstance(result, CallToolResult)
    found: dict[str, Any] | None = result.structured_content
    assert found is not None
    return found


def greeting(name: str) -> dict[str, Any]:
    return {"item_id": "demo/greet", "parameters": {"name": name}}


async def pids_of(pipe: Path) -> list[int]:
    """Who the waiting tool is, and its child, once it runs."""
    descriptor = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        await anyio.wait_readable(descriptor)
        return [int(pid) for pid in os.read(descriptor, 100).split()]
    finally:
        os.close(descriptor)


@contextmanager
def caller(
    server: HttpServer, transport: Transport, mode: Mode, pipe: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A client in a process of its own, which calls the waiting tool."""
    errors = pipe.with_name("errors of the client")
    with errors.open("wb") as err:
        command = [sys.executable, "-c", CALLER, server.url, transport, mode, TOKEN, str(pipe)]
        client = subprocess.Popen(command, stderr=err)
    try:
        yield client
    except TimeoutError:
        raise AssertionError(errors.read_text()) from None
    finally:
        client.kill()
        client.wait()


@pytest.mark.parametrize(("transport", "mode"), [*WAYS, ("sse", "auto")])
async def test_a_client_lists_and_executes(server: HttpServer, transport: Transport, mode: Mode) -> None:
    async with connected(server, transport, mode) as client:
        listed = {tool.name for tool in (await client.list_tools()).tools}
        assert listed >= {"search", "load", "execute", "sign"}
        found = facts(await client.call_tool("execute", greeting("Ada")))
        assert found["data"] == {"greeting": "Hello, Ada!"}
        refused = await client.call_tool("execute", {"item_id": "demo/nothing"})
        assert isinstance(refused, CallToolResult)
        assert (refused.is_error, facts(refused)["code"]) == (True, "item_not_found")


@pytest.mark.first_case
@pytest.mark.parametrize(("transport", "mode"), WAYS)
async def test_a_call_names_a_project_of_the_server_and_no_other(
    server: HttpServer, project: Path, tmp_path: Path, transport: Transport, mode: Mode
) -> None:
    other = tmp_path / "other"
    (other / ".ai").mkdir(parents=True)
    async with connected(server, transport, mode) as client:
        for named in (other, project.parent, project / ".ai/..", Path("/nowhere")):
            found = facts(await client.call_tool("execute", greeting("Ada") | {"project_path": f"{named}"}))
            expected = "success" if named == project else "no_project"
            assert found.get("code", found["status"]) == expected, named
            assert str(project) in found["hint"]
        found = facts(await client.call_tool("execute", greeting("Ada") | {"project_path": str(project)}))
        assert found["status"] == "success"


@pytest.mark.first_case
@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_no_client_is_asked_where_to_look(
    ada: Person, project: Path, tmp_path: Path, transport: Transport
) -> None:
    asked = anyio.Event()

    async def answer(_: Any) -> ListRootsResult:
        asked.set()
        return ListRootsResult(roots=[Root.model_validate({"uri": project.as_uri()})])

    with http_server(ada, None, cwd=tmp_path) as server, anyio.fail_after(40):
        async with connected(server, transport, "legacy", list_roots_callback=answer) as client:
            found = facts(await client.call_tool("search", {"query": "*"}))
    assert found["project"] is None
    assert not asked.is_set()


@pytest.mark.first_case
@pytest.mark.parametrize(("transport", "mode"), WAYS)
async def test_a_client_that_is_killed_leaves_nothing_running(
    server: HttpServer, pipe: Path, transport: Transport, mode: Mode
) -> None:
    with caller(server, transport, mode, pipe) as client, anyio.fail_after(40):
        pids = await pids_of(pipe)
        assert len(pids) == 2
        client.kill()
        begun = anyio.current_time()
        await gone(pids)
        assert anyio.current_time() - begun < 3
    assert post(server, b"{", MCP_Protocol_Version="2026-07-28").status_code == 400


@pytest.mark.first_case
@pytest.mark.parametrize(("transport", "mode"), WAYS)
async def test_a_call_that_its_client_cancels_ends_at_once(
    server: HttpServer, pipe: Path, transport: Transport, mode: Mode
) -> None:
    call = {"item_id": "demo/wait", "parameters": {"pipe": str(pipe), "end": f"{pipe}.end"}}
    with anyio.fail_after(40):
        async with connected(server, transport, mode) as client:
            async with anyio.create_task_group() as group:
                group.start_soon(client.call_tool, "execute", call)
                pids = await pids_of(pipe)
                group.cancel_scope.cancel()
            begun = anyio.current_time()
            await gone(pids)
            assert anyio.current_time() - begun < 3
            assert facts(await client.call_tool("execute", greeting("Eve")))["status"] == "success"


@pytest.mark.both_eras
async def test_what_others_wait_for_does_not_end_with_a_connection_of_events(
    ada: Person, project: Path, pipe: Path, mode: Mode
) -> None:
    """Neither a run with `async`, nor the watch that tells of other lists."""
    parameters = {"pipe": str(pipe), "end": f"{pipe}.end"}
    call = {"item_id": "demo/wait", "parameters": parameters, "async": True}
    told = anyio.Event()

    async def hear(message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            told.set()

    with http_server(ada, project, "--expose", "demo/*") as server, anyio.fail_after(50):
        async with connected(server, "http", mode, message_handler=hear) as client:
            async with connected(server, "sse", "legacy") as other:
                await other.list_tools()
                await client.list_tools()
                begun = facts(await client.call_tool("execute", call))
                pids = await pids_of(pipe)
            async with connected(server, "sse", "legacy"):  # by now the other one is gone for the server too
                found = facts(await client.call_tool("execute", {"run_id": begun["run_id"]}))
            assert found["status"] == "running"
            assert all(map(is_alive, pids))
            await client.call_tool("execute", {"run_id": begun["run_id"], "action": "cancel"})
            await gone(pids)
            if mode == "legacy":  # in 2026 who listens has the spaces watched anew
                with _changed(project / ".ai/tools/demo/greet.py"):
                    await told.wait()


@contextmanager
def _changed(path: Path) -> Iterator[None]:
    """A file that is another one until the block ends."""
    signed = path.read_bytes()
    path.write_bytes(signed + b"# changed\n")
    try:
        yield
    finally:
        path.write_bytes(signed)


@pytest.mark.thorough
@pytest.mark.parametrize(("transport", "mode"), WAYS)
async def test_two_hundred_calls_at_once_are_all_answered(
    server: HttpServer, transport: Transport, mode: Mode
) -> None:
    answers: list[str] = []

    async def call(client: Client, number: int) -> None:
        found = facts(await client.call_tool("load", {"item_id": "demo/greet"}))
        answers.append(f"{number} {found['status']}")

    with anyio.fail_after(50):
        async with connected(server, transport, mode) as client, anyio.create_task_group() as group:
            for number in range(200):
                group.start_soon(call, client, number)
    assert sorted(answers) == sorted(f"{number} success" for number in range(200))


@pytest.mark.first_case
@pytest.mark.parametrize(("transport", "mode"), WAYS)
async def test_what_runs_when_the_server_is_told_to_end_may_end_itself(
    ada: Person, project: Path, pipe: Path, transport: Transport, mode: Mode
) -> None:
    call = {"item_id": "demo/wait", "parameters": {"pipe": str(pipe), "end": f"{pipe}.end"}}
    found: list[dict[str, Any]] = []

    async def wait(client: Client) -> None:
        await client.list_tools()
        found.append(facts(await client.call_tool("execute", call)))

    pids: list[int] = []
    with http_server(ada, project) as server, anyio.fail_after(40):
        try:
            async with connected(server, transport, mode) as client, anyio.create_task_group() as group:
                group.start_soon(wait, client)
                pids = await pids_of(pipe)
                server.process.send_signal(signal.SIGTERM)
                await to_thread.run_sync(_until_draining, server)
                await to_thread.run_sync(Path(f"{pipe}.end").write_text, "go on")
        except* Exception:  # noqa: BLE001 - how a client says that its server is gone is its own business
            assert found
        assert found[0]["data"] == {"ended": True}
        assert await to_thread.run_sync(server.process.wait, 20) == 0
        await gone(pids)


@pytest.mark.thorough
@pytest.mark.parametrize(("transport", "mode"), WAYS)
async def test_what_does_not_end_is_ended_within_a_bound(
    ada: Person, project: Path, pipe: Path, transport: Transport, mode: Mode
) -> None:
    with (
        http_server(ada, project, "--drain", "0.5", installed=True) as server,
        caller(server, transport, mode, pipe),
        anyio.fail_after(40),
    ):
        pids = [*(await pids_of(pipe)), *_below(server.process.pid)]
        assert len(pids) > 3
        begun = anyio.current_time()
        assert await to_thread.run_sync(server.ended) == 0
        assert anyio.current_time() - begun < 10
        await gone(pids)


@pytest.mark.thorough
async def test_a_second_signal_ends_the_wait(ada: Person, project: Path, pipe: Path) -> None:
    with (
        http_server(ada, project, "--drain", "600") as server,
        caller(server, "http", "auto", pipe),
        anyio.fail_after(40),
    ):
        pids = await pids_of(pipe)
        server.process.send_signal(signal.SIGTERM)
        await to_thread.run_sync(_until_draining, server)
        assert await to_thread.run_sync(server.ended, signal.SIGINT) == 0
        await gone(pids)


def test_health_needs_no_token_and_tells_nothing(server: HttpServer) -> None:
    for path, status in (("/healthz", "ok"), ("/readyz", "ready")):
        found = httpx.get(f"{server.base}{path}", trust_env=False)
        assert (found.status_code, found.json()) == (200, {"status": status})


def test_a_token_is_made_and_shown_once_on_standard_error(ada: Person, project: Path) -> None:
    with http_server(ada, project, token=None) as server:
        initial = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        assert post(server, initial).status_code == 401
        shown = _until_shown(server)
        [token] = {line.split()[-1] for line in shown.splitlines() if line.startswith("token")}
        assert len(token) >= 43
        assert f'--header "Authorization: Bearer {token}"' in shown
        server.headers["Authorization"] = f"Bearer {token}"
        assert post(server, initial).status_code != 401


@pytest.mark.thorough
def test_a_given_token_is_not_shown_and_is_not_passed_on(ada: Person, project: Path) -> None:
    with http_server(ada, project, installed=True) as server:
        assert "$RYE_HTTP_TOKEN" in _until_shown(server)
        call = {"name": "execute", "arguments": greeting("Ada")}
        assert modern(server, "tools/call", call).status_code == 200
        below = _below(server.process.pid)
        assert below
        assert all(TOKEN.encode() not in Path(f"/proc/{pid}/environ").read_bytes() for pid in below)
        server.ended()
        assert TOKEN not in server.errors.read_text()


def test_a_token_may_stand_in_a_file_of_ones_own(ada: Person, project: Path, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("another-token-0123456789\n")
    file.chmod(0o600)
    with http_server(ada, project, "--token-file", str(file), token=None) as server:
        assert modern(server, "tools/list").status_code == 401
        server.headers["Authorization"] = "bearer another-token-0123456789"
        assert modern(server, "tools/list").status_code == 200


def test_without_authentication_this_machine_may_come_in(ada: Person, project: Path) -> None:
    with http_server(ada, project, "--no-auth", token=None) as server:
        assert modern(server, "tools/list").status_code == 200
        assert modern(server, "tools/list", Host="evil.example").status_code == 421


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--http", "0.0.0.0:0", "--no-auth"], 1, "loopback"),
        (["--http", "[::]:0", "--no-auth"], 1, "cannot_listen"),
        (["--http", "localhost:99999"], 2, "port"),
        (["--http", ":8000"], 2, "address before the port"),
        (["--http", "no.such.host.invalid:0"], 1, "cannot_listen"),
        (["--http", "203.0.113.1:0"], 1, "cannot_listen"),
        (["--http", "127.0.0.1:0", "--project", "/nowhere"], 1, "no_project"),
        (["--http", "127.0.0.1:0", "--token-file", "/nowhere"], 1, "read_failed"),
        (["--http", "127.0.0.1:0", "--token-file", "/dev/null"], 1, "unsafe_path"),
        (["--http", "127.0.0.1:0", "--no-auth", "--token-file", "x"], 2, "both"),
        (["--http", "127.0.0.1:0", "--state-key-file", "/nowhere"], 1, "read_failed"),
        (["--state-key-file", "key"], 2, "--http"),
        (["--confirm", "sign,trust"], 2, "sign or execute"),
        (["--log-level", "loud"], 2, "warning"),
        (["--no-auth"], 2, "--http"),
        (["--project", "a", "--project", "b"], 2, "several"),
        (["--unknown"], 2, "unrecognized"),
    ],
)
def test_a_server_that_cannot_be_as_it_was_asked_to_says_so(
    ada: Person, tmp_path: Path, arguments: list[str], code: int, said: str
) -> None:
    done = _started(ada, tmp_path, *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("token", "mode", "said"),
    [("short", 0o600, "16"), ("with a blank inside it", 0o600, "16"), (TOKEN, 0o640, "0o640")],
)
def test_an_invalid_token_or_one_that_others_can_read_is_refused(
    ada: Person, tmp_path: Path, token: str, mode: int, said: str
) -> None:
    file = tmp_path / "token"
    file.write_text(token)
    file.chmod(mode)
    done = _started(ada, tmp_path, "--http", "127.0.0.1:0", "--token-file", str(file))
    assert done.returncode == 1
    assert said in done.stderr
    assert token not in done.stderr


def test_an_address_that_is_taken_is_said(ada: Person, tmp_path: Path, server: HttpServer) -> None:
    done = _started(ada, tmp_path, "--http", f"127.0.0.1:{server.port}")
    assert done.returncode == 1
    assert "Address already in use" in done.stderr


def test_a_tool_that_nobody_has_listed_is_known_by_its_headers(ada: Person, project: Path) -> None:
    """The SDK asks for its schema in the event loop, where nothing may be looked up."""
    tool = project / ".ai/tools/demo/region.py"
    tool.write_text(
        GREET.replace("def main", f"CONFIG_SCHEMA = {REGION}\n\n\ndef main").replace("name", "region")
    )
    ada.rye("sign", "demo/region", cwd=project)
    call = {"name": "demo_region", "arguments": {"region": "north"}}
    with http_server(ada, project, "--expose", "demo/region") as server:
        refused = modern(server, "tools/call", call, **{"Mcp-Param-Region": "south"})
        assert (refused.status_code, "Region" in refused.text) == (400, True), refused.text
        answered = modern(server, "tools/call", call, **{"Mcp-Param-Region": "north"})
        assert (answered.status_code, "Hello, north!" in answered.text) == (200, True), answered.text


def modern(
    server: HttpServer, method: str, parameters: dict[str, Any] | None = None, **headers: str
) -> httpx.Response:
    """A request of the revision without a handshake."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**(parameters or {}), "_meta": meta}}
    more = {"Mcp-Method": method, "MCP-Protocol-Version": "2026-07-28", **headers}
    if parameters and "name" in parameters:
        more["Mcp-Name"] = parameters["name"]
    return post(server, message, **more)


def _started(person: Person, place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*forked_server.command(), *arguments]
    return subprocess.run(
        command,
        cwd=place,
        env=person.environment,
        capture_output=True,
        text=True,
        timeout=30,
        stdin=subprocess.DEVNULL,
    )


def _until_shown(server: HttpServer) -> str:
    """What the server says on standard error, once it has said how to use it."""
    while "inspector" not in (shown := server.errors.read_text()):
        assert server.process.poll() is None
    return shown


def _until_draining(server: HttpServer) -> None:
    with httpx.Client(trust_env=False) as client:
        while (found := client.get(f"{server.base}/readyz")).status_code == 200:
            pass
    assert (found.status_code, found.json()) == (503, {"status": "draining"})


def _below(pid: int) -> list[int]:
    """Every process below this one."""
    found = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        found += [int(child), *_below(int(child))]
    return found
