"""The class for an id at the end of a chain: an entry point of the group `lilux.primitives`.

One instance of each class serves all calls of an executor. A class with `open_in` is made by that, from the
executor's `Surroundings`.

    PRIMITIVE_MAP["rye/core/primitives/subprocess"]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from functools import cached_property
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lilux._dataclasses import dataclass
from lilux.primitives.errors import ConfigurationError
from rye_mcp.errors import RyeError
from rye_mcp.executor.chain.builder import Chain
from rye_mcp.spaces import Spaces
from rye_mcp.trust.verify import Trust

if TYPE_CHECKING:
    from rye_mcp.executor.primitive_executor import PrimitiveExecutor

__all__ = ["GROUP", "PRIMITIVE_MAP", "PrimitiveMap", "Primitives", "Surroundings"]

GROUP: Final = "lilux.primitives"
"""The entry points that name primitives."""


class PrimitiveMap(Mapping[str, type[Any]]):
    """Id → class, out of the packages that are installed."""

    @cached_property
    def _own(self) -> Mapping[str, EntryPoint]:
        """Those of this package: to look through all others takes as long as many a tool."""
        try:
            found = distribution("rye-mcp").entry_points
        except PackageNotFoundError:
            return {}
        return {each.name: each for each in found if each.group == GROUP}

    @cached_property
    def _found(self) -> Mapping[str, EntryPoint]:
        return {each.name: each for each in entry_points(group=GROUP)}

    @cached_property
    def _loaded(self) -> dict[str, type[Any]]:
        return {}

    def __getitem__(self, item_id: str) -> type[Any]:
        if item_id not in self._loaded:
            found = self._own.get(item_id) or self._found[item_id]
            self._loaded[item_id] = found.load()
        return self._loaded[item_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


PRIMITIVE_MAP: Final = PrimitiveMap()
"""Every primitive that is installed."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """For whom an executor works: what a primitive of this package may need beside its configuration.

    `project` is the directory that holds the project's `.ai`, None without one; `executor` is the caller.
    """

    spaces: Spaces
    trust: Trust
    project: Path | None
    state: Path
    environment: Mapping[str, str] = field(repr=False)
    locked: bool
    executor: Callable[[], PrimitiveExecutor]


class Primitives:
    """One instance of each primitive that was asked for."""

    def __init__(self, known: Mapping[str, type[Any]], surroundings: Surroundings) -> None:
        self._known = known
        self._surroundings = surroundings
        self._instances: dict[str, Any] = {}

    def at_end_of(self, chain: Chain) -> Any:
        """The primitive that a chain ends with; RyeError `chain_invalid` when no class stands for it."""
        item_id = chain.primitive.item_id
        instance = self._instances.get(item_id)
        if instance is None:
            instance = self._instances[item_id] = self._made(chain)
        return instance

    async def close(self) -> None:
        """Close what was opened in this event loop."""
        for instance in self._instances.values():
            close = getattr(instance, "close", None)
            if close is not None:
                await close()

    def _made(self, chain: Chain) -> Any:
        primitive = self._class(chain)
        open_in = getattr(primitive, "open_in", None)
        try:
            return primitive() if open_in is None else open_in(self._surroundings)
        except ConfigurationError as exc:  # without its supervisor, say
            raise RyeError(
                "spawn_failed",
                exc.message,
                hint="pip install --force-reinstall rye-mcp",
                item_id=chain.root.item_id,
            ) from exc

    def _class(self, chain: Chain) -> type[Any]:
        element = chain.primitive
        known = _id_in(self._known, element.item_id)
        if known is not None:
            return self._known[known]
        raise RyeError(
            "chain_invalid",
            f"expected a primitive out of {', '.join(sorted(self._known))}, found {element.item_id}",
            where=element.path,
            hint="name one of them as executor_id, or install the package that has it",
            item_id=chain.root.item_id,
        )


def _id_in(known: Mapping[str, type[Any]], item_id: str) -> str | None:
    """The id in a map that an item's id stands for: itself, or the only one with its last segment."""
    if item_id in known:
        return item_id
    stem = item_id.rpartition("/")[2]
    alike = [name for name in known if name.rpartition("/")[2] == stem]
    return alike[0] if len(alike) == 1 else None
