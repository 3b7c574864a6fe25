"""What this user has decided about a project: kept outside of it, so that nothing in it can decide.

Rules:

- Decisions are kept in the user's state directory (`$XDG_STATE_HOME/rye`), which is 0700; a file for each
  project, named after the SHA256 of the path that the project is known by (`identify_project`).
- A proposed key is decided on by the digest of its document: another byte is another proposal, on which
  nothing was decided. Approving the project accepts none of its keys, and accepting a key does not approve
  the project.
- `RYE_TRUSTED_KEYS` holds whole key ids, with blanks or commas between them. It stands for a person where
  there is none (CI), and accepts the project's proposals of exactly these keys; what a person has denied
  stays denied.
- A file that cannot be read as one is `malformed_trust`, not "nothing decided".
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from lilux import _files as whole_files
from lilux import _json
from rye_mcp.errors import RyeError
from rye_mcp.items import printable
from rye_mcp.trust.files import KeptFile, opened_directory, read_below, translated
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
    """What was decided about one project: its unsigned files, and its proposals by their digests."""

    approved: bool = False
    proposals: Mapping[str, Decision] = field(default_factory=dict)


class Approvals:
    """The decisions about one project, in the state directory of this user."""

    def __init__(self, project: Path, state: Path) -> None:
        self.project = identify_project(project)
        name = hashlib.sha256(os.fsencode(self.project)).hexdigest()
        self._state = state
        self._relative = f"{_DIRECTORY}/{name}.json"
        self.kept = KeptFile(state, self._relative, _parse, limit=_MAX_STATE_BYTES, forbidden=_FORBIDDEN)

    def read(self) -> ProjectDecisions:
        """What was decided up to now."""
        return self.kept.value()

    def approve_project(self, *, approved: bool = True) -> None:
        """Let the project's unsigned files be used from now on, or no more."""
        self._change(lambda decisions: replace(decisions, approved=approved))

    def decide(self, document_digests: Iterable[str], decision: Decision) -> None:
        """Accept or deny proposals, as they stand; all of them in one change, or none."""
        decided = dict.fromkeys(document_digests, decision)
        self._change(lambda decisions: replace(decisions, proposals={**decisions.proposals, **decided}))

    def _change(self, change: Callable[[ProjectDecisions], ProjectDecisions]) -> None:
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


def state_directory() -> Path:
    """Where this user's decisions are kept; RyeError `malformed_trust` for a place in whatever directory this
    process happens to be in, which may be a project that decides for itself.
    """
    import platformdirs

    # Whether a relative one counts depends on the version of platformdirs; and it may go by a relative HOME.
    named = Path(os.environ.get(_STATE_VARIABLE, "").strip() or "/")
    found = platformdirs.user_state_path("rye", appauthor=False)
    for path in (named, found):
        if not path.is_absolute():
            what = f"expected an absolute path as {_STATE_VARIABLE}, found {printable(path)!r}"
            raise RyeError("malformed_trust", what, where=_STATE_VARIABLE, hint=f"unset {_STATE_VARIABLE}")
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
    if not isinstance(approved, bool) or not isinstance(proposals, dict):
        raise _malformed(place, "wrong types")
    return ProjectDecisions(approved, MappingProxyType(dict(_decisions(proposals, place))))


def _decisions(proposals: dict[str, Any], place: Path) -> list[tuple[str, Decision]]:
    for digest, decision in proposals.items():
        if len(digest) != _SHA256_DIGITS or not isinstance(decision, str) or decision not in set(Decision):
            raise _malformed(place, "a decision that is none")
    return [(digest, Decision(decision)) for digest, decision in proposals.items()]


def _render(decisions: ProjectDecisions, project: Path) -> bytes:
    state = {
        "version": _VERSION,
        "project": os.fsencode(project).decode("utf-8", "backslashreplace"),
        "approved": decisions.approved,
        "proposals": dict(decisions.proposals),
    }
    return (json.dumps(state, indent=2) + "\n").encode("ascii")


def _malformed(place: Path, found: str) -> RyeError:
    return RyeError(
        "malformed_trust",
        f"expected the decisions about a project, in version {_VERSION}, in {place}, found {found}",
        where=place,
    )
