"""The engines of this user: which one a call runs on, and the worker that it is sent to.

An engine is a signed item below `engines/` of the user space; a person signed it, and one of a project counts
for nothing. A worker is started for the first call, is kept for the next ones, and ends when nobody uses it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Hashable, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import anyio

from lilux import _loops
from lilux._dataclasses import dataclass
from rye_mcp.apart import beside, off_loop
from rye_mcp.errors import RyeError
from rye_mcp.executor.chain.builder import MetadataRole
from rye_mcp.executor.decider import DecidedCall
from rye_mcp.executor.elsewhere import Reach
from rye_mcp.executor.environment.variables import usable_variables
from rye_mcp.executor.primitive_executor import Watch
from rye_mcp.executor.results import Node
from rye_mcp.items import SpaceName
from rye_mcp.metadata import Engine, ItemMetadata, Placement, Resources, parse_metadata
from rye_mcp.nodes.lines import Program
from rye_mcp.nodes.link import Link
from rye_mcp.nodes.outcomes import Remote
from rye_mcp.nodes.worker import RUNS
from rye_mcp.receipts.runner import RunnerKey, RunnerKeys
from rye_mcp.spaces import Spaces
from rye_mcp.trust.scope import Scope
from rye_mcp.trust.verify import Trust, VerifiedItem, verify_item

__all__ = ["DIRECTORY", "EngineItem", "NodeEngines", "find_engine", "worker_command"]

DIRECTORY: Final = "engines"
"""Where engines are, below `tools` of the user space."""

CLOSE_LIMIT_S: Final = 10.0
MAX_ENGINES: Final = 100

_OF_THIS_USER: Final = frozenset({"RYE_PROJECT", "RYE_PROJECT_PATH", "RYE_KEY_PASSPHRASE"})
"""Variables that a worker of this machine does not get."""


@dataclass(frozen=True, slots=True)
class EngineItem:
    """An engine that passed the gate."""

    name: str
    item: VerifiedItem
    engine: Engine

    def fits(self, metadata: ItemMetadata, item_id: str) -> str | None:
        """Why a tool does not run there; None if it does."""
        if not Scope(ids=self.engine.takes).holds_id(item_id):
            return f"{self.name} takes {', '.join(self.engine.takes)}"
        missing = (metadata.placement or Placement()).labels - self.engine.labels
        if missing:
            name, value = min(missing)
            return f"{self.name} has no label {name}: {value}"
        beyond = (metadata.resources or Resources()).beyond(self.engine.offers)
        return None if beyond is None else f"{self.name} does not offer {beyond}"


def find_engine(name: str, spaces: Spaces, trust: Trust) -> EngineItem:
    """The engine of this name; RyeError for one that is not there, not authentic, or none."""
    found = spaces.find_executor(f"{DIRECTORY}/{name}", seen_from=SpaceName.USER).item
    verified = verify_item(found, trust, role=MetadataRole.of(found))
    metadata = parse_metadata(found)
    if not metadata.is_engine or found.space.name is not SpaceName.USER:
        what = f"expected an engine in your user space, found {found.path}"
        raise RyeError("invalid_item", what, where=found.path, item_id=found.item_id)
    return EngineItem(name, verified, metadata.engine)


def names_of(user_space: Path) -> tuple[str, ...]:
    """The names of the engines that are there."""
    try:
        listed = sorted(os.listdir(user_space / "tools" / DIRECTORY))  # noqa: PTH208 - names alone
    except (FileNotFoundError, NotADirectoryError):
        return ()
    names = (Path(each).stem for each in listed if each.endswith((".yaml", ".yml")))
    return tuple(dict.fromkeys(names))[:MAX_ENGINES]


def worker_command(engine: Engine, rye: str) -> tuple[str, ...]:
    """The program that speaks for a worker of this engine; `rye` is the one of this machine."""
    if engine.via == "loopback":
        return (rye, "worker")
    options = ("-T", "-oBatchMode=yes", "-oServerAliveInterval=5", "-oServerAliveCountMax=3")
    return ("ssh", *options, "--", str(engine.host), engine.program, "worker")


def _why_not(decided: DecidedCall) -> str | None:
    """Why a call runs on no node, whatever that offers."""
    if decided.calls:
        return "it calls other tools, which run here"
    primitive = decided.chain.elements[-1].item_id
    return None if primitive in RUNS else f"it is no program or request, but one of {primitive}"


class _Reached:
    """A worker that is there, for one call."""

    def __init__(self, link: Link, node: Node) -> None:
        self._link = link
        self.node = node

    async def run(self, bundle: bytes, run_id: str, watch: Watch) -> Remote:
        """Send it."""
        return await self._link.run(bundle, run_id, watch)


class NodeEngines:
    """What places the calls of one executor."""

    def __init__(
        self, spaces: Spaces, trust: Trust, state: Path, environment: Mapping[str, str], *, rye: str
    ) -> None:
        """`rye` is the command of this machine, which starts a worker on it."""
        self._spaces = spaces
        self._trust = trust
        self._state = state
        self._environment = environment
        self._rye = rye
        self._links: dict[tuple[Hashable, str, Engine], Link] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def fitting(self, decided: DecidedCall) -> Reach | None:
        """How to reach the engine that a call runs on; None for one that runs here.

        RyeError `no_fitting_node` for a tool that runs elsewhere or not at all.
        """
        found = await off_loop(partial(self._fitting, decided))
        return None if found is None else partial(self.reach, found)

    @asynccontextmanager
    async def reach(self, found: EngineItem) -> AsyncIterator[_Reached]:
        """The worker of an engine, which is started unless it is there; RyeError when it does not answer."""
        try:
            reached = await self._reach(found)
        except RyeError as exc:
            if exc.code != "engine_unreachable" or not exc.details.get("was_there"):
                raise
            reached = await self._reach(found)  # the one that was kept has ended since the call before
        yield reached

    async def close(self) -> None:
        """End the workers of this event loop, and wait until they are gone."""
        here = _loops.running()
        closing = [link for key, link in self._links.items() if key[0] == here]
        self._links = {key: link for key, link in self._links.items() if key[0] != here}
        for link in closing:
            link.close()
        with anyio.move_on_after(CLOSE_LIMIT_S):
            for link in closing:
                await link.over.wait()

    def engines(self) -> Iterator[EngineItem]:
        """Every engine; RyeError for the first one that is not as it was signed."""
        for name in names_of(self._spaces.user.root):
            yield find_engine(name, self._spaces, self._trust)

    def _fitting(self, decided: DecidedCall) -> EngineItem | None:
        root = decided.chain.root
        reasons = []
        for each in self.engines():
            why_not = _why_not(decided) or each.fits(root.metadata, root.item_id)
            if why_not is None:
                return each
            reasons.append(why_not)
        if root.metadata.placement is None or not root.metadata.placement.required:
            return None
        found = "; ".join(reasons) or "no engine at all"
        what = f"expected an engine for {root.item_id}, which runs on one or not at all, found: {found}"
        raise RyeError("no_fitting_node", what, item_id=root.item_id)

    async def _reach(self, found: EngineItem) -> _Reached:
        key = (_loops.running(), found.name, found.engine)
        link = self._links.get(key)
        was_there = link is not None and not link.is_past
        if link is None or link.is_past:
            self._let_go(found.name)
            link = self._links[key] = self._begin(found, await off_loop(self._identity))
        try:
            hello = await link.ready()
        except RyeError as exc:
            exc.details["was_there"] = was_there
            raise
        return _Reached(link, Node(found.name, hello.node))

    def _let_go(self, name: str) -> None:
        """End workers of an engine whose item has changed, once they have nothing to do."""
        here = _loops.running()
        for key, link in list(self._links.items()):
            if key[:2] == (here, name) and (link.is_past or not link.is_busy):
                link.close()
                del self._links[key]

    def _begin(self, found: EngineItem, identity: RunnerKey) -> Link:
        link = Link(
            found.name,
            Program(worker_command(found.engine, self._rye), self._variables()),
            found.engine.nodes - self._trust.store.revocations().keys(),
            identity,
        )
        beside(link.serve, self._tasks)
        return link

    def _identity(self) -> RunnerKey:
        return RunnerKeys(self._state).ready(self._trust.store.revocations())

    def _variables(self) -> dict[str, str]:
        usable = usable_variables(self._environment, self._trust.directories, None)
        return {name: value for name, value in usable.items() if name not in _OF_THIS_USER}
