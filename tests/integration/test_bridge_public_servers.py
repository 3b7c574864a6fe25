"""Servers that others have published, as signed tools: of npm and of PyPI, installed by their names.

They are installed once, below the cache directory of the user; where a registry cannot be reached, the tests
are skipped and say so.
"""

from __future__ import annotations

import fcntl
import http.server
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import platformdirs
import pytest

from rye_mcp.catalog import Catalog
from rye_mcp.errors import RyeError
from rye_mcp.executor.job.jobs import Watch
from rye_mcp.verbs.search import SearchRequest, search
from rye_mcp.verbs.sign import SignRequest, sign
from tests.bridge_world import Bridged
from tests.everyday_wishes import (
    BIGGEST,
    BLIND_WISHES,
    FURTHER_WISHES,
    LATER_WISHES,
    LEAST_FOUND,
    UNSEEN_WISHES,
    WISHES,
)

NODE = tuple(f"@modelcontextprotocol/server-{name}" for name in ("everything", "filesystem", "memory"))
PYTHON = ("mcp-server-fetch", "mcp-server-git", "mcp-server-time")

_INSTALL_LIMIT_S = 240

pytestmark = [pytest.mark.network, pytest.mark.timeout(600)]


@contextmanager
def installing(name: str) -> Iterator[tuple[Path, Path]]:
    """The directory for an installation, and the file that says that it is whole; one process at a time."""
    place = platformdirs.user_cache_path("rye-mcp-tests") / name
    place.mkdir(parents=True, exist_ok=True)
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield place, place / "whole"


