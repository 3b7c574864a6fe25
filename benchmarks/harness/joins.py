"""The example programs, and the conversations that they replace: how many bytes reach the model in each."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from anyio import from_thread, to_thread
from mcp import Client

from harness.figures import IncorrectError

EXAMPLE: Final = Path(__file__).resolve().parents[2] / "examples/programs"
JOINS: Final[Mapping[str, Mapping[str, Any]]] = {
    "programs/review": {},
    "programs/rename": {"old": "total", "new": "sum_up", "path": "src", "dry_run": True},
    "programs/report": {},
}
COMMITS, FILES, SALES = 30, 20, 200
QUICK: Final = 10
"""By how much the examples are smaller when they only have to work."""

_BLOCK: Final = re.compile(r"^`(\S+)`:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Join:
    """One example: what reached the model, in bytes, and how many calls the conversation took."""

    name: str
    program: int
    conversation: int
    calls: int

    @property
    def ratio(self) -> float:
        """How many times as much reaches the model without the program."""
        return self.conversation / self.program


@contextmanager
def site() -> Iterator[str]:
    """The address of the page that one of them reads."""
    with subprocess.Popen([sys.executable, EXAMPLE / "site.py"], stdout=subprocess.PIPE, text=True) as server:
        if server.stdout is None:
            raise IncorrectError("expected the address of the page, found no output")
        yield server.stdout.readline().strip()
        server.terminate()


def write_examples(project: Path, *, quick: bool) -> None:
    """Their tools, which are to be signed, and a project with a history, sources and data."""
    for path, text in _BLOCK.findall((EXAMPLE / "README.md").read_text(encoding="utf-8")):
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text(text, encoding="utf-8")
    less = QUICK if quick else 1
    for number in range(SALES // less):
        _write(project / f"data/{number}.json", json.dumps({"shop": f"shop-{number % 3}", "sold": number}))
    for number in range(FILES // less):
        lines = [f"def total_{number}(sales):", "    total = sum(sales)", "    return total", ""]
        _write(project / f"src/till_{number}.py", "\n".join(lines))
    git = partial(subprocess.run, cwd=project, check=True, capture_output=True)
    git(["git", "init", "-q", "."])
    git(["git", "add", "src", "data"])
    who = ["-c", "user.name=ada", "-c", "user.email=ada@example.org"]
    for number in range(COMMITS // less):
        _write(project / f"src/note_{number}.md", f"What changed in 1.{number}.\n" * 5)
        git(["git", "add", "src"])
        git(["git", *who, "commit", "-qm", f"1.{number}: note what changed in this version"])


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


async def joins(client: Client, project: Path) -> list[Join]:
    """Each example in both ways, with the same result."""
    found = []
    for item_id, parameters in JOINS.items():
        data, program = await _asked(client, item_id, parameters)
        talk = _Conversation(client)
        said = await to_thread.run_sync(partial(talk.hold, project, item_id, parameters))
        if said != data:
            raise IncorrectError(f"{item_id}: expected {data!r:.200}, found {said!r:.200}")
        found.append(Join(item_id, program, talk.size, talk.calls))
    return found


async def _asked(client: Client, item_id: str, parameters: Mapping[str, Any]) -> tuple[Any, int]:
    """The data of a call, and how much of it a model reads."""
    given = {"item_id": item_id, "parameters": dict(parameters)}
    answer = (await client.call_tool("execute", given)).structured_content or {}
    if answer.get("status") != "success":
        raise IncorrectError(f"{item_id}: {answer}")
    return answer["data"], len(json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode())


class _Conversation:
    """Runs the source of a program where each call is one of the client."""

    def __init__(self, client: Client) -> None:
        self.size = 0
        self.calls = 0
        self._client = client

    def hold(self, project: Path, item_id: str, parameters: Mapping[str, Any]) -> Any:
        """What the program would return."""
        source = (project / f".ai/tools/{item_id}.py").read_text(encoding="utf-8")
        library = types.ModuleType("rye")
        library.call = self._call  # type: ignore[attr-defined]
        before = sys.modules.get("rye")
        sys.modules["rye"] = library
        try:
            names: dict[str, Any] = {}
            exec(compile(source.replace("ThreadPoolExecutor(8)", "_InTurn()"), item_id, "exec"), names)  # noqa: S102 - our own example
            names["_InTurn"] = _InTurn
            return names["main"](**parameters)
        finally:
            del sys.modules["rye"]
            if before is not None:
                sys.modules["rye"] = before

    def _call(self, item_id: str, **parameters: Any) -> Any:
        data, size = from_thread.run(_asked, self._client, item_id, parameters)
        self.size += size
        self.calls += 1
        return data


class _InTurn:
    """A pool that does one thing after the other: only the thread of the conversation reaches the client."""

    def __enter__(self) -> _InTurn:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def map(self, function: Any, values: Any) -> Iterator[Any]:
        """As the `map` of a pool."""
        return map(function, values)
