"""A tool that an agent signed, or that says what it may do, tries to do more; one that says nothing does."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lilux.primitives.subprocess import SubprocessPrimitive
from rye_mcp.executor.primitive_executor import PrimitiveExecutor
from rye_mcp.executor.results import ExecutionResult
from rye_mcp.runs.log import RunLog
from rye_mcp.trust.scope import SignerKind
from tests.runtime_workshop import Workshop
from tests.trust_world import World

pytestmark = pytest.mark.anyio

TRIES = '''\
"""Tries everything that it was told to try."""

import os
import socket

__tool_type__ = "python"
__executor_id__ = "python_function_runtime"
__version__ = "1.0.0"
{permissions}
CONFIG_SCHEMA = {{"type": "object", "properties": {{"read": {{}}, "write": {{}}, "port": {{}}}}}}


def tried(work, *arguments):
    try:
        work(*arguments)
    except OSError:
        return False
    return True


def read(path):
    with open(path) as file:
        file.read()


def write(path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write("planted")


def connect(port):
    socket.create_connection(("127.0.0.1", port), timeout=5).close()


def execute(params, project_path):
    done = [path for path in params["read"] if tried(read, path)]
    done += [path for path in params["write"] if tried(write, path)]
    return done + (["net"] if tried(connect, params["port"]) else [])
'''


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    found = Workshop(World(tmp_path.resolve()))
    (found.project / ".ai").mkdir(parents=True)
    return found


@pytest.fixture
def port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


class Attempt:
    """What a tool is told to try, with the places of a person around it."""

    def __init__(self, workshop: Workshop, port: int) -> None:
        root, self.project = workshop.world.root, workshop.project
        self.workshop, self.port, self.home = workshop, port, root / "home"
        for secret in (".ssh/id_ed25519", ".aws/credentials"):
            self._put(self.home / secret)
        self._put(root / "other/.ai/tools/theirs.py")
        self._put(self.project / "mine.txt")
        self.masked = self.project / ".env"
        self._put(self.masked)
        workshop.world.key()
        (self.project / ".git/hooks").mkdir(parents=True)
        keys = [
            str(path) for path in sorted((workshop.world.user_space / "keys").rglob("*")) if path.is_file()
        ]
        self.inside = [str(self.project / "mine.txt")]
        self.secrets = [
            *(str(self.home / name) for name in (".ssh/id_ed25519", ".aws/credentials")),
            str(root / "other/.ai/tools/theirs.py"),
            *keys,
        ]
        self.elsewhere = [str(root / "elsewhere/file"), str(self.home / ".bashrc")]
        self.planted = [str(self.project / name) for name in (".git/hooks/pre-commit", ".ai/tools/evil.py")]

    async def made(self, permissions: str | None, key: SignerKind = SignerKind.PERSON) -> ExecutionResult:
        line = "" if permissions is None else f"PERMISSIONS = {permissions}\n"
        world = self.workshop.world
        file = world.file(TRIES.format(permissions=line).encode(), item_id="demo/tries", extension=".py")
        world.stored(world.signed(file, world.key(key)))
        reads = [*self.inside, *self.secrets, str(self.project / ".env")]
        writes = [str(self.project / "new/file"), *self.elsewhere, *self.planted]
        return await self.run("demo/tries", {"read": reads, "write": writes, "port": self.port})

    async def run(self, item_id: str, parameters: dict[str, Any]) -> ExecutionResult:
        world = self.workshop.world
        executor = PrimitiveExecutor(
            self.project,
            user_space=world.user_space.parent,
            state=world.state,
            environment={"PATH": os.environ["PATH"], "HOME": str(self.home)},
        )
        try:
            return await executor.execute(item_id, parameters)
        finally:
            await executor.close()

    def _put(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("theirs")


@pytest.fixture
async def attempt(workshop: Workshop, port: int) -> Attempt:
    if (await SubprocessPrimitive().probe()).cell is None:
        pytest.skip("no cells can be made here")
    return Attempt(workshop, port)


async def test_what_says_nothing_does_what_its_user_can(attempt: Attempt) -> None:
    """The negative control: each of these can be done, and the result says that nothing was enforced."""
    result = await attempt.made(None)
    assert result.enforced is not None
    assert result.enforced.level == "none"
    expected = {*attempt.inside, *attempt.secrets, *attempt.elsewhere, *attempt.planted, "net"}
    assert expected <= set(result.data)


async def test_what_an_agent_signed_reaches_nothing_but_the_project(attempt: Attempt) -> None:
    result = await attempt.made(None, SignerKind.AGENT)
    require_only(attempt, result, *attempt.inside, str(attempt.project / "new/file"))
    assert result.enforced is not None
    assert (result.enforced.level, result.enforced.project, result.enforced.net) == ("cell", "write", "none")


async def test_what_an_agent_declares_widens_nothing(attempt: Attempt) -> None:
    result = await attempt.made('{"project": "write", "net": "any"}', SignerKind.AGENT)
    require_only(attempt, result, *attempt.inside, str(attempt.project / "new/file"))
    assert "permissions_ignored" in [notice.code for notice in result.notices]


async def test_what_only_reads_the_project_writes_nothing(attempt: Attempt) -> None:
    result = await attempt.made('{"project": "read"}')
    require_only(attempt, result, *attempt.inside)
    assert not (attempt.project / "new").exists()


async def test_what_only_computes_sees_nothing(attempt: Attempt) -> None:
    require_only(attempt, await attempt.made("{}"))


async def test_a_run_says_and_logs_what_was_enforced(attempt: Attempt) -> None:
    result = await attempt.made('{"project": "read"}')
    with RunLog(attempt.workshop.world.state) as log:
        [record] = log.list()
    assert result.enforced is not None
    assert record.enforced == result.enforced.as_dict()
    assert result.as_dict()["enforced"] == {"level": "cell", "project": "read", "net": "none"}


FILLS = '''\
"""Fills its directory for temporary files."""

import os
import tempfile

__tool_type__ = "python"
__executor_id__ = "python_function_runtime"
__version__ = "1.0.0"
PERMISSIONS = {}
CONFIG_SCHEMA = {"type": "object", "properties": {"bytes": {"type": "integer"}}}


def execute(params, project_path):
    path = os.path.join(tempfile.gettempdir(), "much")
    try:
        with open(path, "wb") as file:
            file.write(bytes(params["bytes"]))
    except OSError:
        return "full"
    return os.path.getsize(path)
'''


async def test_a_user_limits_what_a_run_takes_and_hears_what_nothing_limits(attempt: Attempt) -> None:
    world = attempt.workshop.world
    settings = world.user_space / "config/rye.yaml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text("isolation: {limits: {temp: 4MiB, memory: 8GiB}}\n", "utf-8")
    file = world.file(FILLS.encode(), item_id="demo/fills", extension=".py")
    world.stored(world.signed(file, world.key(SignerKind.PERSON)))
    small = await attempt.run("demo/fills", {"bytes": 1 << 20})
    large = await attempt.run("demo/fills", {"bytes": 8 << 20})
    assert (small.data, large.data) == (1 << 20, "full")
    assert large.enforced is not None
    assert "temp" in large.enforced.limits
    groups = (await SubprocessPrimitive().probe()).groups
    is_limited = groups is not None and "memory" in groups.limits
    assert ("memory" in large.enforced.limits, "memory" in large.enforced.unenforced) == (
        is_limited,
        not is_limited,
    )


async def signed_by_an_agent(attempt: Attempt, primitive: str, config: str) -> None:
    text = (
        f"version: 1.0.0\ntool_type: script\nexecutor_id: rye/core/primitives/{primitive}\n"
        f"config: {config}\nconfig_schema: {{type: object}}\n"
    )
    world = attempt.workshop.world
    file = world.file(text.encode(), item_id="demo/starts", extension=".yaml")
    world.stored(world.signed(file, world.key(SignerKind.AGENT)))


async def test_an_agents_tool_has_no_work_done_for_it_that_nothing_confines(attempt: Attempt) -> None:
    await signed_by_an_agent(attempt, "page", "{}")
    result = await attempt.run("demo/starts", {"url": "http://127.0.0.1/"})
    assert result.code == "isolation_unavailable", result.error


async def test_an_agents_tool_has_another_program_started_under_its_own_confinement(
    attempt: Attempt,
) -> None:
    await signed_by_an_agent(attempt, "processes", "{action: spawn}")
    result = await attempt.run("demo/starts", {"command": "/bin/true"})
    assert result.success, result.error
    assert result.enforced is not None
    assert result.enforced.level in ("walls", "cell")
    assert (result.enforced.project, result.enforced.net) == ("write", "none")


async def test_an_agents_request_leaves_for_nowhere(attempt: Attempt) -> None:
    text = (
        "version: 1.0.0\ntool_type: http\nexecutor_id: rye/core/primitives/http_client\n"
        f"config: {{method: GET, url: 'http://127.0.0.1:{attempt.port}/', allow_private_hosts: true}}\n"
    )
    world = attempt.workshop.world
    file = world.file(text.encode(), item_id="demo/asks", extension=".yaml")
    world.stored(world.signed(file, world.key(SignerKind.AGENT)))
    assert (await attempt.run("demo/asks", {})).code == "denied_by_policy"


def require_only(attempt: Attempt, result: ExecutionResult, *expected: str) -> None:
    """What was read, and what stands there now, is this; what is written into a cell's own places is gone."""
    assert result.success, (result.error, result.stderr)
    readable = {*attempt.inside, *attempt.secrets, "net"}
    written = {*attempt.elsewhere, *attempt.planted, str(attempt.project / "new/file")}
    there = {path for path in written if os.path.lexists(path)}
    assert (set(result.data) & readable) | there == set(expected)
    assert attempt.masked.read_text() == "theirs"
