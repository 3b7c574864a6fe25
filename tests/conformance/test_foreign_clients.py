"""Clients that other people wrote, against the real server: the SDKs for TypeScript and the Inspector."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.http_world import TOKEN, HttpServer, http_server
from tests.inside_world import program
from tests.mcp_world import Workshop, gone, python_tool
from tests.node_world import *  # noqa: F403
from tests.node_world import NodePrograms
from tests.people import SCRIPTS, UV, Person

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]  # the first one may have to install them

CLIENT = Path(__file__).parent / "typescript_client.mjs"

SCHEMA = 'CONFIG_SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}}'

GREET = 'print(json.dumps({"greeting": f"Hello, {params[\'name\']}!"}))'

SLOW = """\
import time

for number in range(3):
    print(f"step {number}", file=sys.stderr, flush=True)
    time.sleep(0.15)
print(json.dumps({"steps": 3}))"""

WAIT = """\
import os
import subprocess

child = subprocess.Popen(["sleep", "600"])
print(os.getpid(), child.pid, flush=True)
child.wait()"""

PROGRAM = """\
from rye import call

def main(names):
    return [call("demo/greet", name=name)["greeting"] for name in names]
"""

REVIEW = """\
---
name: review
description: How to review.
inputs: {type: object, properties: {language: {type: string}}, required: [language]}
---
Review the {input:language} code.
"""

NOTES = "---\nname: notes\ndescription: What is known.\n---\nFoxes are red.\n"

TEA = """\
---
name: tea
description: Brews tea. Use it when somebody is thirsty.
---
Boil water. See references/leaves.md.
"""

EXPOSED = ("--expose", "demo/greet")


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """A project that nobody changes."""
    place = tmp_path_factory.mktemp("foreign")
    person, project = Person("ada", place / "ada"), place / "the project"
    project.mkdir()
    person.begin(project)
    workshop = Workshop(person, project)
    workshop.write("demo/greet", python_tool(GREET, description="Greets somebody.", metadata=SCHEMA))
    workshop.write("demo/slow", python_tool(SLOW))
    workshop.write("demo/wait", python_tool(WAIT))
    workshop.write("demo/all", program(PROGRAM, calls=["demo/greet"]))
    workshop.write("review", REVIEW, kind="directives", extension="md")
    workshop.write("notes", NOTES, kind="knowledge", extension="md")
    workshop.write("tea/SKILL", TEA, kind="skills", extension="md")
    workshop.write("tea/references/leaves", "Green.\n", kind="skills", extension="md")
    for item_type in ("tool", "directive", "knowledge", "skill"):
        workshop.sign("*", item_type)
    return workshop


@pytest.fixture(scope="module")
def server(workshop: Workshop) -> Iterator[HttpServer]:
    with http_server(workshop.person, workshop.project, *EXPOSED) as listening:
        yield listening


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize(("sdk", "mode", "era"), [("v1", "legacy", None), ("v2", "auto", "modern")])
async def test_the_sdk_for_typescript_does_what_clients_do(
    node: NodePrograms,
    workshop: Workshop,
    request: pytest.FixtureRequest,
    sdk: str,
    mode: str,
    era: str | None,
    transport: str,
) -> None:
    environment = workshop.person.environment
    asked: dict[str, Any] = {"sdk": sdk, "mode": mode}
    if transport == "stdio":
        asked["server"] = {
            "command": str(SCRIPTS / "rye-mcp"),
            "args": list(EXPOSED),
            "cwd": str(workshop.project),
            "env": environment,
        }
    else:
        asked["server"] = {"url": request.getfixturevalue("server").url, "token": TOKEN}
    done = node.run(CLIENT, str(node.place), json.dumps(asked), env=environment, cwd=workshop.project)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["era"], found["server"]["name"]) == (era, "rye-mcp")
    assert found["tools"] == ["search", "load", "execute", "sign", "demo_greet"]
    assert found["search"]["structuredContent"]["results"][0]["id"] == "demo/greet"
    assert found["native"]["structuredContent"] == {"greeting": "Hello, Ada!"}
    assert found["execute"]["structuredContent"]["data"] == {"steps": 3}
    assert found["progress"][:1] == ["step 0"]
    assert found["program"]["structuredContent"]["data"] == ["Hello, Ada!", "Hello, Leo!"]
    refused = found["refused"]
    assert (refused["isError"], refused["structuredContent"]["code"]) == (True, "item_not_found")
    assert found["after"]["structuredContent"]["data"] == {"greeting": "Hello, Grace!"}
    assert found["prompt"]["messages"][0]["content"]["text"].strip() == "Review the python code."
    assert "Foxes are red." in found["resource"]["contents"][0]["text"]
    assert found["cancelled"]["outcome"] == "ended"
    with anyio.fail_after(20):
        await gone([int(pid) for pid in found["cancelled"]["told"][0].split()])


INSPECTOR = "@modelcontextprotocol/inspector/clients/launcher/build/index.js"

CALL = {"item_id": "demo/greet", "parameters": {"name": "Grace"}}

PROGRAMS = {"item_id": "demo/all", "parameters": {"names": ["Ada", "Leo"]}}

READ = {"item_id": "tea", "item_type": "skill"}

INSPECTED = [
    ("modern", "tools/list", ("--strict",), 0, '"name":"execute"'),
    ("legacy", "tools/call", ("--tool-name", "demo_greet", "--tool-arg", "name=Ada"), 0, "Hello, Ada!"),
    (
        "modern",
        "tools/call",
        ("--tool-name", "execute", "--tool-args-json", json.dumps(CALL)),
        0,
        "Hello, Grace!",
    ),
    *(
        (
            era,
            "tools/call",
            ("--tool-name", "execute", "--tool-args-json", json.dumps(PROGRAMS)),
            0,
            '"data":["Hello, Ada!","Hello, Leo!"]',
        )
        for era in ("modern", "legacy")
    ),
    ("modern", "tools/call", ("--tool-name", "execute", "--tool-arg", "item_id=no"), 5, "item_not_found"),
    ("legacy", "prompts/list", (), 0, '"name":"review"'),
    (
        "modern",
        "prompts/get",
        ("--prompt-name", "review", "--prompt-args", "language=perl"),
        0,
        "Review the perl code.",
    ),
    ("legacy", "prompts/get", ("--prompt-name", "tea"), 0, "Boil water."),
    (
        "legacy",
        "tools/call",
        ("--tool-name", "load", "--tool-args-json", json.dumps({**READ, "file": "references/leaves.md"})),
        0,
        "Green.",
    ),
    ("legacy", "resources/list", (), 0, "rye://item/knowledge/notes"),
    ("modern", "resources/read", ("--uri", "rye://item/knowledge/notes"), 0, "Foxes are red."),
]
"""Era, method, options, how the Inspector ends (5: the tool has failed), and what stands in its answer."""


@pytest.mark.parametrize(("era", "method", "options", "code", "text"), INSPECTED)
def test_the_command_line_of_the_inspector_lists_reads_and_calls(
    node: NodePrograms,
    workshop: Workshop,
    era: str,
    method: str,
    options: tuple[str, ...],
    code: int,
    text: str,
) -> None:
    """It hands on nothing of its environment but what it is told to, as clients with windows do."""
    environment = workshop.person.environment
    done = node.run(
        INSPECTOR,
        *("--cli", "--protocol-era", era, "--format", "json", "--method", method, *options),
        *("-e", f"USER_SPACE={environment['USER_SPACE']}"),
        *("-e", f"XDG_STATE_HOME={environment['XDG_STATE_HOME']}"),
        *("--cwd", str(workshop.project), "--", str(SCRIPTS / "rye-mcp"), *EXPOSED),
        env=environment,
        cwd=workshop.person.place,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert text in json.dumps(json.loads(done.stdout), separators=(",", ":"))


FASTMCP = ("fastmcp==4.1.2", str(Path(__file__).parent / "fastmcp_client.py"))


@pytest.mark.network
def test_the_client_of_fastmcp_reads_skills_through_the_extension(workshop: Workshop) -> None:
    """It checks each entry against the extension by itself, and its test each file against its digest."""
    package, client = FASTMCP
    own = ("CERT", "PROXY", "INDEX", "CA_BUNDLE")
    kept = {name: text for name, text in os.environ.items() if any(part in name.upper() for part in own)}
    run = [str(UV), "run", "--no-project", "--with", package, "python", client]
    done = subprocess.run(
        [*run, str(SCRIPTS / "rye-mcp"), str(workshop.project)],
        env={**kept, **workshop.person.environment, "UV_CACHE_DIR": str(Path.home() / ".cache/uv")},
        capture_output=True,
        text=True,
        check=False,
    )
    if "No solution found" in done.stderr or "Failed to fetch" in done.stderr:
        pytest.skip(f"uv cannot install {package}: {done.stderr.strip()[-200:]}")
    assert done.returncode == 0, done.stderr
    [tea] = json.loads(done.stdout)
    assert tea["uri"] == "skill://tea/SKILL.md"
    assert tea["frontmatter"] == {
        "name": "tea",
        "description": "Brews tea. Use it when somebody is thirsty.",
    }
    assert tea["files"] == {"skill://tea/SKILL.md": TEA, "skill://tea/references/leaves.md": "Green.\n"}
