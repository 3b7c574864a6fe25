"""`push`: items of a space, with everything that vouches for them, as an artifact in a registry.

What is pushed is judged as it will be when somebody pulls it, by the same gate. So nothing is pushed that
does not verify, and nothing that only an agent signed: no other user could accept it.

    await push(PushRequest("registry.example.com/team/tools:1", ("demo/*",)), context, network.put)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.executor.chain.builder import ChainElement
from rye_mcp.executor.lock.skills import SkillLocks
from rye_mcp.executor.lock.store import LockfileStore, relative_lockfile, relative_skill_lock
from rye_mcp.files import Tree
from rye_mcp.items import (
    ItemFile,
    ItemPlace,
    ItemType,
    Space,
    SpaceName,
    relative_path,
)
from rye_mcp.sharing.artifact import SharedFile
from rye_mcp.sharing.paths import KEYS_DIRECTORY
from rye_mcp.sharing.reference import Reference, parse_reference
from rye_mcp.spaces import Reader
from rye_mcp.spaces.source_tree import SourceTree
from rye_mcp.trust.dependency_manifest import MAX_LISTED_BYTES
from rye_mcp.trust.scope import SignerKind
from rye_mcp.trust.trust_document import MAX_DOCUMENT_BYTES
from rye_mcp.verbs._arriving import Judged, judge, require_person, signed_by
from rye_mcp.verbs._chains import Chains, FoundOnce, Runners
from rye_mcp.verbs._selection import select
from rye_mcp.verbs.context import Context, options_of
from rye_mcp.verbs.load import carried_files

__all__ = ["PushRequest", "Pushed", "Put", "push"]

Put = Callable[[Reference, Sequence[SharedFile]], Awaitable[str]]
"""Puts files into a registry; the digest of the artifact."""


@dataclass(frozen=True, slots=True)
class PushRequest:
    """Where to, and what: ids and patterns, of one type or of all, in one space."""

    reference: str
    patterns: Sequence[str]
    item_type: ItemType | None = None
    space: SpaceName = SpaceName.PROJECT


@dataclass(frozen=True, slots=True)
class Pushed:
    """What is in the registry now."""

    reference: Reference
    digest: str
    items: tuple[str, ...]
    files: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return it as data."""
        return {
            "status": "success",
            "reference": str(self.reference.pinned(self.digest)),
            "digest": self.digest,
            "items": list(self.items),
            "files": list(self.files),
        }


async def push(request: PushRequest, context: Context, put: Put) -> Pushed:
    """Push what the patterns select.

    1. the items are found, each passes the gate, and what they rest on in the same space goes along
    2. so do the listings and files that they carry, their lockfiles, and the keys of their signers
    3. all of it is judged as whoever pulls it will judge it
    4. it is put into the registry
    """
    require_person(context, "push")
    reference = _tagged(request.reference)
    if request.space is SpaceName.SYSTEM:
        raise RyeError("out_of_scope", "expected items of a project or a user, found the system space")
    space = context.spaces.space(request.space)
    selected = _selected(request, context)
    files = _Files(space, context)
    for file in selected:
        files.add_item(file)
    files.add_keys()
    judged = judge(files.all(), space, context.trust).judged
    _require_usable(judged.values())
    digest = await put(reference, files.all())
    items = sorted(f"{each.item_type}:{each.item_id}" for each in selected)
    return Pushed(reference, digest, tuple(items), tuple(each.path for each in files.all()))


def _tagged(text: str) -> Reference:
    reference = parse_reference(text)
    if isinstance(reference, Reference) and reference.tag is not None and reference.digest is None:
        return reference
    what = f"expected a registry, a repository and a tag to push to, found {reference}"
    raise RyeError("invalid_reference", what, hint="such as registry.example.com/team/tools:1")


