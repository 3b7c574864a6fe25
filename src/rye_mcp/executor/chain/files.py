"""The files of a tool: every file that runs with it, read once and verified.

A file is carried if a signed `deps.manifest.yaml` lists it, or if `verify_deps` asks for it
(`verify_deps`). Nothing else exists for what runs. The rules are in `docs/architecture/execution.md`.
"""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.executor.chain.anchor import (
    LIBRARY_NAME,
    Anchor,
    Library,
    Tree,
    anchor_of,
    directory_of,
    library_of,
    names_library,
)
from rye_mcp.executor.chain.builder import Chain, ChainElement, once_a_chain
from rye_mcp.executor.chain.skill_scripts import WholeSkill, whole_skill
from rye_mcp.executor.chain.verify_deps import DependencyRules, directory_asked_for, names_asked_for, rules_of
from rye_mcp.executor.configuration.merged import merge_config
from rye_mcp.items import (
    DEPENDENCY_MANIFEST_NAME,
    MAX_ITEM_BYTES,
    SHEBANG,
    ItemFile,
    Space,
    SpaceName,
    parse_relative_path,
    printable,
)
from rye_mcp.notices import Notice
from rye_mcp.spaces.source_tree import SourceFile, SourceTree
from rye_mcp.trust.dependency_manifest import (
    MAX_CARRIED_BYTES,
    MAX_LISTED_BYTES,
    manifest_file,
    verify_manifest,
)
from rye_mcp.trust.listing import case_collisions
from rye_mcp.trust.scope import Role, Signer, SignerKind
from rye_mcp.trust.verify import Moment, Trust, VerifiedItem, verify_item

__all__ = [
    "LIBRARY_DIRECTORY",
    "BundledFile",
    "BundledFiles",
    "OpenTree",
    "Source",
    "bundled_files",
    "open_on_disk",
]

LIBRARY_DIRECTORY: Final = "lib"
"""Where the library of a runtime is in a snapshot, beside `tools`."""

CALLS_DIRECTORY: Final = "calls"
"""Where in a library the client for calls is; only a tool that may call brings it along."""

_UNSEALED = "its anchor is the project's directory, whose files nobody signed"


@dataclass(frozen=True, slots=True)
class BundledFile:
    """A file that was verified, as it was read. `relative` is where it is below the root of a snapshot."""

    relative: str
    content: bytes = field(repr=False)
    digest: str
    executable: bool = False


@dataclass(frozen=True, slots=True)
class Source:
    """A file of a space beside the elements of a chain, as it was read: it is carried, or lists what is."""

    space: SpaceName
    relative: str
    content: bytes = field(repr=False)
    executable: bool = False


@dataclass(frozen=True, slots=True)
class BundledFiles:
    """All that runs: the tool first, then what it rests on, by path; `library` is that of its runtime.

    `sources` are all files that were read for it. `source` is what the root of a snapshot stands for,
    `library_source` where the library came from; both are for messages. `sealed` is false when something else
    may run besides, and `why_not_sealed` says what.
    """

    files: tuple[BundledFile, ...]
    library: tuple[BundledFile, ...]
    anchor: Anchor | None
    source: Path
    library_source: Path | None = None
    sealed: bool = True
    why_not_sealed: str | None = None
    notices: tuple[Notice, ...] = ()
    sources: tuple[Source, ...] = field(default=(), repr=False)

    @property
    def tool(self) -> BundledFile:
        """The tool itself."""
        return self.files[0]

    @property
    def digests(self) -> Mapping[str, str]:
        """Path → SHA256, of everything but the tool; what is of a library begins with `lib/`."""
        return {file.relative: file.digest for file in (*self.files[1:], *self.library)}


OpenTree = Callable[[Space], Tree]
"""Opens the files of a space."""


def open_on_disk(space: Space) -> Tree:
    """The files of a space as they are on the disk."""
    return SourceTree(space.root)


