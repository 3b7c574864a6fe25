"""This user's decisions about a project, and which of its unsigned parts may be used.

Decisions are kept in the state directory of the user, in a file named after the project's real path, so
nothing in a project can decide about it. `decide_use` does no I/O: its caller gathers the facts.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from lilux import _files as whole_files
from lilux import _json
from lilux._dataclasses import dataclass
from lilux._stamps import KeptFile
from rye_mcp.errors import RyeError
from rye_mcp.files import OTHERS, Tree, translated
from rye_mcp.items import printable
from rye_mcp.other_users import why_others_write
from rye_mcp.trust.control_variables import controls_programs
from rye_mcp.trust.trust_document import is_key_id

__all__ = [
    "TRUSTED_KEYS_VARIABLE",
    "UNSIGNED_PARTS",
    "Approvals",
    "Decision",
    "DotenvSplit",
    "ProjectDecisions",
    "ProjectFacts",
    "ProjectUse",
    "decide_use",
    "git_directories",
    "identify_project",
    "split_dotenv",
    "trusted_keys_of",
]

UNSIGNED_PARTS: Final = (".env", ".venv", "node_modules")
"""Parts of an approved project that are used although no signature covers them."""

_MAX_LINK_BYTES = 4096
_GITDIR = b"gitdir: "
_WORKTREES = ("worktrees", ".git")


@dataclass(frozen=True, slots=True)
class ProjectFacts:
    """The facts about a project that were found; None is what could not be found out.

    `interpreter` is the real file of the interpreter in `.venv`, after every link.
    """

    root: Path
    approved: bool
    has_pyvenv_cfg: bool = False
    venv_is_tracked: bool | None = None
    interpreter: Path | None = None


@dataclass(frozen=True, slots=True)
class ProjectUse:
    """Which unsigned parts of a project may be used, and for each that may not, the reason."""

    allowed: frozenset[str]
    refused: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class DotenvSplit:
    """The variables of a `.env` that may be set, and the names of those that may not."""

    kept: Mapping[str, str]
    refused: tuple[str, ...]


def decide_use(facts: ProjectFacts) -> ProjectUse:
    """Whether `.env`, `.venv` and `node_modules` of a project may be used."""
    if not facts.approved:
        reason = "you have not approved this project: rye trust project"
        return ProjectUse(frozenset(), dict.fromkeys(UNSIGNED_PARTS, reason))
    problem = _why_no_venv(facts)
    if problem is None:
        return ProjectUse(frozenset(UNSIGNED_PARTS), {})
    return ProjectUse(frozenset({".env", "node_modules"}), {".venv": problem})


def split_dotenv(variables: Mapping[str, str]) -> DotenvSplit:
    """Take out what a `.env` may never set."""
    refused = tuple(sorted(name for name in variables if controls_programs(name)))
    return DotenvSplit({name: text for name, text in variables.items() if name not in refused}, refused)


def identify_project(root: Path) -> Path:
    """The real path of the repository that a project is a worktree of, or its own."""
    real = Path(os.path.realpath(root))
    try:
        return _main_repository(real) or real
    except (RyeError, OSError, ValueError):
        return real


def git_directories(root: Path) -> tuple[Path, ...]:
    """The directories in which git keeps what it knows of a project: one, of a worktree its own and the main.

    `root` has the `.git` in it. They are found without running git. A `.git` that leads where git itself
    would not have made it lead counts for nothing: the maker of the project may have chosen the place.
    """
    if (root / ".git").is_symlink():
        return ()
    if (root / ".git").is_dir():
        return (root / ".git",)
    try:
        main, own = _main_repository(root), _link(root, ".git", _GITDIR)
    except (RyeError, OSError, ValueError):
        return ()
    return () if main is None or own is None else (own, main / ".git")


def _why_no_venv(facts: ProjectFacts) -> str | None:
    if not facts.has_pyvenv_cfg:
        return "there is no .venv/pyvenv.cfg"
    if facts.venv_is_tracked is None:
        return "nobody can tell whether git tracks .venv"
    if facts.venv_is_tracked:
        return "git tracks .venv: it came with the project"
    if facts.interpreter is None:
        return "there is no interpreter in .venv"
    if facts.interpreter.is_relative_to(facts.root):
        return f"the interpreter {facts.interpreter} lies in the project itself"
    return None


def _main_repository(worktree: Path) -> Path | None:
    """The repository that a worktree belongs to, when both links hold; None for any other directory."""
    administration = _link(worktree, ".git", _GITDIR)
    if administration is None or not _is_real(administration):
        return None
    if (administration.parent.name, administration.parent.parent.name) != _WORKTREES:
        return None
    main = administration.parent.parent.parent
    if main.is_relative_to(worktree) or worktree.is_relative_to(main) or not _is_repository(main):
        return None
    return main if _link(administration, "gitdir", b"") == worktree / ".git" else None


def _is_real(path: Path) -> bool:
    """Whether a path is spelled as git spells it, so that it means the same wherever it is unpacked."""
    return path.is_absolute() and os.path.realpath(path) == str(path)


def _is_repository(directory: Path) -> bool:
    """Whether git would take a directory for a repository of its own."""
    git = directory / ".git"
    return (git / "HEAD").is_file() and (git / "objects").is_dir() and (git / "refs").is_dir()


def _link(directory: Path, name: str, prefix: bytes) -> Path | None:
    """The path in a small file; None if the file is missing or holds anything else."""
    if not (directory / name).is_file():
        return None
    data = Tree(directory).read(name, limit=_MAX_LINK_BYTES)
    line = (data or b"").removesuffix(b"\n")
    if not line.startswith(prefix) or line == prefix or b"\n" in line:
        return None
    return Path(os.fsdecode(line.removeprefix(prefix)))


TRUSTED_KEYS_VARIABLE: Final = "RYE_TRUSTED_KEYS"
"""The environment variable that accepts proposals where no person is."""

_DIRECTORY = "projects"
_MAX_STATE_BYTES = 1 << 20
_VERSION = 1
_DIRECTORY_MODE = 0o700
_FILE_MODE = 0o600
_SHA256_DIGITS = 64


class Decision(StrEnum):
    """A person's decision about a proposed key."""

    ACCEPTED = "accepted"
    DENIED = "denied"


