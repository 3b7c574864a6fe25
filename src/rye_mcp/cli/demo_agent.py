"""The step of `rye demo` in which an agent works: a tool is written and signed, and an MCP client runs it.

Everything is real: a project and a user of their own in a temporary directory, the installed server as a
process with hardly any environment, and the client of the MCP SDK.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rye_mcp.app import App, Settings
from rye_mcp.cli.demo_steps import Expectation, Tell
from rye_mcp.initialization import initialize_project, initialize_user
from rye_mcp.trust.scope import SignerKind
from rye_mcp.verbs.explain import ExplainRequest, Explanation, explain
from rye_mcp.verbs.sign import SignRequest, sign

__all__ = ["an_agent_runs_what_was_signed"]

ITEM_ID = "demo/greet"

TOOL = '''"""Greets somebody by name, without haste."""

import sys
import time

__version__ = "1.0.0"
__executor_id__ = "python_runtime"


def main(name="world"):
    for work in ("looking for words", "clearing the throat", "about to speak"):
        print(work, file=sys.stderr, flush=True)
        time.sleep(0.4)
    return {"greeting": f"Hello, {name}!"}
'''

TAMPERED = "open('canary', 'w').close()\n"
QUESTION = "how do I greet somebody"


async def an_agent_runs_what_was_signed(tell: Tell) -> list[Expectation]:
    """Sign a tool, let an agent run it over MCP, change it, let the agent try again; then show the chain."""
    with TemporaryDirectory(prefix="rye-demo-") as directory:
        scene = _Scene(Path(directory))
        scene.write(TOOL)
        signer = scene.sign()
        tell("tool", f"{ITEM_ID}, one file of {len(TOOL.splitlines())} lines in Python, signed by {signer}")
        began = time.perf_counter()
        seen = await _as_an_agent(scene, tell)
        tell("took", f"{time.perf_counter() - began:.1f} s from starting the server to its end")
        canary = scene.canary.exists()
        scene.restore()
        explanation = await explain(ExplainRequest(ITEM_ID), scene.app.context(SignerKind.PERSON))
        for line in _as_picture(explanation):
            tell("chain", line)
    return [
        Expectation("the agent found it by a sentence", seen.found[:1] == [ITEM_ID]),
        Expectation("it told how far it was while it ran", len(seen.heard) > 1),
        Expectation("it ran from its verified bytes", seen.ran.get("data") == {"greeting": "Hello, Ada!"}),
        Expectation("nothing but what was verified could run", seen.ran.get("sealed") is True),
        Expectation("one line more, and it was refused", seen.refused.get("code") == "content_changed"),
        Expectation("that line was never run", not canary),
    ]


@dataclass(frozen=True)
class _Seen:
    """What an agent finds, what it is told meanwhile, what running it gives, and what after a change."""

    found: list[str]
    heard: list[str]
    ran: dict[str, Any]
    refused: dict[str, Any]


async def _as_an_agent(scene: _Scene, tell: Tell) -> _Seen:
    # Not before it is needed: the SDK takes longer to load than everything else here to happen.
    from rye_mcp.mcp_server.stdio import client_of, server_command

    heard: list[str] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append(message or "")
        tell("progress", message or "")

    execute = {"item_id": ITEM_ID, "parameters": {"name": "Ada"}}
    tell("server", "rye-mcp over stdio, for the MCP client of the SDK")
    async with client_of([server_command()], environment=scene.environment, directory=scene.project) as call:
        hits = (await call("search", {"query": QUESTION})).get("results", ())
        found = [hit["id"] for hit in hits]
        tell("search", f'"{QUESTION}" → {", ".join(found[:3]) or "nothing"}')
        tell("execute", f"{ITEM_ID} {execute['parameters']}")
        ran = await call("execute", execute, hear)
        tell("answer", f"{ran.get('data')}, sealed: {ran.get('sealed')}")
        scene.tamper()
        refused = await call("execute", execute)
        tell("tampered", f"{refused.get('code')}; hint: {refused.get('hint')}")
    return _Seen(found, heard, ran, refused)


def _as_picture(explanation: Explanation) -> Iterator[str]:
    """The chain as lines, one below the other."""
    for depth, each in enumerate(explanation.chain):
        arrow = "" if depth == 0 else "   " * (depth - 1) + "└─ "
        signer = each.integrity.signer
        vouched = "nobody" if signer is None else signer.in_words
        yield f"{arrow}{each.element.item_id}  [{each.element.space}, {vouched}]"


class _Scene:
    """A user and a project of theirs, below one directory."""

    def __init__(self, directory: Path) -> None:
        self.project = directory / "project"
        self.project.mkdir()
        home = directory / "home"
        self.environment = {
            "HOME": str(home),
            "USER_SPACE": str(home),
            "XDG_STATE_HOME": str(directory / "state"),
            "XDG_CACHE_HOME": str(directory / "cache"),
            "PATH": os.environ.get("PATH", os.defpath),
        }
        settings = Settings.find(
            project=self.project,
            user_directory=home,
            state=directory / "state/rye",
            environment=self.environment,
        )
        self.app = App.open(settings)
        user = initialize_user(self.app.spaces.user.root, self.app.keys, self.app.trust, owner="you")
        initialize_project(self.project, user, self.app.trust, propose=False)
        self.app = App.open(settings)
        self._path = self.project / f".ai/tools/{ITEM_ID}.py"

    @property
    def canary(self) -> Path:
        """What the changed tool would make."""
        return self.project / "canary"

    def write(self, text: str) -> None:
        """Write the tool."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(text, encoding="utf-8")

    def sign(self) -> str:
        """Sign the tool, as its author does; who that is."""
        sign(SignRequest(ITEM_ID), self.app.context(SignerKind.PERSON))
        self._signed = self._path.read_bytes()
        return "you, with a key that was made for this"

    def tamper(self) -> None:
        """Add a line to the signed tool."""
        self._path.write_bytes(self._signed + TAMPERED.encode())

    def restore(self) -> None:
        """Take the line away again."""
        self._path.write_bytes(self._signed)