def bundled_files(
    chain: Chain,
    items: Sequence[VerifiedItem],
    trust: Trust,
    project: Path | None,
    open_tree: OpenTree = open_on_disk,
) -> BundledFiles:
    """Everything that a chain runs, when all of it is authentic; RyeError that names every other file.

    1. what the chain declares: anchor, dependencies, library
    2. what the signed manifests of the tool's directory and of the anchor list
    3. what has to be authentic besides
    4. the library of the runtime
    """
    tool = chain.root
    with open_tree(tool.file.space) as tree:
        anchor = anchor_of(chain, project, tree)
        sealed = anchor is None or anchor.relative is not None
        if not sealed:
            _require_approved(tool, trust)
        own, sources = _own_files(chain, items[0].signer, anchor, trust, tree)
    library = _library_named(chain, anchor)
    brought, more_sources = _library_files(library, tool, trust, open_tree)
    if len(own) > 1 or brought:
        _require_room((*own, *brought), tool)
    return BundledFiles(
        files=own,
        library=brought,
        anchor=anchor,
        source=tool.file.space.root,
        library_source=None if library is None else library.runtime.file.space.root / library.relative,
        sealed=sealed,
        why_not_sealed=None if sealed else _UNSEALED,
        sources=(*sources, *more_sources),
    )


def _own_files(
    chain: Chain, signer: Signer, anchor: Anchor | None, trust: Trust, tree: Tree
) -> tuple[tuple[BundledFile, ...], list[Source]]:
    """Return the tool and what it rests on in its own space (steps 1 to 3), also as it was read."""
    tool, rules = chain.root, rules_of(chain)
    content = tool.file.content
    itself = BundledFile(_relative(tool), content, hashlib.sha256(content).hexdigest())
    needs = _Dependencies(tool, signer, Role.TOOL, trust, tree)
    needs.list_by(directory_of(tool))
    if anchor is not None and anchor.relative is not None:
        needs.list_by(anchor.relative)
    needs.look_for(rules, directory_asked_for(tool, anchor, rules))
    files = needs.files(without=itself)
    skill = whole_skill(tool, signer, trust, tree)
    own = (itself,) if skill is None else _files_of_skill(skill)
    return (*own, *files), [*needs.sources, *_sources_of_skill(skill)]


def _library_named(chain: Chain, anchor: Anchor | None) -> Library | None:
    """The library of the runtime, if the configuration or the anchor asks for it."""
    library = library_of(chain)
    is_named = _config_names_library(chain) or (anchor is not None and names_library(anchor))
    return library if is_named else None


def _files_of_skill(skill: WholeSkill) -> tuple[BundledFile, ...]:
    """The script, in the place of the tool; then the listing, which stands for all, and the other files."""
    listing, directory = skill.item.file, _directory_of(skill)
    files = {
        path: BundledFile(
            f"{directory}/{path}", each.content, hashlib.sha256(each.content).hexdigest(), each.executable
        )
        for path, each in skill.files.items()
    }
    script = files.pop(skill.script)
    named = BundledFile(f"{directory}{listing.extension}", listing.content, skill.item.digest)
    return script, named, *files.values()


def _sources_of_skill(skill: WholeSkill | None) -> list[Source]:
    if skill is None:
        return []
    listing, directory = skill.item.file, _directory_of(skill)
    space = listing.space.name
    files = (
        Source(space, f"{directory}/{path}", each.content, each.executable)
        for path, each in skill.files.items()
    )
    return [Source(space, f"{directory}{listing.extension}", listing.content), *files]


def _directory_of(skill: WholeSkill) -> str:
    return f"{skill.item.file.item_type.directory}/{skill.item.file.item_id}"


@once_a_chain
def _config_names_library(chain: Chain) -> bool:
    waiting: list[Any] = [merge_config(chain)]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, str) and LIBRARY_NAME in value:
            return True
    return False


