"""`rye init`, apart from its words: a user who can sign, and a project of their own.

Nothing is asked, and doing it again changes nothing. Keys come first. Only a project whose `.ai` was made
here, or that the user has approved, is written to. No link is followed.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any, Final

from lilux import _files as whole_files
from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.files import Tree, translated
from rye_mcp.items import ItemType, printable
from rye_mcp.trust.approvals import UNSIGNED_PARTS
from rye_mcp.trust.decisions import Change, owner_of, propose_key
from rye_mcp.trust.keys import KeyRing
from rye_mcp.trust.scope import SignerKind
from rye_mcp.trust.trust_document import PublicKey, RotationStatement, TrustDocument
from rye_mcp.trust.verify import Trust

__all__ = [
    "GITIGNORE_LINES",
    "InitializedProject",
    "InitializedUser",
    "initialize_project",
    "initialize_user",
]

GITIGNORE_LINES: Final = (
    "/.ai/keys/",
    "/.ai/**/__pycache__/",
    "/.ai/**/.lilux-*.tmp",
    "/.env",
    "/.venv/",
    "node_modules/",
)
"""Names that do not belong into a repository: private keys, leftovers of programs, unsigned state."""

_SPACE = ".ai"
_GITIGNORE = ".gitignore"
_MAX_GITIGNORE_BYTES = 1 << 20
_DIRECTORY_MODE = 0o755
_FILE_MODE = 0o644


@dataclass(frozen=True, slots=True)
class InitializedUser:
    """A user space that is ready; `made` when its key pair is new."""

    space: Path
    key: PublicKey
    owner: str
    made: bool
    rotation: RotationStatement | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return it as data, for `--json`."""
        return {
            "space": printable(self.space),
            "key_id": self.key.key_id,
            "fingerprint": self.key.fingerprint,
            "owner": self.owner,
            "made": self.made,
        }


@dataclass(frozen=True, slots=True)
class InitializedProject:
    """The state of a directory: `made` when `.ai` is new, `yours` when its unsigned files may be used.

    `ignored` are the lines that `.gitignore` got; `proposed` says what became of the proposal of this user's
    key, None without one. `unapproved` says why a project that was made is not approved.
    """

    root: Path
    made: bool
    yours: bool
    proposed: Change | None = None
    ignored: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    unapproved: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return it as data, for `--json`."""
        why = {} if self.unapproved is None else {"unapproved": printable(self.unapproved)}
        return why | {
            "path": printable(self.root),
            "made": self.made,
            "yours": self.yours,
            "proposed": None if self.proposed is None else self.proposed.value,
            "ignored": list(self.ignored),
            "notices": list(self.notices),
        }


def initialize_user(
    user_space: Path,
    ring: KeyRing,
    trust: Trust,
    *,
    owner: str | None = None,
    passphrase: bytes | None = None,
) -> InitializedUser:
    """Make this user's key pair and the directories of their space, unless they exist."""
    made = not _has_key(ring)
    key = ring.ensure(SignerKind.PERSON, owner=owner, passphrase=passphrase)
    _make_directories(user_space)
    rotation = ring.rotation_of(SignerKind.PERSON)
    return InitializedUser(user_space, key, owner_of(trust, key) or "unknown", made, rotation)


def initialize_project(
    project: Path, user: InitializedUser, trust: Trust, *, propose: bool
) -> InitializedProject:
    """Make a project of a directory, or say whose it is."""
    made = _make_space(project / _SPACE)
    unapproved = _approve(project, trust) if made else None
    yours = trust.approvals is not None and trust.approvals.read().approved
    if not yours and unapproved is None:
        return InitializedProject(project, made, yours)
    space = Path(os.path.realpath(project / _SPACE))
    _make_directories(space)
    proposed = _propose(space, user, trust) if made and propose else None
    ignored, notices = _ignore(project)
    return InitializedProject(project, made, yours, proposed, ignored, notices, unapproved)


def _has_key(ring: KeyRing) -> bool:
    try:
        ring.show(SignerKind.PERSON)
    except RyeError as exc:
        if exc.code != "no_key":
            raise
        return False
    return True


def _make_space(path: Path) -> bool:
    """Make `.ai`; False when it exists. The user who makes it has made the project."""
    try:
        with translated("write_failed", path):
            path.mkdir(_DIRECTORY_MODE)
    except RyeError as exc:
        if not isinstance(exc.__cause__, FileExistsError):
            raise
        if not path.is_dir():
            what = f"expected a directory, or nothing, at {path}, found something else"
            raise RyeError("unsafe_path", what, where=path) from exc
        return False
    return True


def _approve(project: Path, trust: Trust) -> str | None:
    """Approve a project that was just made, or say why a person has to do it by a command."""
    approvals = trust.approvals
    if approvals is None:
        return None
    main = approvals.repository
    if main != approvals.root and os.path.lexists(main / _SPACE):
        return None
    found = [name for name in UNSIGNED_PARTS if os.path.lexists(project / name)]
    if found:
        return f"{', '.join(found)} stood here before; to use what you have looked at: rye trust project"
    try:
        approvals.approve_project()
    except RyeError as exc:
        if exc.code != "unsafe_permissions":
            raise
        return f"{exc.message}; {exc.hint}, and then: rye trust project"
    return None


def _make_directories(space: Path) -> None:
    for item_type in ItemType:
        with (
            translated("write_failed", space / item_type.directory),
            Tree(space).opened(item_type.directory, create_mode=_DIRECTORY_MODE),
        ):
            pass


def _propose(space: Path, user: InitializedUser, trust: Trust) -> Change:
    return propose_key(trust, space, TrustDocument.create(user.key, user.owner, rotation=user.rotation))


def _ignore(project: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Add what is missing to `.gitignore`; what was added, and why nothing could be."""
    path = project / _GITIGNORE
    try:
        data = Tree(project).read(_GITIGNORE, limit=_MAX_GITIGNORE_BYTES)
    except RyeError as exc:
        return (), (f"{_GITIGNORE} stays as it is: {exc.message}",)
    before = b"" if data is None else data
    there = set(before.splitlines())
    missing = tuple(line for line in GITIGNORE_LINES if line.encode() not in there)
    if not missing:
        return (), ()
    mode = _FILE_MODE if data is None else stat.S_IMODE(path.stat(follow_symlinks=False).st_mode)
    with translated("write_failed", path):
        whole_files.write_whole(path, before + _added(before, missing), mode=mode)
    return missing, ()


def _added(before: bytes, lines: tuple[str, ...]) -> bytes:
    """The lines, to be put behind what may not end with a newline."""
    gap = b"" if before.endswith(b"\n") or not before else b"\n"
    return gap + "".join(f"{line}\n" for line in lines).encode()