def carry_out(*commands: list[str]) -> str | None:
    """Run commands; what went wrong, or nothing."""
    for command in commands:
        try:
            done = subprocess.run(command, capture_output=True, timeout=_INSTALL_LIMIT_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as exc:
            return f"{command[0]}: {exc}"
        if done.returncode:
            return f"{' '.join(command[:3])}: {done.stderr.decode(errors='replace')[-300:]}"
    return None


@pytest.fixture(scope="module")
def node_servers() -> Path:
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.skip("Node.js with npm is not installed")
    with installing("node") as (place, whole):
        if not whole.exists():
            problem = carry_out([npm, "install", "--no-audit", "--no-fund", "--prefix", str(place), *NODE])
            if problem is not None:
                pytest.skip(f"npm cannot install the servers: {problem}")
            whole.touch()
    return place / "node_modules/.bin"


@pytest.fixture(scope="module")
def python_servers() -> Path:
    with installing(f"python{sys.version_info.major}.{sys.version_info.minor}") as (place, whole):
        pip = [str(place / "bin/python"), "-m", "pip", "install", "--quiet"]
        if not whole.exists():
            problem = carry_out([sys.executable, "-m", "venv", str(place)], [*pip, *PYTHON])
            if problem is not None:
                pytest.skip(f"pip cannot install the servers: {problem}")
            whole.touch()
    return place / "bin"


@pytest.fixture
def scene(tmp_path: Path) -> Bridged:
    scene = Bridged(tmp_path)
    node = shutil.which("node")
    if node is not None:
        scene.environment["PATH"] += f":{Path(node).parent}"
    return Bridged(tmp_path, PATH=scene.environment["PATH"])


def config(name: str, program: Path, *args: str, **env: str) -> dict[str, Any]:
    about = {"transport": "stdio", "server": name, "command": str(program), "args": list(args)}
    return {**about, "env": env}


async def test_everything(scene: Bridged, node_servers: Path) -> None:
    written = await scene.add(config("everything", node_servers / "mcp-server-everything"))
    assert not written.left_out
    heard: list[bytes] = []
    watch = Watch(on_output=lambda _stream, data, _at: heard.append(data))
    async with scene.serving():

        async def call(tool: str, **given: Any) -> Any:
            result = await scene.call(tool, name="everything", **given)
            assert result.success, result.error
            return result.data

        assert (await call("echo", message="hello"))["content"][0]["text"] == "Echo: hello"
        assert "7" in (await call("get-sum", a=3, b=4))["content"][0]["text"]
        picture = await call("get-tiny-image")
        assert "image" in [block["type"] for block in picture["content"]]
        weather = await call("get-structured-content", location="Chicago")
        assert weather["structuredContent"].keys() == {"temperature", "conditions", "humidity"}
        long = {"duration": 0.2, "steps": 2}
        await scene.call("trigger-long-running-operation", name="everything", watch=watch, **long)
        with pytest.raises(RyeError, match="expected a number"):
            await scene.call("get-sum", name="everything", a="three", b=4)
        environment = (await call("get-env"))["content"][0]["text"]
    assert b"2 of 2" in b"".join(heard)
    assert '"PATH"' in environment
    assert "RYE" not in environment


async def test_filesystem(scene: Bridged, node_servers: Path) -> None:
    (scene.project / "a.txt").write_text("what is in it")
    program = node_servers / "mcp-server-filesystem"
    await scene.add(config("files", program, "{project_path}"), "read_text_file", "write_file")
    async with scene.serving():
        path = str(scene.project / "a.txt")
        read = await scene.call("read_text_file", name="files", path=path)
        outside = await scene.call("read_text_file", name="files", path="/etc/hostname")
        await scene.call("write_file", name="files", path=path, content="something else")
    assert read.data["content"][0]["text"] == "what is in it"
    assert (outside.success, outside.code) == (False, "tool_failed")
    assert (scene.project / "a.txt").read_text() == "something else"


async def test_memory_keeps_what_it_was_told_as_long_as_the_connection_does(
    scene: Bridged, node_servers: Path
) -> None:
    kept = scene.place / "memory.json"
    program = node_servers / "mcp-server-memory"
    await scene.add(config("memory", program, MEMORY_FILE_PATH=str(kept)), "create_entities", "read_graph")
    async with scene.serving():
        ada = {"name": "Ada", "entityType": "person", "observations": ["writes programs"]}
        created = await scene.call("create_entities", name="memory", entities=[ada])
        graph = await scene.call("read_graph", name="memory")
    assert created.success
    assert graph.data["structuredContent"]["entities"][0]["name"] == "Ada"
    assert kept.stat().st_size


async def test_git(scene: Bridged, python_servers: Path) -> None:
    repository = str(scene.project)
    subprocess.run(["git", "init", "--quiet", repository], check=True)  # noqa: ASYNC221 - it is at once
    (scene.project / "new.txt").write_text("new")
    await scene.add(
        config("git", python_servers / "mcp-server-git", "--repository", repository), "git_status"
    )
    async with scene.serving():
        status = await scene.call("git_status", name="git", repo_path=repository)
    assert "new.txt" in status.data["content"][0]["text"]


async def test_time(scene: Bridged, python_servers: Path) -> None:
    program = python_servers / "mcp-server-time"
    await scene.add(config("time", program, "--local-timezone", "UTC"), "convert_time")
    async with scene.serving():
        zones: dict[str, Any] = {"source_timezone": "UTC", "target_timezone": "Asia/Tokyo"}
        converted = await scene.call("convert_time", name="time", time="12:00", **zones)
    assert "21:00" in converted.data["content"][0]["text"]


async def test_fetch(scene: Bridged, python_servers: Path) -> None:
    with page(b"<html><body><h1>Bridges</h1><p>They carry.</p></body></html>") as url:
        program = python_servers / "mcp-server-fetch"
        await scene.add(config("fetch", program, "--ignore-robots-txt", "--allow-private-ips"), "fetch")
        async with scene.serving():
            fetched = await scene.call("fetch", name="fetch", url=url)
    assert fetched.success, fetched.error
    assert "They carry." in fetched.data["content"][0]["text"]


async def test_everyday_wishes_find_what_is_meant_among_the_first_three(
    scene: Bridged, node_servers: Path, python_servers: Path
) -> None:
    await everything_installed(scene, node_servers, python_servers)
    sets = (WISHES, FURTHER_WISHES, LATER_WISHES, UNSEEN_WISHES, BLIND_WISHES)
    with scene.app.catalog() as catalog:
        catalog.refresh()
        missed = {
            wish: first
            for wish, meant in chain(*sets)
            if not set(meant).intersection(first := first_three(scene, catalog, wish))
        }
    for wishes, least in zip(sets, LEAST_FOUND, strict=True):
        assert sum(wish not in missed for wish, _ in wishes) >= least, missed
    assert missed.keys().isdisjoint({WISHES[0][0], WISHES[1][0]}), missed


def first_three(scene: Bridged, catalog: Catalog, wish: str) -> list[str]:
    found = search(SearchRequest(wish, limit=3), scene.app.context(), catalog).results
    return [shown.item_id for shown in found]


async def everything_installed(scene: Bridged, node_servers: Path, python_servers: Path) -> None:
    """Bridge all public servers, and make a tool of the project."""
    repository = str(scene.project)
    subprocess.run(["git", "init", "--quiet", repository], check=True)  # noqa: ASYNC221 - it is at once
    node = {name: node_servers / f"mcp-server-{name}" for name in ("everything", "memory")}
    for name, program in node.items():
        await scene.add(config(name, program, MEMORY_FILE_PATH=str(scene.place / "memory.json")))
    await scene.add(config("files", node_servers / "mcp-server-filesystem", "{project_path}"))
    await scene.add(config("fetch", python_servers / "mcp-server-fetch"))
    await scene.add(config("git", python_servers / "mcp-server-git", "--repository", repository))
    await scene.add(config("time", python_servers / "mcp-server-time", "--local-timezone", "UTC"))
    biggest = scene.project / ".ai/tools/files/biggest.py"
    biggest.parent.mkdir(parents=True)
    biggest.write_bytes(BIGGEST)
    sign(SignRequest("files/biggest"), scene.person)


@contextmanager
def page(body: bytes) -> Iterator[str]:
    """The address of a server with one page."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