def _selected(request: PushRequest, context: Context) -> list[ItemFile]:
    types = tuple(ItemType) if request.item_type is None else (request.item_type,)
    places: dict[ItemPlace, None] = {}
    for pattern in request.patterns:
        found = select(context.spaces, pattern, names=(request.space,), types=types)
        if found.refused:
            raise found.refused[0].error
        if not found.places:
            what = f"expected items that match {pattern} in the {request.space} space, found none"
            raise RyeError("item_not_found", what, item_id=pattern)
        places.update(dict.fromkeys(found.places))
    with Reader() as reader:
        return [reader.read(each) for each in places]


class _Files:
    """The files that go along, by path."""

    def __init__(self, space: Space, context: Context) -> None:
        self._space = space
        self._context = context
        self._runners = Runners(context)
        self._chains = Chains(context, FoundOnce(context.spaces))
        self._files: dict[str, SharedFile] = {}
        self._locked = {
            place.path.relative_to(space.root).as_posix()
            for place in LockfileStore(context.spaces, context.trust).list()
            if place.space.name is space.name
        }

    def all(self) -> list[SharedFile]:
        """Every file, by path."""
        return [file for _, file in sorted(self._files.items())]

    def add_item(self, file: ItemFile) -> None:
        """An item, and what it rests on in the same space."""
        path = relative_path(file.item_type, file.item_id, file.extension)
        if path in self._files:
            return
        verified = self._context.verify(file)
        with SourceTree(self._space.root) as tree:
            self._add(path, tree)
            for each in file.skill.files if file.skill else ():
                self._add(f"{file.item_type.directory}/{file.item_id}/{each}", tree)
            if file.item_type is ItemType.SKILL and SkillLocks(self._context.spaces).find(file.item_id):
                self._add(relative_skill_lock(file.item_id), tree)
            if file.item_type is ItemType.TOOL:
                self._add_tool(ChainElement(file, self._context.metadata(verified)), tree)

    def _add_tool(self, element: ChainElement, tree: SourceTree) -> None:
        carried, listings = carried_files(element, tree, self._context, self._chains)
        for each in (*carried, *listings):
            self._add(each, tree)
        if element.metadata.is_library or element.metadata.is_runtime:
            return
        runners = self._runners.executors(element.file, element.metadata)
        if isinstance(runners, RyeError):
            raise runners
        for runner, _ in runners.pairs:
            if runner.file.space.name is self._space.name:
                self.add_item(runner.file)
        lock = relative_lockfile(element.file.item_id, element.version)
        if lock in self._locked:
            self._add(lock, tree)

    def add_keys(self) -> None:
        """What the project proposes, or the user trusts, for the keys that signed."""
        for fingerprint in set(self._fingerprints()):
            path = f"{KEYS_DIRECTORY}/{fingerprint}.toml"
            for space in (self._space, self._context.spaces.user):
                found = Tree(space.root).read(path, limit=MAX_DOCUMENT_BYTES)
                if found is not None:
                    self._files[path] = SharedFile(path, found)
                    break

    def _fingerprints(self) -> Iterator[str]:
        for each in self._files.values():
            for _, (_, fingerprint) in signed_by(each, self._space):
                yield fingerprint

    def _add(self, path: str, tree: SourceTree) -> None:
        found = tree.read(path, limit=MAX_LISTED_BYTES)
        if found is None:
            raise RyeError("item_not_found", f"expected {path}, found that it is gone", item_id=path)
        self._files[path] = SharedFile(path, found.content, found.executable)


def _require_usable(judged: Iterable[Judged]) -> None:
    """Everything is signed by a person whom this user trusts."""
    for each in judged:
        if each.undecided is not None:
            raise each.undecided
        if each.kind is SignerKind.AGENT:
            what = f"expected {each.file.item_id} signed by a person, found the signature of an agent"
            options = options_of(each.file.item_type, each.file.space.name)
            hint = f"read it, and sign it if it is good: rye sign {each.file.item_id}{options}"
            raise RyeError("person_required", what, item_id=each.file.item_id, hint=hint)
