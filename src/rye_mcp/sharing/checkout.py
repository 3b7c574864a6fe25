"""Writes the files of a repository into a directory of ours, byte for byte, for whoever reads directories.

Git writes none of them, so nothing of the repository counts: no filter, no attribute, no hook, no submodule.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from anyio import to_thread

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.sharing.git import DIRECTORY, FILE, LINK, MAX_FETCHED_BYTES, PROGRAM, Commit, Entry, fetched
from rye_mcp.sharing.programs import WhyNot
from rye_mcp.sharing.reference import GitReference, parse_repository
from rye_mcp.visible import visible

__all__ = ["CheckedOut", "checked_out", "is_repository"]

_SHOWN: Final = 80
_MODES: Final = {FILE: 0o644, PROGRAM: 0o755}


@dataclass(frozen=True, slots=True)
class CheckedOut:
    """The files of a commit, in a directory, and what they are called."""

    directory: Path
    origin: str


def is_repository(text: str) -> bool:
    """Whether this is the address of a repository, and no path."""
    return not os.path.lexists(text) and parse_repository(text) is not None


@asynccontextmanager
async def checked_out(
    source: str, environment: Mapping[str, str], why_not: WhyNot
) -> AsyncIterator[CheckedOut]:
    """Hold the files of a repository, `URL[@REVISION][#DIRECTORY]`, for as long as the block lasts.

    `why_not` says why nothing may be started from a directory, None where it may.
    """
    reference = parse_repository(source)
    if reference is None:
        what = "expected https://…, ssh://… or user@host:path, with @REVISION and #DIRECTORY if wanted"
        raise RyeError("unknown_argument", f"{what}, found {visible(source[:_SHOWN])!r}")
    directory = reference.directory
    if directory and not {"", ".", ".."}.isdisjoint(directory.split("/")):
        raise _no_directory(reference, "another path")
    with tempfile.TemporaryDirectory(prefix="rye-files-") as place:
        async with fetched(reference, directory, environment, why_not) as commit:
            await to_thread.run_sync(_write, commit, reference, Path(place))
        origin = f"{reference.url}@{commit.name}" + (f"#{directory}" if directory else "")
        yield CheckedOut(Path(place), origin)


def _write(commit: Commit, reference: GitReference, place: Path) -> None:
    """Write every file; the links come last, so no file is written through one."""
    tree = commit.directory(reference.directory)
    if tree is None:
        raise _no_directory(reference, "none, or a link")
    links: list[Entry] = []
    try:
        for each in commit.below(tree):
            if each.mode == DIRECTORY:
                (place / each.path).mkdir()
            elif each.mode in _MODES:
                _create(place / each.path, commit.read(each.name, b"blob", MAX_FETCHED_BYTES), each.mode)
            elif each.mode == LINK:
                links.append(each)
        for each in links:
            target = os.fsdecode(commit.read(each.name, b"blob", os.pathconf(place, "PC_PATH_MAX")))
            (place / each.path).symlink_to(target)
    except (OSError, ValueError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "another one"
        what = f"expected paths in {reference} that this system can have, found: {reason}"
        raise RyeError("invalid_artifact", what) from exc


def _create(path: Path, content: bytes, mode: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, _MODES[mode])
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)


def _no_directory(reference: GitReference, found: str) -> RyeError:
    what = f"expected the directory {reference.directory!a} of the repository, found {found}"
    return RyeError("artifact_not_found", what, hint="name a directory of the repository after #")
