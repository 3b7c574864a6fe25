"""A request is led to a service of this machine that its tool does not name: by a port, a name or a value."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from rye_mcp.executor.primitive_executor import PrimitiveExecutor
from rye_mcp.executor.results import ExecutionResult
from rye_mcp.trust.scope import SignerKind
from tests.runtime_workshop import Workshop
from tests.trust_world import World

pytestmark = pytest.mark.anyio

NAME = "inside.example.org"
"""A name of the network whose address is of this machine."""

TOOL = """\
version: 1.0.0
tool_type: http
executor_id: rye/core/primitives/http_client
{permissions}
config_schema: {{type: object, properties: {{host: {{type: string}}}}}}
config: {{method: GET, url: '{url}'}}
"""
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"


@pytest.fixture
def port() -> Iterator[int]:
    """A service of this machine."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return  # shut down: the test is over
            with connection:
                connection.recv(4096)
                connection.sendall(ANSWER)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield int(listener.getsockname()[1])
    listener.shutdown(socket.SHUT_RDWR)
    thread.join()
    listener.close()


@pytest.fixture
def workshop(world: World, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    """A project, on a machine that takes a name of the network for itself."""
    ask = socket.getaddrinfo

    def answer(host: Any, *args: Any, **named: Any) -> Any:
        return ask("127.0.0.1" if host in (NAME, NAME.encode()) else host, *args, **named)

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    made = Workshop(world)
    (made.project / ".ai").mkdir(parents=True)
    return made


async def asked(
    workshop: Workshop, url: str, net: str | None, signer: SignerKind = SignerKind.PERSON, **parameters: str
) -> ExecutionResult:
    """What becomes of a request of a tool that may reach this."""
    world = workshop.world
    permissions = "" if net is None else f"permissions: {{net: {net}}}"
    text = TOOL.format(permissions=permissions, url=url)
    file = world.file(text.encode(), item_id="demo/asks", extension=".yaml")
    world.stored(world.signed(file, world.key(signer)))
    executor = PrimitiveExecutor(
        workshop.project, user_space=world.user_space.parent, state=world.state, environment={}
    )
    try:
        return await executor.execute("demo/asks", parameters)
    finally:
        await executor.close()


@pytest.mark.parametrize("url", ["http://localhost:{}/", "http://LocalHost:{}/", "http://{{host}}:{}/"])
async def test_a_service_that_a_person_names_is_reached(workshop: Workshop, port: int, url: str) -> None:
    result = await asked(workshop, url.format(port), f'["localhost:{port}"]', host="localhost")
    assert (result.success, result.data) == (True, "hello"), result.error
    assert result.enforced is not None
    assert result.enforced.net == (f"localhost:{port}",)


@pytest.mark.parametrize("net", ['["localhost:1"]', "[api.example.org]", "none"])
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", NAME])
async def test_what_is_not_named_is_not_reached(workshop: Workshop, port: int, net: str, host: str) -> None:
    result = await asked(workshop, f"http://{host}:{port}/", net)
    assert result.code == "denied_by_policy"


async def test_a_name_of_the_network_is_no_way_to_this_machine(workshop: Workshop, port: int) -> None:
    url, named = f"http://{NAME}:{port}/", f'["{NAME}:{port}"]'
    refused = await asked(workshop, url, named)
    assert (refused.success, refused.error) == (
        False,
        f"{NAME}:{port} is not public (loopback); allow_private_hosts would let it pass",
    )
    reached = await asked(workshop, url, "any")
    assert reached.data == "hello", reached.error


async def test_what_an_agent_signed_reaches_no_service_that_it_names(workshop: Workshop, port: int) -> None:
    named = f'["localhost:{port}"]'
    result = await asked(workshop, f"http://localhost:{port}/", named, SignerKind.AGENT)
    assert result.code == "denied_by_policy"


async def test_a_program_that_names_a_service_of_this_machine_is_told_that_it_cannot(
    workshop: Workshop, port: int
) -> None:
    text = (
        '"""Runs."""\n\n__version__ = "1.0.0"\n__executor_id__ = "python_function_runtime"\n'
        f'PERMISSIONS = {{"net": ["localhost:{port}"]}}\n'
        "\n\ndef execute(params, project_path):\n    return 1\n"
    )
    workshop.sign("demo/program.py", text)
    executor = PrimitiveExecutor(
        workshop.project,
        user_space=workshop.world.user_space.parent,
        state=workshop.world.state,
        environment={"PATH": "/usr/bin:/bin"},
    )
    try:
        result = await executor.execute("demo/program", {})
    finally:
        await executor.close()
    assert result.code == "denied_by_policy"
    assert "only tools for HTTP" in str(result.error)
