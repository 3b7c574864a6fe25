"""Fetches the files of a git repository into a directory; nothing of the repository runs.

No hook, no filter, no submodule: the attributes of the repository are overruled, its hooks are never
installed, and files are written from the index as they are. Only https, ssh and files are followed. Git and
what it starts are programs of the user, and lie in no project that was not approved.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from anyio import to_thread

from lilux._dataclasses import dataclass
from lilux.primitives.subprocess import ProcessSpec, SubprocessPrimitive
from rye_mcp.errors import RyeError
from rye_mcp.sharing.programs import WhyNot, allowed_path, find_program
from rye_mcp.visible import visible

__all__ = ["Fetched", "fetched", "is_git_source"]

MAX_FILES: Final = 50_000
"""How many files a repository may have."""

MAX_BYTES: Final = 512 << 20
"""How many bytes these may have together."""

TIMEOUT_S: Final = 600.0
_MAX_OUTPUT: Final = 32 << 20
_LAST_CHARACTERS: Final = 300

_SOURCE: Final = re.compile(
    r"(?:git\+)?(?P<url>(?:https|ssh)://(?:[\w.-]+@)?[^\s@#/]+/[^\s#]*?"
    r"|file:///[^\s#]*?|[\w.-]+@[\w.-]+:[^\s#]+?)"
    r"(?:@(?P<revision>[\w][\w./-]{0,199}))?(?:#(?P<directory>[^\s]+))?"
)
_NOT_GIT: Final = re.compile(r"GIT_")
_ATTRIBUTES: Final = "* -text -eol -filter -ident -working-tree-encoding -export-subst -export-ignore\n"
_CONFIGURATION: Final = (
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.symlinks", "true"),
    ("core.autocrlf", "false"),
    ("core.protectHFS", "true"),
    ("core.protectNTFS", "true"),
    ("transfer.fsckObjects", "true"),
    ("submodule.recurse", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
)


@dataclass(frozen=True, slots=True)
class Fetched:
    """The files of a commit, in a directory, and what they are called."""

    directory: Path
    origin: str


def is_git_source(text: str) -> bool:
    """Whether this is the address of a repository, and no path."""
    return not os.path.lexists(text) and _SOURCE.fullmatch(text) is not None


@asynccontextmanager
async def fetched(source: str, environment: Mapping[str, str], why_not: WhyNot) -> AsyncIterator[Fetched]:
    """Hold the files of a repository, `URL[@REVISION][#DIRECTORY]`, for as long as the block lasts.

    `why_not` says why nothing may be started from a directory.
    """
    found = _SOURCE.fullmatch(source)
    if found is None or found["url"].startswith("-"):
        what = "expected https://…, ssh://… or user@host:path, with @REVISION and #DIRECTORY if wanted"
        raise RyeError("unknown_argument", f"{what}, found {visible(source[:80])!r}")
    with TemporaryDirectory(prefix="rye-git-") as place:
        git = _Git(Path(place), environment, why_not)
        commit = await git.fetch(found["url"], found["revision"] or "HEAD")
        files = Path(place) / "files"
        await to_thread.run_sync(files.mkdir)
        await git.write(files)
        directory = found["directory"] or ""
        if any(part in ("", ".", "..") for part in directory.split("/")) and directory:
            raise RyeError("unsafe_path", f"expected a directory of the repository, found {directory!a}")
        wanted = files / directory
        if wanted.is_symlink() or not wanted.resolve().is_relative_to(files.resolve()):
            raise RyeError(
                "unsafe_path", f"expected a directory of the repository, found a link: {directory!a}"
            )
        origin = f"{found['url']}@{commit}" + (f"#{directory}" if directory else "")
        yield Fetched(wanted, origin)


class _Git:
    """Runs git on a repository of its own."""

    def __init__(self, place: Path, environment: Mapping[str, str], why_not: WhyNot) -> None:
        program, refused = find_program("git", environment, why_not)
        if program is None:
            hint = "install git, or clone the repository yourself and name the directory"
            raise RyeError("read_failed", f"expected git on the PATH, found {refused}", hint=hint)
        self._program = program
        self._repository = place / "repository"
        self._environment = _environment({**environment, "PATH": allowed_path(environment, why_not)})

    async def fetch(self, url: str, revision: str) -> str:
        """Fetch one commit, without what came before; its id."""
        await self._run("init", "--quiet", "--bare", "--template=", str(self._repository))
        (self._repository / "info").mkdir(exist_ok=True)
        (self._repository / "info/attributes").write_text(_ATTRIBUTES, encoding="ascii")
        options = ("--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules")
        await self._in("fetch", *options, "--", url, revision)
        return (await self._in("rev-parse", "FETCH_HEAD^{commit}")).strip()

    async def write(self, files: Path) -> None:
        """Write all files, links among them, into an empty directory."""
        await self._require_room()
        tree = f"--work-tree={files}"
        await self._in(tree, "read-tree", "FETCH_HEAD")
        await self._in(tree, "checkout-index", "--all", "--force")

    async def _require_room(self) -> None:
        listed = await self._in("ls-tree", "-r", "-l", "-z", "FETCH_HEAD")
        rows = [row.partition("\t")[0].split() for row in listed.split("\0") if row]
        size = sum(int(row[3]) for row in rows if row[3].isdigit())
        if len(rows) > MAX_FILES or size > MAX_BYTES:
            what = f"expected at most {MAX_FILES} files with {MAX_BYTES} bytes, found {len(rows)} with {size}"
            raise RyeError("too_large", what, hint="clone it yourself, and name the directory of the skill")

    async def _in(self, *arguments: str) -> str:
        return await self._run(f"--git-dir={self._repository}", *arguments)

    async def _run(self, *arguments: str) -> str:
        spec = ProcessSpec(
            command=self._program,
            args=("--no-pager", *arguments),
            env=self._environment,
            timeout=TIMEOUT_S,
            max_output=_MAX_OUTPUT,
            cwd=str(self._repository.parent),
        )
        result = await SubprocessPrimitive().run(spec)
        if not result.success or result.truncated:
            said = visible(result.stderr.strip()[-_LAST_CHARACTERS:]) or result.kind
            raise RyeError("read_failed", f"expected git to fetch the repository, found: {said}")
        return result.stdout


def _environment(given: Mapping[str, str]) -> dict[str, str]:
    """The environment of git: nothing asks, and no setting of a variable changes what it reads."""
    own = {name: value for name, value in given.items() if not _NOT_GIT.match(name)}
    own |= {
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": "https:ssh:file",
        "GIT_NO_LAZY_FETCH": "1",
        "LC_ALL": "C.UTF-8",
        "GIT_CONFIG_COUNT": str(len(_CONFIGURATION)),
    }
    for number, (key, value) in enumerate(_CONFIGURATION):
        own |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return own
