"""`rye mcp`, as people use it, and what agents get of it through the server."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from lilux.primitives.subprocess import SubprocessPrimitive
from tests.bridge_world import RAW
from tests.mcp_world import *  # noqa: F403
from tests.mcp_world import SERVER, Mode, Workshop, facts, gone, text_of

pytestmark = pytest.mark.anyio


def command(*args: str | Path) -> list[str]:
    return ["--", sys.executable, str(RAW), *map(str, args)]


def test_a_server_is_brought_in_listed_updated_and_removed(workshop: Workshop) -> None:
    person, project = workshop.person, workshop.project
    described = workshop.project / "description"
    described.write_text("Says it again.")
    added = person.rye("mcp", "add", "raw", "--only", "echo", *command("good", described), cwd=project)
    assert added.out == "added mcp/raw/echo\n"
    ran = person.rye("run", "--json", "mcp/raw/echo", "--text", "hello", cwd=project).json
    assert ran["data"]["content"] == [{"type": "text", "text": "hello"}]
    (row,) = person.rye("mcp", "list", "--json", cwd=project).json["servers"]
    assert (row["server"], row["space"], row["tools"]) == ("raw", "project", ["mcp/raw/echo"])

    described.write_text("Says it.\x1b[2J Twice.")
    update = ["mcp", "update", "raw"]  # what it was added with is remembered: nothing else is new
    shown = person.rye(*update, cwd=project, code=1)
    assert "-  Says it again." in shown.out
    assert "is new:" not in shown.out
    assert "+  Says it.\\x1b[2J Twice." in shown.out
    assert "nothing was signed: look at it, then rye mcp update raw --yes" in shown.err
    refused = person.rye("run", "--json", "mcp/raw/echo", "--text", "hello", cwd=project, code=1).json
    assert refused["code"] == "remote_changed"
    assert person.rye(*update, "--yes", cwd=project).out.endswith("signed mcp/raw/echo\n")
    assert person.rye("run", "--json", "mcp/raw/echo", "--text", "hello", cwd=project).json["data"]
    assert person.rye("mcp", "remove", "raw", cwd=project).out == "removed mcp/raw/echo\n"
    person.refused("item_not_found", "mcp", "update", "raw", cwd=project)


def test_what_is_secret_is_not_taken_into_a_file(workshop: Workshop) -> None:
    person, project = workshop.person, workshop.project
    for words in (
        ["--env", "API_TOKEN=s3cret", *command()],
        ["https://example.org/mcp", "--header", "Authorization: Bearer s3cret"],
        ["https://example.org/mcp", "--env", "NAME"],
        ["--header", "X: y", *command()],
        ["--env", "no name", *command()],
        [],
    ):
        answer = person.rye("mcp", "add", "raw", *words, cwd=project, code=2)
        assert "expected" in answer.err
        assert "s3cret" not in answer.shown


@pytest.mark.thorough
@pytest.mark.parametrize(
    "words",
    [
        ["--", "server", "--api-key", "s3cret"],
        ["--", "server", "--token=s3cret"],
        ["--", "npx", "mcp-remote", "https://example.org", "--header", "Authorization: Bearer s3cret"],
        ["--", "server", "postgresql://ada:s3cret@localhost/db"],
        ["https://example.org/mcp?api_key=s3cret"],
    ],
    ids=lambda words: words[-1],
)
def test_a_secret_in_a_command_line_or_an_address_is_refused_before_anything_starts(
    workshop: Workshop, words: list[str]
) -> None:
    person, project = workshop.person, workshop.project
    answer = person.rye("mcp", "add", "--json", "raw", *words, cwd=project, code=1)
    assert answer.json["code"] == "invalid_item"
    assert "--env" in answer.shown or "--header" in answer.shown
    assert "s3cret" not in answer.shown.replace(words[-1], "")
    assert not (project / ".ai/tools/mcp").exists()


@pytest.mark.thorough
def test_at_a_terminal_it_says_what_is_waited_for_and_how_long(workshop: Workshop) -> None:
    told = "rye: waiting for the server slow to say what it offers, for at most 60 s: sleep 1000"
    words = ["mcp", "add", "slow", "--net", "none", "--", "sleep", "1000"]
    shown = workshop.person.types([(told, "\x03")], *words, cwd=workshop.project, code=130)
    assert shown.out.count("waiting") == 1
    quick = ["mcp", "add", "raw", "--only", "echo", *command()]
    assert "waiting" not in workshop.person.rye(*quick, cwd=workshop.project).shown


def test_an_address_of_another_kind_is_no_program(workshop: Workshop) -> None:
    answer = workshop.person.rye("mcp", "add", "raw", "ftp://example.org", cwd=workshop.project, code=2)
    assert "expected an address with http:// or https://" in " ".join(answer.err.split())


@pytest.mark.thorough
def test_a_configuration_with_comments_is_read_and_a_broken_one_stops_no_other(workshop: Workshop) -> None:
    person, project = workshop.person, workshop.project
    home = Path(person.environment["HOME"])
    broken, commented = home / ".cursor/mcp.json", home / ".config/Code/User/mcp.json"
    for place in (broken, commented):
        place.parent.mkdir(parents=True)
    broken.write_text("{broken")
    args = [str(RAW), "good", "${workspaceFolder}/said"]
    raw = {"type": "stdio", "command": sys.executable, "args": args}
    commented.write_text(f'// mine\n{{"servers": {{"raw": {json.dumps(raw)},}},}}')
    listed = person.rye("mcp", "import", cwd=project)
    assert "{project_path}/said" in listed.out
    assert "warning: cursor: expected a configuration in JSON" in listed.err
    assert str(broken) in listed.err
    person.refused("client_configuration", "mcp", "import", "--from", "cursor", cwd=project)
    (project / "said").write_text("Says it.")
    brought = person.rye("mcp", "import", "raw", "--to", "project", "--json", cwd=project)
    assert brought.json["servers"][0]["status"] == "success"


def test_a_person_without_keys_starts_no_server(workshop: Workshop, tmp_path: Path) -> None:
    mark = tmp_path / "started"
    words = ["--", "sh", "-c", f"touch {mark}"]
    nobody = str(tmp_path / "nobody")
    add = ["mcp", "add", "--json", "raw", *words]
    assert workshop.person.rye(*add, cwd=workshop.project, code=1, USER_SPACE=nobody).json["code"] == "no_key"
    assert not mark.exists()


@pytest.mark.thorough
def test_servers_of_other_clients_are_brought_in_without_their_secrets(workshop: Workshop) -> None:
    person, project = workshop.person, workshop.project
    place = Path(person.environment["HOME"]) / ".cursor/mcp.json"
    place.parent.mkdir(parents=True)
    raw = {"command": sys.executable, "args": [str(RAW)], "env": {"API_TOKEN": "s3cret", "MODE": "plain"}}
    others = {
        "rye": {"command": "/somewhere/rye-mcp", "args": []},
        "old": {"type": "sse", "url": "https://example.org/sse"},
        "broken": {"command": "no-such-program-at-all"},
        "empty": {},
    }
    place.write_text(json.dumps({"mcpServers": {"my raw": raw, **others}}))
    listed = person.rye("mcp", "import", "--json", cwd=project).json["servers"]
    assert {row["server"]: row["client"] for row in listed} == dict.fromkeys(
        ["broken", "empty", "my_raw", "old"], "cursor"
    )
    brought = person.rye(
        "mcp", "import", "my_raw", "broken", "--to", "project", "--json", cwd=project, code=1
    )
    by_name = {each["server"]: each for each in brought.json["servers"]}
    assert by_name["broken"]["code"] == "spawn_failed"
    assert by_name["my_raw"]["set_in_environment"] == ["API_TOKEN"]
    assert "mcp/my_raw/echo" in by_name["my_raw"]["signed"]
    files = list((project / ".ai/tools/mcp/my_raw").iterdir())
    assert all("s3cret" not in file.read_text() for file in files)
    ran = person.rye("run", "--json", "mcp/my_raw/environment", cwd=project, API_TOKEN="s3cret").json
    seen = json.loads(ran["data"]["content"][0]["text"])
    assert (seen["API_TOKEN"], seen["MODE"]) == ("s3cret", "plain")


def test_a_server_of_one_project_counts_before_one_of_all(workshop: Workshop, tmp_path: Path) -> None:
    """In several projects, since what has no order has it by chance."""
    projects = [tmp_path / f"project{number}" for number in range(8)]
    for project in projects:
        (project / ".ai").mkdir(parents=True)
    own = {str(project): {"mcpServers": {"one": {"command": "of-project"}}} for project in projects}
    configuration = {"mcpServers": {"one": {"command": "of-all"}}, "projects": own}
    (Path(workshop.person.environment["HOME"]) / ".claude.json").write_text(json.dumps(configuration))
    for project in projects:
        [found] = workshop.person.rye("mcp", "import", "--json", cwd=project).json["servers"]
        assert found["where"] == "of-project"


@pytest.mark.thorough
async def test_an_agent_finds_and_calls_bridged_tools_in_both_eras(workshop: Workshop, mode: Mode) -> None:
    workshop.person.rye("mcp", "add", "raw", *command(), cwd=workshop.project)
    heard: list[str | None] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append(message)

    with anyio.fail_after(50):
        async with workshop.served(mode, "--expose", "mcp/raw/*") as client:
            found = facts(await client.call_tool("search", {"query": "counts characters"}))
            assert found["results"][0]["id"] == "mcp/raw/count"
            listed = {tool.name: tool for tool in (await client.list_tools()).tools}
            echo = next(tool for name, tool in listed.items() if name.endswith("echo"))
            assert echo.annotations is not None
            assert (echo.annotations.title, echo.annotations.read_only_hint) == ("Echo", False), (
                "it claims True"
            )
            assert text_of(await client.call_tool(echo.name, {"text": "hi"})) == "hi"
            blocks = await client.call_tool("execute", {"item_id": "mcp/raw/blocks"})
            assert [block.type for block in blocks.content] == ["image", "text"]
            hidden = await client.call_tool("execute", {"item_id": "mcp/raw/hidden"})
            assert text_of(hidden) == "a\\u200bb\\x1b[31m"
            failed = await client.call_tool("execute", {"item_id": "mcp/raw/fail"})
            assert (failed.is_error, facts(failed)["error"]) == (True, "no such text")
            slow: Any = {"item_id": "mcp/raw/never", "timeout": 0.5}
            with anyio.move_on_after(0.2):
                await client.call_tool("execute", slow, progress_callback=hear)
            assert text_of(await client.call_tool("execute", {"item_id": "mcp/raw/echo"})) == ""


@pytest.mark.thorough
async def test_no_bridged_server_outlives_ours(workshop: Workshop) -> None:
    mark = workshop.project / "description"
    mark.write_text("Says it again.")
    workshop.person.rye("mcp", "add", "raw", "--only", "echo", *command("good", mark), cwd=workshop.project)
    arguments = {"name": "execute", "arguments": {"item_id": "mcp/raw/echo"}}
    about = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "raw", "version": "1"},
    }
    messages: list[dict[str, Any]] = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": arguments},
    ]
    process = subprocess.Popen(  # noqa: ASYNC220 - it is at once
        [SERVER], cwd=workshop.project, env=workshop.person.environment, stdin=-1, stdout=-1, stderr=-3
    )
    assert process.stdin is not None
    assert process.stdout is not None
    for message in messages:
        process.stdin.write(json.dumps(message).encode() + b"\n")
    process.stdin.flush()
    while json.loads(process.stdout.readline()).get("id") != 2:
        pass
    pids = with_in_command_line(mark)
    assert pids
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdin.close()
    process.stdout.close()
    with anyio.fail_after(10):
        await gone(pids)


def with_in_command_line(mark: Path) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.fsencode(mark) in (entry / "cmdline").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def needs_a_place(workshop: Workshop) -> list[str]:
    """The command of a server that ends where it cannot see a place that every machine has."""
    needs = (
        "import os, sys\n"
        "if not os.path.isdir('/var/lib'):\n    sys.exit('cannot open /var/lib')\n"
        "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])\n"
    )
    script, server = workshop.project / "needs.py", workshop.project / "server.py"
    script.write_text(needs)
    server.write_bytes(RAW.read_bytes())
    return ["mcp", "add", "raw", "--only", "echo", "--", sys.executable, str(script), str(server)]


async def cells_can_be_made() -> bool:
    return (await SubprocessPrimitive().probe()).cell is not None


@pytest.mark.thorough
@pytest.mark.anyio
async def test_what_a_server_lacks_when_it_starts_is_proposed(workshop: Workshop) -> None:
    if not await cells_can_be_made():
        pytest.skip("no cells can be made here")
    command = needs_a_place(workshop)
    answer = workshop.person.rye(*command[:5], "--json", *command[5:], cwd=workshop.project, code=1).json
    assert answer["code"] == "lost"
    assert answer["denied"] == {
        "certain": [],
        "likely": ["/var/lib"],
        "would_need": {"read": ["/var/lib"]},
    }
    start, _, rest = answer["hint"].partition("--permissions ")
    assert "may read /var/lib" in start
    permissions, _ = shlex.split(rest)
    added = workshop.person.rye(
        *command[:5], "--permissions", permissions, *command[5:], cwd=workshop.project
    )
    assert added.out == "added mcp/raw/echo\n"


@pytest.mark.thorough
@pytest.mark.anyio
async def test_at_a_terminal_a_server_gets_what_it_lacks_after_a_yes(workshop: Workshop) -> None:
    if not await cells_can_be_made():
        pytest.skip("no cells can be made here")
    command = needs_a_place(workshop)
    command[5:5] = ["--project-access", "read", "--net", "none"]
    no = workshop.person.types([("Allow raw that", "n\n")], *command, cwd=workshop.project, code=1)
    assert "may read /var/lib" in no.out
    yes = workshop.person.types([("Allow raw that", "y\n")], *command, cwd=workshop.project)
    assert "added mcp/raw/echo" in yes.out
    assert "/var/lib" in (workshop.project / ".ai/tools/mcp/raw/echo.yaml").read_text()
