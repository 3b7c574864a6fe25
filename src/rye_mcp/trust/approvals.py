"""What this user has decided about a project: kept outside of it, so that nothing in it can decide.

Rules:

- Decisions are kept in the user's state directory (`$XDG_STATE_HOME/rye`), which is 0700; a file for each
  project, named after the SHA256 of its real path.
- A worktree counts as its main repository (`identify_project`) as long as the approval of that one is in
  force. Otherwise it counts as itself: what is decided in it is about its own path.
- An approval is in force for the directory that the person approved, as long as nobody else can write to it.
  The number of the directory (inode) is kept with it: one that somebody makes in its place, a copy and one
  that comes back from a backup are approved again. The device is not, since its number may change at a boot.
- A proposed key is accepted by the digest of its document: another byte is another proposal, on which
  nothing was decided. It is denied by its id, so that no other document brings it back; a later acceptance
  takes that back. Approving the project accepts none of its keys, and accepting a key does not approve the
  project.
- `RYE_TRUSTED_KEYS` holds whole key ids, with blanks or commas between them. It stands for a person where
  there is none (CI), and accepts the project's proposals of exactly these keys; what a person has denied
  stays denied.
- Nobody else can write in a directory above that one, or the decisions are refused: they could be exchanged
  for older ones.
- A file that cannot be read as one is `malformed_trust`, not "nothing decided".
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from lilux import _files as whole_files
from lilux import _json
from rye_mcp.errors import RyeError
from rye_mcp.items import printable
from rye_mcp.trust.files import KeptFile, opened_directory, read_below, require_not_exchanged, translated
from rye_mcp.trust.others import why_others_write
from rye_mcp.trust.project import identify_project
from rye_mcp.trust.public_key import is_key_id

__all__ = [
    "TRUSTED_KEYS_VARIABLE",
    "Approvals",
    "Decision",
    "ProjectDecisions",
    "state_directory",
    "trusted_keys_of",
]

TRUSTED_KEYS_VARIABLE: Final = "RYE_TRUSTED_KEYS"
"""The environment variable that accepts proposals where no person is."""

_STATE_VARIABLE = "XDG_STATE_HOME"
_DIRECTORY = "projects"
_MAX_STATE_BYTES = 1 << 20
_VERSION = 1
_DIRECTORY_MODE = 0o700
_FILE_MODE = 0o600
_FORBIDDEN = 0o077
_SHA256_DIGITS = 64


class Decision(StrEnum):
    """What a person said about a proposed key."""

    ACCEPTED = "accepted"
    DENIED = "denied"


@dataclass(frozen=True, slots=True)
class ProjectDecisions:
    """What was decided about one project: its unsigned files, and its proposals by their digests.

    `number` is that of the directory that was approved. `denied_keys` are the ids of keys that were denied
    and not accepted since.
    """

    approved: bool = False
    proposals: Mapping[str, Decision] = field(default_factory=dict)
    number: int | None = None
    denied_keys: frozenset[str] = frozenset()


Look = Callable[["KeptFile[ProjectDecisions]"], ProjectDecisions]
"""How a file of decisions is read."""


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

    @property
    def project(self) -> Path:
        """The directory that decisions are about, as of now."""
        return self._counting(_value)[0].project

    def read(self, look: Look | None = None) -> ProjectDecisions:
        """What was decided up to now, and is in force; `look` is for who notes what an answer rests on."""
        return self._counting(look or _value)[1]

    def approve_project(self, *, approved: bool = True) -> None:
        """Let the project's unsigned files be used from now on, or no more."""
        decided = self._counting(_value)[0]
        number = _require_own(decided.project) if approved else None
        decided.change(lambda decisions: replace(decisions, approved=approved, number=number))

    def decide(self, key_ids: Mapping[str, str], decision: Decision) -> None:
        """Accept or deny proposals, as they stand; all of them in one change, or none.

        `key_ids` says for the digest of each document which key it is about.
        """
        said, keys = dict.fromkeys(key_ids, decision), frozenset(key_ids.values())
        decided = self._counting(_value)[0]

        def change(decisions: ProjectDecisions) -> ProjectDecisions:
            denied = decisions.denied_keys
            denied = denied | keys if decision is Decision.DENIED else denied - keys
            return replace(decisions, proposals={**decisions.proposals, **said}, denied_keys=denied)

        decided.change(change)
        if decision is Decision.ACCEPTED and not keys.isdisjoint(self._own.in_force(_value).denied_keys):
            self._own.change(lambda own: replace(own, denied_keys=own.denied_keys - keys))

    def _counting(self, look: Look) -> tuple[_Decided, ProjectDecisions]:
        """The decisions that count: those of the main repository if it is approved, else its own.

        A key that was denied before the main repository counted stays denied.
        """
        if self._main is not self._own:
            decisions = self._main.in_force(look)
            if decisions.approved and why_others_write(str(self.root)) is None:
                denied = decisions.denied_keys | self._own.in_force(look).denied_keys
                return self._main, replace(decisions, denied_keys=denied)
        return self._own, self._own.in_force(look)