@dataclass(frozen=True, slots=True)
class ProjectDecisions:
    """The decisions about one project: its unsigned files, and its proposals by their digests.

    `number` is that of the directory that was approved. `denied_keys` are the ids of keys that were denied
    and not accepted since.
    """

    approved: bool = False
    proposals: Mapping[str, Decision] = field(default_factory=dict)
    number: int | None = None
    denied_keys: frozenset[str] = frozenset()


class Approvals:
    """The decisions about one project, in the state directory of this user."""

    def __init__(self, project: Path, state: Path) -> None:
        """`root` is the project itself, `repository` the one that it is a worktree of, or the same."""
        self.root = Path(os.path.realpath(project))
        self.repository = identify_project(project)
        self._own = _Decided(self.root, Path(os.path.realpath(state)))
        self._main = self._own
        if self.repository != self.root:
            self._main = _Decided(self.repository, Path(os.path.realpath(state)))
        self._last = ProjectDecisions()

    @property
    def project(self) -> Path:
        """The directory that decisions are about, as of now."""
        return self.root if self._main is self._own else self._counting()[0].project

    def read(self) -> ProjectDecisions:
        """Return the decisions in force now; the same object as before as long as they are the same."""
        found, last = self._counting()[1], self._last
        if found != last:
            self._last = last = found
        return last

    def value(self) -> ProjectDecisions:
        """The same, for an answer that rests on it: the directories that were approved count, too."""
        return self.read()

    def approve_project(self, *, approved: bool = True) -> None:
        """Let the project's unsigned files be used from now on, or no more."""
        decided = self._counting()[0]
        number = _require_own(decided.project) if approved else None
        decided.change(lambda decisions: replace(decisions, approved=approved, number=number))

    def decide(self, key_ids: Mapping[str, str], decision: Decision) -> None:
        """Accept or deny proposals, as they stand; all of them in one change, or none.

        `key_ids` says for the digest of each document which key it is about.
        """
        said, keys = dict.fromkeys(key_ids, decision), frozenset(key_ids.values())
        decided = self._counting()[0]

        def change(decisions: ProjectDecisions) -> ProjectDecisions:
            denied = decisions.denied_keys
            denied = denied | keys if decision is Decision.DENIED else denied - keys
            return replace(decisions, proposals={**decisions.proposals, **said}, denied_keys=denied)

        decided.change(change)
        if decision is Decision.ACCEPTED and not keys.isdisjoint(self._own.in_force().denied_keys):
            self._own.change(lambda own: replace(own, denied_keys=own.denied_keys - keys))

    def _counting(self) -> tuple[_Decided, ProjectDecisions]:
        """The decisions that count: those of the main repository if it is approved, else its own.

        A key that was denied before the main repository counted stays denied.
        """
        if self._main is not self._own:
            decisions = self._main.in_force()
            if decisions.approved and why_others_write(str(self.root)) is None:
                denied = decisions.denied_keys | self._own.in_force().denied_keys
                return self._main, replace(decisions, denied_keys=denied)
        return self._own, self._own.in_force()