class _Dependencies:
    """The files that one element rests on, and the evidence for each of them."""

    def __init__(
        self, element: ChainElement, signer: Signer | None, role: Role, trust: Trust, tree: Tree
    ) -> None:
        """`signer` vouches for the element; without one, files need the signature of a person."""
        self._element = element
        self._is_persons = signer is None or signer.kind is SignerKind.PERSON
        self._owner = None if signer is None else signer.owner
        self._role = role
        self._trust = trust
        self._tree = tree
        self._moment = Moment()
        self._listed: dict[str, set[str]] = {}
        self._asked_for: set[str] = set()
        self._refusals: list[RyeError] = []
        self.sources: list[Source] = []

    @property
    def _space(self) -> Space:
        return self._element.file.space

    def list_by(self, directory: str) -> None:
        """Take over what the manifest of a directory lists, when there is one."""
        relative = f"{directory}/{DEPENDENCY_MANIFEST_NAME}"
        found = self._tree.read(relative, limit=MAX_ITEM_BYTES)
        if found is None:
            return
        self.sources.append(Source(self._space.name, relative, found.content))
        file = manifest_file(self._space, directory, found.content)
        try:
            manifest = verify_manifest(file, self._trust, role=self._role, moment=self._moment)
            self._require_signer(manifest.signer, file.path)
        except RyeError as exc:
            raise self._refusal(exc, relative) from exc
        for path, digest in manifest.files.items():
            self._listed.setdefault(f"{directory}/{path}", set()).add(digest)

    def look_for(self, rules: DependencyRules, directory: str | None) -> None:
        """Take note of every file in a directory that has to be authentic."""
        for name in names_asked_for(self._tree, rules, directory):
            if name.is_regular:
                self._asked_for.add(name.relative)
            else:
                self._refusals.append(self._refusal(self._tree.unsafe(name), name.relative))

    def files(self, *, without: BundledFile | None = None) -> tuple[BundledFile, ...]:
        """All of them, verified, by path; RyeError with every one that is not authentic."""
        names = self._listed.keys() | self._asked_for
        carried: list[BundledFile] = []
        room = MAX_CARRIED_BYTES
        for relative in sorted(names):
            try:
                file = self._verified(relative, without)
            except RyeError as exc:
                self._refusals.append(self._refusal(exc, relative))
                continue
            if without is None or relative != without.relative:
                carried.append(file)
                room -= len(file.content)
            if room < 0:
                raise _too_much(self._element)
        self._raise_any()
        return tuple(carried)

    def _verified(self, relative: str, known: BundledFile | None) -> BundledFile:
        if known is not None and relative == known.relative:
            self._require_listed_digest(known.digest, relative)
            return known
        found = self._tree.read(relative, limit=MAX_LISTED_BYTES)
        if found is None:
            shown = printable(self._space.root / relative)
            what = f"expected {shown}, as {DEPENDENCY_MANIFEST_NAME} lists it, found none"
            raise RyeError("content_changed", what, where=shown)
        file = BundledFile(
            relative, found.content, hashlib.sha256(found.content).hexdigest(), found.executable
        )
        if self._space.name is SpaceName.SYSTEM:
            self._trust.manifest.require_listed(relative, found.content, found.path)
        if relative in self._listed:
            self._require_listed_digest(file.digest, relative)
        elif self._space.name is not SpaceName.SYSTEM:
            self._require_signed(relative, found)
        self.sources.append(Source(self._space.name, relative, found.content, found.executable))
        return file

    def _require_listed_digest(self, digest: str, relative: str) -> None:
        expected = self._listed.get(relative, {digest})
        if expected != {digest}:
            shown = printable(self._space.root / relative)
            listed = " and ".join(sorted(expected))
            what = f"expected the SHA256 {listed} of {shown}, as it was signed, found {digest}"
            raise RyeError("content_changed", what, where=shown)

    def _require_signed(self, relative: str, found: SourceFile) -> None:
        file = self._as_item(relative, found)
        signer = verify_item(file, self._trust, role=self._role, moment=self._moment).signer
        self._require_signer(signer, file.path)

    def _as_item(self, relative: str, found: SourceFile) -> ItemFile:
        try:
            item_type, item_id, extension = parse_relative_path(relative)
        except RyeError as exc:
            raise _neither(found.path) from exc
        if not extension and not found.content.startswith(SHEBANG):
            raise _neither(found.path)
        return ItemFile(self._space, item_type, item_id, extension, found.path, found.content)

    def _require_signer(self, signer: Signer, path: Path) -> None:
        """Require a person as signer of the files that a person's tool rests on: they get its rights."""
        if self._is_persons and signer.kind is SignerKind.AGENT:
            shown = printable(path)
            what = f"expected a person's signature, as {self._element.item_id} has one, found an agent's"
            raise RyeError("out_of_scope", f"{what}: {shown}", where=shown)

    def _refusal(self, error: RyeError, relative: str) -> RyeError:
        """The same refusal, as one of the element that rests on the file."""
        item_id = self._element.item_id
        hint = error.hint
        if error.code in _SIGN_AGAIN:
            beside = os.path.relpath(relative, directory_of(self._element))
            hint = f"{_SIGN_AGAIN[error.code]}rye sign {item_id} --with {shlex.quote(printable(beside))}"
        if relative.endswith(f"/{DEPENDENCY_MANIFEST_NAME}"):
            hint = f"{_SIGN_AGAIN.get(error.code, '')}rye sign {item_id}"
        if self._space.name is SpaceName.SYSTEM:
            hint = "pip install --force-reinstall rye-mcp"
        details = {**error.details, "item_id": item_id, "dependency": relative}
        if self._is_persons and self._owner is not None:
            details["signed_before_by"] = self._owner
        what = f"{item_id} rests on {printable(relative)}: {error.message}"
        return RyeError(error.code, what, where=error.where, hint=hint, **details)

    def _raise_any(self) -> None:
        if not self._refusals:
            return
        first = self._refusals[0]
        if len(self._refusals) > 1:
            shown = self._refusals[:_REPORTED]
            first.details["issues"] = [_as_issue(each) for each in shown]
            first.message += f"; and {len(self._refusals) - 1} more"
        raise first