class _Decided:
    """What was decided about one directory, and the file that says it."""

    def __init__(self, project: Path, state: Path) -> None:
        self.project = project
        name = hashlib.sha256(os.fsencode(project)).hexdigest()
        self._state = state
        self._relative = f"{_DIRECTORY}/{name}.json"
        self._kept = KeptFile(state, self._relative, _parse, limit=_MAX_STATE_BYTES, forbidden=_FORBIDDEN)

    def in_force(self, look: Look) -> ProjectDecisions:
        """The decisions; an approval only where it is about the directory that is there now."""
        decisions = look(self._kept)
        if not decisions.approved or self._is_same(decisions.number):
            return decisions
        return replace(decisions, approved=False)

    def _is_same(self, number: int | None) -> bool:
        is_known = number is not None and number == _number_of(self.project)
        return is_known and why_others_write(str(self.project)) is None

    def change(self, change: Callable[[ProjectDecisions], ProjectDecisions]) -> None:
        """Write down what the change makes of the decisions."""
        path = self._state / self._relative
        with (
            translated("write_failed", path),
            opened_directory(
                self._state, _DIRECTORY, forbidden=_FORBIDDEN, create_mode=_DIRECTORY_MODE
            ) as directory,
            whole_files.lock(directory),
        ):
            data = read_below(self._state, self._relative, limit=_MAX_STATE_BYTES, forbidden=_FORBIDDEN)
            decisions = change(_parse(data, path))
            whole_files.write_whole(
                path, _render(decisions, self.project), mode=_FILE_MODE, directory=directory
            )


def _value(kept: KeptFile[ProjectDecisions]) -> ProjectDecisions:
    return kept.value()


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
        what = f"expected a project that nobody else can write to: {printable(project)}, found that {problem}"
        hint = f"namei -l {shlex.quote(str(project))}"
        raise RyeError("unsafe_permissions", what, where=project, hint=hint)
    return number


def state_directory() -> Path:
    """Where this user's decisions are kept.

    RyeError `malformed_trust` for a place in whatever directory this process happens to be in, which may be a
    project that decides for itself; `unsafe_permissions` for one that another user could exchange.
    """
    import platformdirs

    # Whether a relative one counts depends on the version of platformdirs; and it may go by a relative HOME.
    named = Path(os.environ.get(_STATE_VARIABLE, "").strip() or "/")
    found = platformdirs.user_state_path("rye", appauthor=False)
    for path in (named, found):
        if not path.is_absolute():
            what = f"expected an absolute path as {_STATE_VARIABLE}, found {printable(path)!r}"
            raise RyeError("malformed_trust", what, where=_STATE_VARIABLE, hint=f"unset {_STATE_VARIABLE}")
    require_not_exchanged(found)
    return found


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
        raise _malformed(place, "a denied key that is none")
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
