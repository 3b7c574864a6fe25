"""The engines of this user: which one a call runs on, and the worker that it is sent to.

An engine is a signed item below `engines/` of the user space; a person signed it, and one of a project counts
for nothing. A worker is started for the first call, is kept for the next ones, and ends when nobody uses it.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import Final, Protocol

import anyio

from lilux import _loops
from lilux._dataclasses import dataclass
from lilux._footprints import Remembered
from rye_mcp.apart import beside, off_loop
from rye_mcp.errors import RyeError
from rye_mcp.executor.chain.builder import MetadataRole
from rye_mcp.executor.decider import DecidedCall
from rye_mcp.executor.elsewhere import Place
from rye_mcp.executor.environment.variables import usable_variables
from rye_mcp.executor.primitive_executor import Watch
from rye_mcp.executor.results import Node
from rye_mcp.executor.workspace import ProjectTree
from rye_mcp.items import ItemFile, SpaceName
from rye_mcp.metadata import SHARED, Engine, ItemMetadata, Placement, Resources, parse_metadata
from rye_mcp.nodes.cluster import RayCluster, Shape, sidecar_program
from rye_mcp.nodes.lines import Program
from rye_mcp.nodes.link import Link
from rye_mcp.nodes.outcomes import Remote
from rye_mcp.nodes.seal import Hello
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

_SSH: Final = (
    *("-T", "-oBatchMode=yes", "-oServerAliveInterval=5", "-oServerAliveCountMax=3"),
    *("-a", "-x", "-oClearAllForwardings=yes", "-oTunnel=no"),
    *("-oGSSAPIDelegateCredentials=no", "-oPermitLocalCommand=no"),
)
"""A node gets no agent, no display, no port and no ticket of this user, whatever their configuration says."""

_OF_THIS_USER: Final = frozenset({"RYE_PROJECT", "RYE_PROJECT_PATH", "RYE_KEY_PASSPHRASE"})
"""Variables that a worker of this machine does not get."""


@dataclass(frozen=True, slots=True)
class EngineItem:
    """An engine that passed the gate."""

    name: str
    item: VerifiedItem
    engine: Engine

    @property
    def leads_to(self) -> str:
        """Where its workers are, in words."""
        if self.engine.cluster is not None:
            return f"the Ray cluster {self.engine.cluster.address}"
        return "this machine" if self.engine.host is None else self.engine.host

    def fits(self, metadata: ItemMetadata, item_id: str) -> str | None:
        """Why a tool does not run there; None if it does."""
        if not Scope(ids=self.engine.takes).holds_id(item_id):
            return f"{self.name} takes {', '.join(self.engine.takes)}"
        if self.engine.cluster is not None:
            return None  # the nodes of a cluster have labels and resources of their own
        missing = (metadata.placement or Placement()).labels - self.engine.labels
        if missing:
            name, value = min(missing)
            return f"{self.name} has no label {name}: {value}"
        beyond = (metadata.resources or Resources()).beyond(self.engine.offers)
        return None if beyond is None else f"{self.name} does not offer {beyond}"


def find_engine(name: str, spaces: Spaces, trust: Trust) -> EngineItem:
    """The engine of this name; RyeError for one that is not there, not authentic, or none."""
    return _engine(name, _file_of(name, spaces), trust)


def _file_of(name: str, spaces: Spaces) -> ItemFile:
    return spaces.find_executor(f"{DIRECTORY}/{name}", seen_from=SpaceName.USER).item


def _engine(name: str, found: ItemFile, trust: Trust) -> EngineItem:
    verified = verify_item(found, trust, role=MetadataRole.of(found))
    metadata = _parsed(found)
    if not metadata.is_engine or found.space.name is not SpaceName.USER:
        what = f"expected an engine in your user space, found {found.path}"
        raise RyeError("invalid_item", what, where=found.path, item_id=found.item_id)
    return EngineItem(name, verified, metadata.engine)


_parsed = lru_cache(maxsize=MAX_ENGINES)(parse_metadata)
"""The metadata of an engine: each call looks at all of them, and an item is the same bytes for long."""


def names_of(user_space: Path) -> tuple[str, ...]:
    """The names of the engines that are there."""
    try:
        listed = sorted(os.listdir(user_space / "tools" / DIRECTORY))  # noqa: PTH208 - names alone
    except (FileNotFoundError, NotADirectoryError):
        return ()
    names = (Path(each).stem for each in listed if each.endswith((".yaml", ".yml")))
    return tuple(dict.fromkeys(names))[:MAX_ENGINES]


def worker_command(engine: Engine, rye: str) -> tuple[str, ...]:
    """The program that is a worker of this engine, or speaks for it; `rye` is the one of this machine."""
    if engine.via == "loopback":
        return (rye, "worker")
    if engine.via == "ray":
        return (engine.program, "worker")
    return ("ssh", *_SSH, "--", str(engine.host), engine.program, "worker")


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

    async def run(
        self, bundle: bytes, run_id: str, watch: Watch, *, limit_s: float, tree: ProjectTree | None
    ) -> Remote:
        """Send it."""
        return await self._link.run(bundle, run_id, watch, limit_s=limit_s, tree=tree)


class Site(Protocol):
    """Where the workers of an engine are: one program, or a cluster."""

    over: anyio.Event

    @property
    def is_past(self) -> bool:
        """Whether no call can be placed any more."""

    @property
    def is_busy(self) -> bool:
        """Whether a call is under way."""

    async def serve(self) -> None:
        """Keep it until it is closed."""

    def close(self) -> None:
        """Have it end, with all that it runs."""

    def placed(self, shape: Shape, tell: Callable[[str], None]) -> AbstractAsyncContextManager[Link]:
        """The link of a worker that has room for a call."""


def _silent(_news: str) -> None:
    """Nobody listens."""


def _shape(engine: Engine, wanted: ItemMetadata | None) -> Shape:
    resources, placement = (None, None) if wanted is None else (wanted.resources, wanted.placement)
    return Shape.of(resources, placement, engine.labels)


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
        self._sites: dict[tuple[Hashable, str, Engine], Site] = {}
        self._files: Remembered[ItemFile] = Remembered()
        self._tasks: set[asyncio.Task[None]] = set()

    async def fitting(self, decided: DecidedCall) -> Place | None:
        """The engine that a call runs on, which is not asked yet; None for one that runs here.

        RyeError `no_fitting_node` for a tool that runs elsewhere or not at all.
        """
        found = await off_loop(partial(self._fitting, decided))
        if found is None:
            return None
        reach = partial(self.reach, found, decided.chain.root.metadata)
        return Place(found.name, found.leads_to, reach)

    @asynccontextmanager
    async def reach(
        self, found: EngineItem, wanted: ItemMetadata | None = None, tell: Callable[[str], None] = _silent
    ) -> AsyncIterator[_Reached]:
        """A worker of an engine for one call of a tool, which is started unless it is there.

        RyeError when it does not answer. `tell` hears where the call waits, and where it then is.
        """
        begun = time.monotonic()
        async with AsyncExitStack() as stack:
            link, hello = await self._placed(found, wanted, tell, stack)
            tell(f"on {found.name}")
            queued_ms = round((time.monotonic() - begun) * 1000, 1)
            yield _Reached(link, Node(found.name, hello.node, queued_ms=queued_ms))

    async def close(self) -> None:
        """End the workers of this event loop, and wait until they are gone."""
        here = _loops.running()
        closing = [link for key, link in self._sites.items() if key[0] == here]
        self._sites = {key: link for key, link in self._sites.items() if key[0] != here}
        for link in closing:
            link.close()
        with anyio.move_on_after(CLOSE_LIMIT_S):
            for link in closing:
                await link.over.wait()

    def engines(self) -> Iterator[EngineItem]:
        """Every engine; RyeError for the first one that is not as it was signed."""
        for name in names_of(self._spaces.user.root):
            file = self._files.value(name, partial(_file_of, name, self._spaces))
            yield _engine(name, file, self._trust)

    def _fitting(self, decided: DecidedCall) -> EngineItem | None:
        root = decided.chain.root
        reasons = []
        for each in self.engines():
            why_not = _why_not(decided) or each.fits(root.metadata, root.item_id)
            if why_not is None:
                return each
            reasons.append(why_not)
        placement = root.metadata.placement or Placement()
        if not placement.required and not str(root.metadata.workspace).startswith(SHARED):
            return None  # a shared directory is one of a node; the files of the project are here, too
        found = "; ".join(reasons) or "no engine at all"
        what = f"expected an engine for {root.item_id}, which runs on one or not at all, found: {found}"
        raise RyeError("no_fitting_node", what, item_id=root.item_id)

    async def _placed(
        self,
        found: EngineItem,
        wanted: ItemMetadata | None,
        tell: Callable[[str], None],
        stack: AsyncExitStack,
    ) -> tuple[Link, Hello]:
        while True:
            site, was_there = await self._site(found)
            try:
                link = await stack.enter_async_context(site.placed(_shape(found.engine, wanted), tell))
                return link, await link.ready()
            except RyeError as exc:
                if exc.code != "engine_unreachable" or not was_there or not site.is_past:
                    raise  # one that was kept, and has ended since the call before, is started again

    async def _site(self, found: EngineItem) -> tuple[Site, bool]:
        """What workers of an engine are started by, and whether it was there before this call."""
        key = (_loops.running(), found.name, found.engine)
        if (site := self._kept(key)) is not None:
            return site, True
        identity = await off_loop(self._identity)
        if (site := self._kept(key)) is not None:  # another call was first
            return site, False
        self._let_go(found.name)
        self._sites[key] = site = self._begin(found, identity)
        return site, False

    def _kept(self, key: tuple[Hashable, str, Engine]) -> Site | None:
        site = self._sites.get(key)
        return None if site is None or site.is_past else site

    def _let_go(self, name: str) -> None:
        """End workers of an engine whose item has changed, once they have nothing to do."""
        here = _loops.running()
        for key, link in list(self._sites.items()):
            if key[:2] == (here, name) and (link.is_past or not link.is_busy):
                link.close()
                del self._sites[key]

    def _begin(self, found: EngineItem, identity: RunnerKey) -> Site:
        engine, command = found.engine, worker_command(found.engine, self._rye)
        nodes = engine.nodes - self._trust.store.revocations().keys()
        site: Site
        if engine.cluster is None:
            site = Link(found.name, Program(command, self._variables()), nodes, identity)
        else:
            program = sidecar_program(sys.executable, engine.cluster, self._variables())
            site = RayCluster(found.name, engine.cluster, program, nodes, identity, command=command)
        beside(site.serve, self._tasks)
        return site

    def _identity(self) -> RunnerKey:
        return RunnerKeys(self._state).ready(self._trust.store.revocations())

    def _variables(self) -> dict[str, str]:
        usable = usable_variables(self._environment, self._trust.directories, None)
        return {name: value for name, value in usable.items() if name not in _OF_THIS_USER}
