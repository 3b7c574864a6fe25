"""From an id to a chain: `[tool, runtime, …, primitive]`, each element read once.

Nothing is verified here. Elements and chains are cached while the same files have the same bytes, so the
same files give the same `Chain` object. What depends on nothing but a chain is kept with it
(`once_a_chain`). The rules are in `docs/architecture/execution.md`.

    chain = ChainBuilder(spaces, gate).build("demo/hello")
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field, replace
from functools import wraps
from pathlib import Path
from typing import Any, Final, Generic, Protocol, TypeVar

from lilux._dataclasses import dataclass
from lilux._footprints import Remembered
from rye_mcp.errors import RyeError
from rye_mcp.items import ItemFile, ItemPlace, SpaceName, printable
from rye_mcp.metadata import ItemMetadata, how_to_name_an_executor, parse_metadata
from rye_mcp.spaces import Found
from rye_mcp.trust.scope import Role

__all__ = [
    "MAX_CHAIN_DEPTH",
    "CacheEntry",
    "Chain",
    "ChainBuilder",
    "ChainElement",
    "ChainError",
    "Finder",
    "MetadataRole",
    "once_a_chain",
    "role_in_metadata",
]

MAX_CHAIN_DEPTH: Final = 10
"""How many elements a chain may have."""

_MAX_KEPT: Final = 4096
"""How many chains and how much metadata a builder keeps."""

Key = TypeVar("Key")
Value = TypeVar("Value")


class ChainError(RyeError, ValueError):
    """A chain that cannot be built; a ValueError too, as the specification has it.

    `elements` is how far it came.
    """

    elements: tuple[ChainElement, ...] = ()


@dataclass(frozen=True, slots=True)
class CacheEntry(Generic[Value]):
    """A value made of files, and the SHA256 of their bytes."""

    value: Value
    digest: str


@dataclass(frozen=True, slots=True)
class ChainElement:
    """One item of a chain, as it was read."""

    file: ItemFile
    metadata: ItemMetadata
    shadowed: tuple[ItemPlace, ...] = ()

    @property
    def item_id(self) -> str:
        """Its whole id, also where a bare name was asked for."""
        return self.file.item_id

    @property
    def space(self) -> SpaceName:
        """The space that it was found in."""
        return self.file.space.name

    @property
    def path(self) -> Path:
        """Where it was found; it is never read again."""
        return self.file.path

    @property
    def executor_id(self) -> str | None:
        """The executor that it names; None for a primitive."""
        return self.metadata.executor_id

    @property
    def version(self) -> str:
        """Its version."""
        return self.metadata.version


@dataclass(frozen=True, slots=True)
class Chain:
    """A tool and everything that runs it, in this order; the last one is a primitive.

    `made` is what was made of it, by what made it.
    """

    elements: tuple[ChainElement, ...]
    made: dict[Callable[..., Any], Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def root(self) -> ChainElement:
        """The item that was asked for: a tool, or a primitive by itself."""
        return self.elements[0]

    @property
    def primitive(self) -> ChainElement:
        """The end of the chain."""
        return self.elements[-1]

    @property
    def upward(self) -> Iterator[ChainElement]:
        """From the primitive to the tool: the order in which later ones override."""
        return reversed(self.elements)


def once_a_chain(make: Callable[[Chain], Value]) -> Callable[[Chain], Value]:
    """Make something of a chain once; it must depend on nothing else, and nobody may change it."""

    @wraps(make)
    def made(chain: Chain) -> Value:
        try:
            found: Value = chain.made[make]
        except KeyError:
            found = chain.made[make] = make(chain)
        return found

    return made


class Finder(Protocol):
    """Finds the elements of a chain: `Spaces`, or what stands for them."""

    def find(self, item_id: str) -> Found:
        """The item with this id, read."""
        ...

    def find_executor(self, name: str, *, seen_from: SpaceName | None = None) -> Found:
        """Find the executor of an item in a space, by its name there."""
        ...


class ChainBuilder:
    """Builds the chains of one project, or of none.

    `require_verified` is the gate: it raises for a file that does not pass. It is asked before anything that
    a file says is told in an error. One that `remembers` looks for files again when anything has changed
    where they were found, or could be; its finder looks at files by `lilux._footprints`.
    """

    def __init__(
        self, spaces: Finder, require_verified: Callable[[ItemFile], object], *, remembers: bool = False
    ) -> None:
        self._spaces = spaces
        self.remembers = remembers
        self._roots: Remembered[ChainElement] = Remembered()
        self._chains: Remembered[tuple[ChainElement, Chain]] = Remembered()
        self._require_verified = require_verified
        self._chain_cache: dict[str, CacheEntry[Chain]] = {}
        self._element_cache: dict[Path, CacheEntry[ChainElement]] = {}

    def build(self, item_id: str) -> Chain:
        """The chain of a tool that is looked for by its id."""
        return self.follow(self.find(item_id))

    def find(self, item_id: str) -> ChainElement:
        """The root of a chain, read; nothing of the rest is looked at yet."""
        if not self.remembers:
            return self._found(item_id)
        return self._roots.value(item_id, lambda: self._found(item_id))

    def follow(self, root: ChainElement) -> Chain:
        """The whole chain from a root that was read already."""
        if not self.remembers:
            return self._followed(root)
        # The root is kept beside the chain, whose own root may only be equal: no other root gets its `id`.
        return self._chains.value((root.item_id, id(root)), lambda: (root, self._followed(root)))[1]

    def _found(self, item_id: str) -> ChainElement:
        return self._element(self._spaces.find(item_id))

    def _followed(self, root: ChainElement) -> Chain:
        elements = [root]
        try:
            _require_runnable(root)
            while (following := self._executor_of(elements)) is not None:
                elements.append(following)
        except ChainError as exc:
            for element in elements:
                self._require_verified(element.file)
            exc.elements = tuple(elements)
            raise
        return self._kept_chain(tuple(elements))

    def _executor_of(self, elements: Sequence[ChainElement]) -> ChainElement | None:
        """Return the executor of the last of these elements; None after a primitive."""
        child = elements[-1]
        if child.executor_id is None:
            return None
        found = self._find_executor(child.executor_id, child, elements[0])
        if any(found.item.path == element.path for element in elements):
            raise _cycle([*elements], found.item)
        if len(elements) >= MAX_CHAIN_DEPTH:
            raise _too_deep([*elements])
        executor = self._element(found)
        _require_executor(executor, child, elements[0])
        return executor

    def _find_executor(self, executor_id: str, child: ChainElement, root: ChainElement) -> Found:
        try:
            return self._spaces.find_executor(executor_id, seen_from=child.space)
        except RyeError as exc:
            if exc.code != "item_not_found":
                raise
            raise ChainError(
                "executor_not_found",
                f"expected the executor {executor_id} of {child.item_id} in the {child.space} space or "
                "below it, found none",
                where=printable(child.path),
                hint=f"correct executor_id in {_quoted(child.path)}; rye list shows what there is",
                item_id=root.item_id,
                executor_id=executor_id,
                asked_by=child.item_id,
            ) from exc

    def _element(self, found: Found) -> ChainElement:
        file = found.item
        digest = hashlib.sha256(file.content).hexdigest()
        kept = self._element_cache.get(file.path)
        if kept is not None and kept.digest == digest and kept.value.file == file:
            if kept.value.shadowed == found.shadowed:
                return kept.value
            metadata = kept.value.metadata
        else:
            metadata = self._metadata(file)
        element = ChainElement(file, metadata, found.shadowed)
        _keep(self._element_cache, file.path, CacheEntry(element, digest))
        return element

    def _metadata(self, file: ItemFile) -> ItemMetadata:
        try:
            return parse_metadata(file)
        except RyeError:
            self._require_verified(file)
            raise

    def _kept_chain(self, elements: tuple[ChainElement, ...]) -> Chain:
        """The chain that is kept, when it is made of these very files; else a new one."""
        root = elements[0].item_id
        kept = self._chain_cache.get(root)
        if kept is not None and kept.value.elements == elements:
            return kept.value
        chain = Chain(elements)
        _keep(self._chain_cache, root, CacheEntry(chain, _combined_digest(each.file for each in elements)))
        return chain


def _keep(cache: dict[Key, CacheEntry[Value]], key: Key, entry: CacheEntry[Value]) -> None:
    if len(cache) >= _MAX_KEPT and key not in cache:
        cache.clear()
    cache[key] = entry


def _combined_digest(files: Iterable[ItemFile]) -> str:
    """The SHA256 over all files of a chain, each with its length, so that none passes into the next."""
    combined = hashlib.sha256()
    for file in files:
        combined.update(f"{file.path}\0{len(file.content)}\0".encode("utf-8", "surrogateescape"))
        combined.update(file.content)
    return combined.hexdigest()


# --- what no chain can be made of ---


def _require_runnable(root: ChainElement) -> None:
    metadata, item_id = root.metadata, root.item_id
    if metadata.is_library:
        what = f"expected a tool that names its executor, found that {item_id} names none: it is a library"
        hint = _how_to_make_it_run(root)
        raise ChainError("not_runnable", what, where=printable(root.path), hint=hint, item_id=item_id)
    if metadata.is_runtime:
        what = f"expected a tool, found that {item_id} is a runtime, which runs tools that name it"
        hint = f"run a tool whose executor_id is {item_id}"
        raise ChainError("not_runnable", what, where=printable(root.path), hint=hint, item_id=item_id)


def _how_to_make_it_run(library: ChainElement) -> str:
    """Say how to make a library of the user runnable; one of the system space stays as it is."""
    if library.space is SpaceName.SYSTEM:
        return f"load it: rye show {library.item_id}"
    how = how_to_name_an_executor(library.file, library.metadata)
    if how is None:
        return f"name one in {printable(library.path)}, or load it: rye show {library.item_id}"
    options = " --space user" if library.space is SpaceName.USER else ""
    return f"{how}, then: rye sign {library.item_id}{options}"


def _require_executor(executor: ChainElement, child: ChainElement, root: ChainElement) -> None:
    metadata = executor.metadata
    if metadata.is_runtime or metadata.is_primitive:
        return
    what = (
        f"expected a runtime or a primitive as executor of {child.item_id}, found {executor.item_id}, which "
        "is neither"
    )
    raise ChainError(
        "chain_invalid",
        what,
        where=printable(executor.path),
        hint=f"name a runtime in {_quoted(child.path)}: rye list 'rye/core/runtimes/*'",
        item_id=root.item_id,
    )


def _quoted(path: Path) -> str:
    return shlex.quote(printable(path))


def _cycle(elements: Sequence[ChainElement], again: ItemFile) -> ChainError:
    root = elements[0]
    way = " → ".join([*(element.item_id for element in elements), again.item_id])
    what = f"expected a chain of executors that ends, found that it comes back to {again.item_id}: {way}"
    return ChainError(
        "executor_cycle",
        what,
        where=printable(elements[-1].path),
        hint=f"correct executor_id in {_quoted(elements[-1].path)}",
        item_id=root.item_id,
    )


def _too_deep(elements: Sequence[ChainElement]) -> ChainError:
    root = elements[0]
    what = (
        f"expected at most {MAX_CHAIN_DEPTH} elements in the chain of {root.item_id}, found more: the last "
        f"one allowed is {elements[-1].item_id}, and it names {elements[-1].executor_id}"
    )
    return ChainError(
        "chain_too_deep",
        what,
        where=printable(elements[-1].path),
        hint="let a runtime name a primitive directly: executor_id: rye/core/primitives/subprocess",
        item_id=root.item_id,
    )


@dataclass(frozen=True, slots=True)
class MetadataRole:
    """Tells the role of one item from its bytes. Two for one item are equal, so that answers are kept."""

    file: ItemFile = field(compare=False, repr=False)
    item_id: str
    extension: str

    @classmethod
    def of(cls, file: ItemFile) -> MetadataRole:
        """Return the metadata that tells the role of this item."""
        return cls(file, file.item_id, file.extension)

    def __call__(self, content: bytes) -> Role:
        """The role that these bytes claim; RyeError `invalid_item` when they make no sense."""
        same = content is self.file.content
        file = self.file if same else replace(self.file, content=content)
        return role_in_metadata(parse_metadata(file))


def role_in_metadata(metadata: ItemMetadata) -> Role:
    """Return the role in a chain of a tool with this metadata."""
    if metadata.is_primitive:
        return Role.PRIMITIVE
    if metadata.is_engine:
        return Role.ENGINE
    return Role.RUNTIME if metadata.is_runtime else Role.TOOL