class _Decided:
    """The decision about one directory, and the file that records it."""

    def __init__(self, project: Path, state: Path) -> None:
        self.project = project
        name = hashlib.sha256(os.fsencode(project)).hexdigest()
        self._tree = Tree(state, forbidden=OTHERS)
        self._relative = f"{_DIRECTORY}/{name}.json"
        self._kept = KeptFile(self._tree, self._relative, _parse, limit=_MAX_STATE_BYTES)

    def in_force(self) -> ProjectDecisions:
        """The decisions; an approval only where it is about the directory that is there now."""
        decisions = self._kept.value()
        if not decisions.approved or self._is_same(decisions.number):
            return decisions
        return replace(decisions, approved=False)

    def _is_same(self, number: int | None) -> bool:
        is_known = number is not None and number == _number_of(self.project)
        return is_known and why_others_write(str(self.project)) is None

    def change(self, change: Callable[[ProjectDecisions], ProjectDecisions]) -> None:
        """Write down what the change makes of the decisions."""
        path = self._tree.root / self._relative
        with (
            translated("write_failed", path),
            self._tree.opened(_DIRECTORY, create_mode=_DIRECTORY_MODE) as directory,
            whole_files.lock(directory),
        ):
            data = self._tree.read(self._relative, limit=_MAX_STATE_BYTES)
            decisions = change(_parse(data, path))
            whole_files.write_whole(
                path, _render(decisions, self.project), mode=_FILE_MODE, directory=directory
            )


def _number_of(project: Path) -> int | None:
    try:
        return project.stat(follow_symlinks=False).st_ino
    except OSError:
        return None


def _require_own(project: Path) -> int:
    """The number of a directory to approve; RyeError `unsafe_permissions` if others can write to it."""
    number = _number_of(project)
    if number is None:
        what = f"expected the directory of a project to approve, found none: {printable(project)}"
        raise RyeError("no_project", what, where=project)
    if problem := why_others_write(str(project)):
        what = (
            f"expected a project that no other user can write to: {printable(project)}, found that {problem}"
        )
        hint = f"namei -l {shlex.quote(str(project))}"
        raise RyeError("unsafe_permissions", what, where=project, hint=hint)
    return number


def trusted_keys_of(environment: Mapping[str, str]) -> frozenset[str]:
    """The key ids of `RYE_TRUSTED_KEYS`; RyeError `malformed_trust` when something else stands there."""
    key_ids = environment.get(TRUSTED_KEYS_VARIABLE, "").replace(",", " ").split()
    for key_id in key_ids:
        if not is_key_id(key_id):
            raise RyeError(
                "malformed_trust",
                f"expected whole key ids of 64 hexadecimal digits in {TRUSTED_KEYS_VARIABLE}, "
                f"found {ascii(key_id)[:80]}",
                where=TRUSTED_KEYS_VARIABLE,
                hint=f"unset {TRUSTED_KEYS_VARIABLE}; rye trust list shows whole key ids",
            )
    return frozenset(key_ids)


def _parse(data: bytes | None, place: Path) -> ProjectDecisions:
    if data is None:
        return ProjectDecisions()
    try:
        state = _json.decode(data)
    except _json.NotJsonError as exc:
        raise _malformed(place, str(exc)) from exc
    if not isinstance(state, dict) or state.get("version") != _VERSION:
        raise _malformed(place, "something else")
    approved, proposals = state.get("approved"), state.get("proposals")
    number = state.get("number")
    if not isinstance(approved, bool) or not isinstance(proposals, dict):
        raise _malformed(place, "wrong types")
    if number is not None and type(number) is not int:
        raise _malformed(place, "wrong types")
    decided = MappingProxyType(dict(_decisions(proposals, place)))
    return ProjectDecisions(approved, decided, number, _denied_keys(state.get("denied_keys", []), place))


def _decisions(proposals: dict[str, Any], place: Path) -> list[tuple[str, Decision]]:
    for digest, decision in proposals.items():
        if len(digest) != _SHA256_DIGITS or not isinstance(decision, str) or decision not in set(Decision):
            raise _malformed(place, "an invalid decision")
    return [(digest, Decision(decision)) for digest, decision in proposals.items()]


def _denied_keys(key_ids: object, place: Path) -> frozenset[str]:
    if not isinstance(key_ids, list) or not all(
        isinstance(each, str) and is_key_id(each) for each in key_ids
    ):
        raise _malformed(place, "an invalid denied key")
    return frozenset(key_ids)


def _render(decisions: ProjectDecisions, project: Path) -> bytes:
    state = {
        "version": _VERSION,
        "project": os.fsencode(project).decode("utf-8", "backslashreplace"),
        "approved": decisions.approved,
        "number": decisions.number,
        "proposals": dict(decisions.proposals),
        "denied_keys": sorted(decisions.denied_keys),
    }
    return (json.dumps(state, indent=2) + "\n").encode("ascii")


def _malformed(place: Path, found: str) -> RyeError:
    return RyeError(
        "malformed_trust",
        f"expected the decisions about a project, in version {_VERSION}, in {place}, found {found}",
        where=place,
    )
