"""Judges files that come from elsewhere before any of them is written, with the gate that judges items here.

Every item and listing has a good signature by a key that came along or is known here; every other file is
listed by one of these, is a lockfile of a tool among them, or proposes the key of one of their signers. A key
that nobody here has decided about stays undecided: its items are let in, and refused when they are used.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field

from lilux._dataclasses import dataclass
from lilux.primitives.errors import LockfileError
from lilux.primitives.lockfile import Lockfile
from rye_mcp.errors import RyeError
from rye_mcp.executor.chain.builder import MetadataRole
from rye_mcp.executor.lock import pins
from rye_mcp.executor.lock.store import relative_lockfile, skill_of_lock
from rye_mcp.items import (
    DEPENDENCY_MANIFEST_NAME,
    EXTENSIONS,
    MAX_ITEM_BYTES,
    MAX_SKILL_BYTES,
    MAX_SKILL_FILES,
    SHEBANG,
    SKILL_TEXT,
    ItemFile,
    ItemType,
    ListedFile,
    SkillFiles,
    Space,
    parse_relative_path,
)
from rye_mcp.metadata import parse_metadata
from rye_mcp.sharing.artifact import SharedFile
from rye_mcp.sharing.paths import KEYS_DIRECTORY, LOCKFILES_DIRECTORY, is_item_path
from rye_mcp.trust import signature
from rye_mcp.trust.dependency_manifest import manifest_file, parse_listing
from rye_mcp.trust.listing import require_as_listed
from rye_mcp.trust.scope import Role, SignerKind
from rye_mcp.trust.trust_document import TrustDocument
from rye_mcp.trust.trust_store import Seen
from rye_mcp.trust.verify import Moment, Trust, verify_item, verify_listing
from rye_mcp.verbs.context import Context, whole_hints

__all__ = ["Arriving", "Judged", "judge", "require_person", "signed_by", "without_strays"]

[_SKILL_LISTING] = EXTENSIONS[ItemType.SKILL]


def require_person(context: Context, verb: str) -> None:
    """What comes from elsewhere, or goes there, is for a person to say."""
    if not context.is_person:
        raise RyeError("person_required", f"expected a person to {verb} items, found an agent")


@dataclass(frozen=True, slots=True)
class Judged:
    """An item or a listing whose signature is good: who signed it, and why it would not be used here yet.

    `before` are the ids of the keys that the same person had before.
    """

    file: ItemFile
    digest: str
    fingerprint: str
    key_id: str
    owner: str
    kind: SignerKind
    before: tuple[str, ...] = ()
    undecided: RyeError | None = None


@dataclass(frozen=True, slots=True)
class Arriving:
    """Files that may be written: what is signed among them by path, and the keys that they propose."""

    files: tuple[SharedFile, ...]
    judged: Mapping[str, Judged]
    documents: tuple[TrustDocument, ...] = field(default=())

    @property
    def kept(self) -> tuple[SharedFile, ...]:
        """The files without the proposed keys."""
        return tuple(each for each in self.files if not _is_below(each.path, KEYS_DIRECTORY))


def judge(files: Iterable[SharedFile], space: Space, trust: Trust) -> Arriving:
    """Everything, when all of it may be written; RyeError for the first file that may not.

    1. the keys that came along can be read, and are those of persons
    2. each listing is signed, also that of a skill, and each file that it lists is there, as listed
    3. each item is signed, and none is an engine
    4. each lockfile pins a tool or a skill that is there, as it is
    5. nothing else is there, and no key that signed nothing
    """
    given = tuple(files)
    documents = [_document(each, space) for each in given if _is_below(each.path, KEYS_DIRECTORY)]
    desk = _Desk(space, trust.with_arriving(documents), {each.path: each for each in given})
    listed = desk.listed() | desk.of_skills()
    for each in given:
        if is_item_path(each.path) and each.path not in listed and each.path not in desk.judged:
            desk.judge_item(each)
    for each in given:
        if _is_below(each.path, LOCKFILES_DIRECTORY):
            desk.require_lock(each)
    desk.require_signed(documents)
    return Arriving(given, desk.judged, tuple(documents))


def without_strays(files: Iterable[SharedFile], space: Space) -> tuple[SharedFile, ...]:
    """The files of a repository without keys that signed nothing there, and lockfiles of other versions."""
    given = tuple(files)
    signed = {path: found for each in given for path, found in signed_by(each, space)}
    keys = {f"{KEYS_DIRECTORY}/{fingerprint}.toml" for _, fingerprint in signed.values()}
    digests = {digest for digest, _ in signed.values()}
    return tuple(each for each in given if not _is_stray(each, keys, digests))


def _is_stray(file: SharedFile, keys: Collection[str], digests: Collection[str]) -> bool:
    if _is_below(file.path, KEYS_DIRECTORY):
        return file.path not in keys
    if not _is_below(file.path, LOCKFILES_DIRECTORY):
        return False
    try:
        return Lockfile.from_bytes(file.content).root.integrity not in digests
    except LockfileError:
        return False  # it is judged with the others


def signed_by(file: SharedFile, space: Space) -> Iterator[tuple[str, tuple[str, str]]]:
    """The digest and the fingerprint of an item or a listing; nothing for any other file."""
    directory, _, name = file.path.rpartition("/")
    try:
        if name == DEPENDENCY_MANIFEST_NAME:
            item = manifest_file(space, directory, file.content)
        else:
            place = parse_relative_path(file.path)
            item = ItemFile(space, *place, space.root / file.path, file.content)
        claim = signature.locate(item)
        yield file.path, (claim.digest, signature.parse(item, claim).fingerprint)
    except RyeError:
        return


def _is_below(path: str, directory: str) -> bool:
    return path.startswith(f"{directory}/")


def _document(file: SharedFile, space: Space) -> TrustDocument:
    document = TrustDocument.parse(file.content, space.root / file.path)
    if file.path != f"{KEYS_DIRECTORY}/{document.file_name}" or document.kind is not SignerKind.PERSON:
        raise _refused(f"the key of a person as {file.path}", "another document")
    return document


class _Desk:
    """The files of one judgement, and what was found out about them so far."""

    def __init__(self, space: Space, trust: Trust, files: Mapping[str, SharedFile]) -> None:
        self._space = space
        self._trust = trust
        self._files = files
        self._moment = Moment()
        self.judged: dict[str, Judged] = {}

    def listed(self) -> set[str]:
        """The files that listings carry, each of which is there as it is listed."""
        found: set[str] = set()
        for path, file in self._files.items():
            directory, _, name = path.rpartition("/")
            if name != DEPENDENCY_MANIFEST_NAME:
                continue
            listing = manifest_file(self._space, directory, file.content)
            self.judged[path] = self._judged(listing, is_listing=True)
            for relative, sha256 in parse_listing(listing).items():
                self._require_listed(f"{directory}/{relative}", sha256)
                found.add(f"{directory}/{relative}")
        return found

    def of_skills(self) -> set[str]:
        """The files of skills, each of which is there as its signed listing has it, and no other one is."""
        found: set[str] = set()
        prefix = f"{ItemType.SKILL.directory}/"
        for path, file in self._files.items():
            name = path.removeprefix(prefix).removesuffix(_SKILL_LISTING)
            if path != f"{prefix}{name}{_SKILL_LISTING}" or "/" in name:
                continue
            files = {
                each.removeprefix(f"{prefix}{name}/"): content
                for each, content in self._files.items()
                if each.startswith(f"{prefix}{name}/")
            }
            self.judge_item(file, _skill_of(name, files))
            found.update(f"{prefix}{name}/{each}" for each in files)
        return found

    def _require_listed(self, path: str, sha256: str) -> None:
        file = self._files.get(path)
        if file is None:
            raise _refused(f"{path}, which a listing names", "no such file")
        if (found := hashlib.sha256(file.content).hexdigest()) != sha256:
            what = f"expected {path} with the SHA256 {sha256}, as it is listed, found {found}"
            raise RyeError("content_changed", what, where=path, hint="ask its signer to push it again")

    def judge_item(self, file: SharedFile, skill: SkillFiles | None = None) -> None:
        """Let the gate look at an item."""
        try:
            item_type, item_id, extension = parse_relative_path(file.path)
        except RyeError as exc:
            raise _refused("items, and files that a listing carries", file.path) from exc
        if len(file.content) > MAX_ITEM_BYTES or (not extension and not file.content.startswith(SHEBANG)):
            raise _refused(f"an item of at most {MAX_ITEM_BYTES} bytes as {file.path}", "another file")
        path = self._space.root / file.path
        item = ItemFile(self._space, item_type, item_id, extension, path, file.content, skill)
        self.judged[file.path] = self._judged(item, is_listing=False)
        require_as_listed(item)
        if _is_engine(item):
            raise _refused("no engine, because it says where calls of yours are sent", file.path)

    def _judged(self, file: ItemFile, *, is_listing: bool) -> Judged:
        claim = signature.locate(file)
        line = signature.parse(file, claim)
        undecided = None
        try:
            with whole_hints(file):
                self._verify(file, is_listing=is_listing)
        except RyeError as exc:
            if exc.code != "untrusted_key" or not exc.details.get("proposed") or exc.details.get("denied"):
                raise
            undecided = exc
        signer = self._trust.store.find_signer(line.fingerprint, self._space.name, Seen(self._moment))
        if signer is None:  # it was there a moment ago
            raise _refused(f"the key {line.fingerprint}", "none")
        return Judged(
            file,
            claim.digest,
            line.fingerprint,
            signer.key.key_id,
            signer.owner,
            signer.kind,
            signer.before,
            undecided,
        )

    def _verify(self, file: ItemFile, *, is_listing: bool) -> None:
        if is_listing:
            verify_listing(file, self._trust, role=Role.TOOL, moment=self._moment)
        else:
            verify_item(file, self._trust, role=MetadataRole.of(file), moment=self._moment)

    def require_lock(self, file: SharedFile) -> None:
        """A lockfile is that of a tool or a skill which is there, and pins it as it is."""
        try:
            lockfile = Lockfile.from_bytes(file.content)
        except LockfileError as exc:
            raise _refused(f"a lockfile as {file.path}", "something else") from exc
        if pins.issues_in(lockfile) or not pins.is_version(lockfile.root.version):
            raise _refused(f"a lockfile as {file.path}", "one that pins nothing")
        skill, root = skill_of_lock(file.path), lockfile.root
        if skill != root.tool_id and relative_lockfile(root.tool_id, root.version) != file.path:
            raise _refused(f"a lockfile of what its name says as {file.path}", root.tool_id)
        wanted = ItemType.SKILL if skill else ItemType.TOOL
        digests = {
            each.file.item_id: each.digest for each in self.judged.values() if each.file.item_type is wanted
        }
        if digests.get(root.tool_id) != root.integrity:
            raise _refused(f"the {wanted} that {file.path} pins", "none with this content")

    def require_signed(self, documents: Iterable[TrustDocument]) -> None:
        """Each key that came along has signed something that did."""
        keys = {each.key_id for each in self.judged.values()}
        for each in documents:
            if each.key.key_id not in keys:
                raise _refused("keys of those who signed", each.key.key_id)
        if not self.judged:
            raise _refused("at least one item", "none")


def _is_engine(file: ItemFile) -> bool:
    """Whether this says where calls run; what cannot be read says nothing."""
    try:
        return file.item_type is ItemType.TOOL and parse_metadata(file).is_engine
    except RyeError:
        return False


def _skill_of(name: str, files: Mapping[str, SharedFile]) -> SkillFiles:
    """The files of a skill, as they would have been read from its directory."""
    total = sum(len(each.content) for each in files.values())
    if len(files) > MAX_SKILL_FILES or total > MAX_SKILL_BYTES:
        what = f"at most {MAX_SKILL_FILES} files with {MAX_SKILL_BYTES} bytes in the skill {name}"
        raise _refused(what, f"{len(files)} with {total}")
    text = files[SKILL_TEXT].content if SKILL_TEXT in files else b""
    return SkillFiles(
        text, {path: ListedFile(each.sha256, len(each.content)) for path, each in files.items()}
    )


def _refused(expected: str, found: str) -> RyeError:
    return RyeError("invalid_artifact", f"expected {expected}, found {found}")
