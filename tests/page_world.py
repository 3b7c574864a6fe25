"""What tests of pages share: an executor for which this machine is a public one, and a server with pages."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from lilux.primitives.http_client import AddressGuard, HttpClientPrimitive
from rye_mcp.executor.job.primitives import PRIMITIVE_MAP, Surroundings
from rye_mcp.executor.primitive_executor import PrimitiveExecutor
from rye_mcp.executor.results import ExecutionResult
from rye_mcp.primitives.page import PagePrimitive
from tests.http_server import Connection, Request
from tests.trust_world import World

__all__ = ["FETCH", "Pages", "fetch"]

FETCH = "rye/http/fetch"
PUBLIC = "127.0.0.1"


class LocalPages(PagePrimitive):
    """Reads pages of this machine's first address too; every other one that is not public stays refused."""

    @classmethod
    def open_in(cls, surroundings: Surroundings) -> Self:
        return cls(surroundings.environment, HttpClientPrimitive(guard=AddressGuard(exempt=[PUBLIC])))


class LocalExecutor(PrimitiveExecutor):
    """The executor of everybody, but for that."""

    PRIMITIVE_MAP: ClassVar[Mapping[str, type[Any]]] = {
        **{name: PRIMITIVE_MAP[name] for name in ("rye/core/primitives/http_client",)},
        "rye/core/primitives/page": LocalPages,
    }


class Pages(dict[str, tuple[str, bytes]]):
    """A handler that answers with pages by their path; `redirect` and a number are other types."""

    async def __call__(self, connection: Connection, request: Request) -> None:
        kind, body = self.get(request.target, ("404", b"no such page"))
        if kind == "redirect":
            await connection.reply("302 Found", b"", {"Location": body.decode()})
        elif kind.isdecimal():
            await connection.reply(f"{kind} Status", body, {"Content-Type": "text/plain"})
        else:
            await connection.reply("200 OK", body, {"Content-Type": kind})


async def fetch(place: Path, tool: str = FETCH, **parameters: Any) -> ExecutionResult:
    """What comes of a call of the tool in a project of `place`."""
    world = World(place)
    (world.project / ".ai").mkdir(parents=True, exist_ok=True)
    executor = LocalExecutor(world.project, user_space=world.user_space.parent, state=world.state)
    try:
        return await executor.execute(tool, parameters)
    finally:
        await executor.close()