def _library_files(
    library: Library | None, tool: ChainElement, trust: Trust, open_tree: OpenTree
) -> tuple[tuple[BundledFile, ...], list[Source]]:
    """Return the files of a runtime's library, for a snapshot and as they were read.

    Only the manifest of the package vouches for those of the system space: they are remembered.
    """
    if library is None:
        return (), []
    may_call = bool(tool.metadata.permissions is not None and tool.metadata.permissions.calls)
    work = partial(_read_library, library, trust, open_tree, may_call=may_call)
    if library.runtime.space is not SpaceName.SYSTEM or open_tree is not open_on_disk:
        return work()
    key = (library.runtime.path, library.relative, may_call)
    found: tuple[tuple[BundledFile, ...], list[Source]] = trust.libraries.value(key, work)
    return found


def _read_library(
    library: Library, trust: Trust, open_tree: OpenTree, *, may_call: bool
) -> tuple[tuple[BundledFile, ...], list[Source]]:
    runtime, below = library.runtime, f"{library.relative}/"
    with open_tree(runtime.file.space) as tree:
        needs = _Dependencies(runtime, None, Role.RUNTIME, trust, tree)
        if runtime.space is not SpaceName.SYSTEM:
            needs.list_by(directory_of(runtime))
        left_out = frozenset() if may_call else frozenset({CALLS_DIRECTORY})
        needs.look_for(DependencyRules(enabled=True, exclude_dirs=left_out), library.relative)
        files = [file for file in needs.files() if file.relative.startswith(below)]
    if not files:
        shown = printable(runtime.file.space.root / library.relative)
        what = f"expected the library of {runtime.item_id}, found no files: {shown}"
        raise RyeError("invalid_item", what, where=shown, item_id=runtime.item_id)
    brought = (
        replace(file, relative=f"{LIBRARY_DIRECTORY}/{file.relative.removeprefix(below)}") for file in files
    )
    return tuple(brought), needs.sources


def _relative(element: ChainElement) -> str:
    file = element.file
    return f"{file.item_type.directory}/{file.item_id}{file.extension}"


def _require_approved(tool: ChainElement, trust: Trust) -> None:
    """Require that the person approved the project before its unsigned files are used."""
    if trust.approvals is None or not trust.approvals.read().approved:
        what = f"expected a project that you approved, as {tool.item_id} takes code from all of it, found one"
        raise RyeError(
            "person_required", f"{what} that you did not", item_id=tool.item_id, hint="rye trust project"
        )


def _require_room(files: Sequence[BundledFile], tool: ChainElement) -> None:
    """All of it together is within the limit, and every name is one on each file system."""
    if sum(len(file.content) for file in files) > MAX_CARRIED_BYTES:
        raise _too_much(tool)
    for one, other in case_collisions(file.relative for file in files):
        what = f"expected files of {tool.item_id} that differ in more than case, found {one!r} and {other!r}"
        raise RyeError("ambiguous_item", what, where=printable(tool.path), item_id=tool.item_id)


def _too_much(element: ChainElement) -> RyeError:
    what = f"expected at most {MAX_CARRIED_BYTES} bytes in all files of {element.item_id}, found more"
    return RyeError("too_large", what, where=printable(element.path), item_id=element.item_id)


def _neither(path: Path) -> RyeError:
    shown = printable(path)
    what = f"expected a signature in {shown}, or its line in {DEPENDENCY_MANIFEST_NAME}, found neither"
    return RyeError("unsigned", what, where=shown)


def _as_issue(error: RyeError) -> dict[str, Any]:
    return {"code": error.code, "message": error.message, "dependency": error.details["dependency"]}


_REPORTED = 50
"""How many files are named when many are not authentic."""

_SIGN_AGAIN: Final[Mapping[str, str]] = MappingProxyType(
    {
        "unsigned": "",
        "content_changed": "look at what changed, then: ",
        "out_of_scope": "read it first, then: ",
    }
)
"""Refusals that signing fixes, and what comes first."""
