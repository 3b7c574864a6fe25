"""Which project a directory is, and whether its unsigned files may be used.

Rules:

- A project is known by the real path of its directory. A git worktree belongs to its main repository when
  both say so as git writes it, with real, absolute paths: its `.git` names a directory below
  `<main>/.git/worktrees/`, and the `gitdir` in there names that very `.git`. The main one is a repository,
  and neither lies inside the other: an archive can forge what points within it. Anything else is itself.
  Whether the worktree counts as its repository is for `rye_mcp.trust.approvals` to say.
- Its `.env`, `.venv` and `node_modules` are unsigned. They are used only in a project that the person has
  approved; the interpreter of `.venv` only when there is a `pyvenv.cfg`, when git is known not to track
  `.venv`, and when the interpreter's real file lies outside the project, so that nobody got it by cloning.
- Even an approved project's `.env` sets no variable that decides which code is loaded, where connections go,
  or what rye-mcp itself does (`rye_mcp.trust.control_variables`).

`decide_use` looks at no file: who gathers the facts is its caller.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rye_mcp.errors import RyeError
from rye_mcp.trust.control_variables import controls_programs
from rye_mcp.trust.files import read_below

__all__ = [
    "UNSIGNED_PARTS",
    "DotenvSplit",
    "ProjectFacts",
    "ProjectUse",
    "decide_use",
    "identify_project",
    "split_dotenv",
]

UNSIGNED_PARTS: Final = (".env", ".venv", "node_modules")
"""What of an approved project is used although nobody signed it."""

_MAX_LINK_BYTES = 4096
_GITDIR = b"gitdir: "
_WORKTREES = ("worktrees", ".git")


@dataclass(frozen=True, slots=True)
class ProjectFacts:
    """What is so about a project, as far as somebody looked; None is what nobody could find out.

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
    """The repository that a worktree belongs to, when both links hold; None when it is none."""
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
    """The path that stands in a small file; None when there is none, or something else stands there."""
    if not (directory / name).is_file():
        return None
    data = read_below(directory, name, limit=_MAX_LINK_BYTES)
    line = (data or b"").removesuffix(b"\n")
    if not line.startswith(prefix) or line == prefix or b"\n" in line:
        return None
    return Path(os.fsdecode(line.removeprefix(prefix)))
