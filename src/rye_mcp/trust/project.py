"""Which project a directory is, and whether its unsigned files may be used.

Rules:

- A project is known by the real path of its directory. A git worktree counts as its main repository when both
  say so: its `.git` names a directory below `<main>/.git/worktrees/`, and the `gitdir` in there names that
  very `.git`. A directory that merely claims to be somebody's worktree is itself.
- Its `.env`, `.venv` and `node_modules` are unsigned. They are used only in a project that the person has
  approved; the interpreter of `.venv` only when there is a `pyvenv.cfg`, when git is known not to track
  `.venv`, and when the interpreter's real file lies outside the project, so that nobody got it by cloning.
- Even an approved project's `.env` sets no variable that decides which code is loaded, where connections go,
  or what rye-mcp itself does.

`decide_use` looks at no file: who gathers the facts is its caller.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rye_mcp.errors import RyeError
from rye_mcp.trust.files import read_below

__all__ = ["DotenvSplit", "ProjectFacts", "ProjectUse", "decide_use", "identify_project", "split_dotenv"]

_MAX_LINK_BYTES = 4096
_GITDIR = b"gitdir: "
_WORKTREES = ("worktrees", ".git")

_CONTROL_PREFIXES = (
    *("LD_", "DYLD_", "MALLOC_", "GLIBC_", "GCONV_"),  # the loader and the C library
    *("PYTHON", "PIP_", "UV_", "VIRTUAL_ENV", "CONDA_"),
    *("PYENV_", "RBENV_", "NVM_", "ASDF_", "MISE_", "RTX_", "VOLTA_", "FNM_"),  # whose interpreter it is
    *("PERL5", "PERLLIB", "PERL_", "RUBY", "GEM_", "BUNDLE_"),
    *("LUA_INIT", "LUA_PATH", "LUA_CPATH", "LUAROCKS_"),
    *("NPM_CONFIG_", "NODE_EXTRA_CA_CERTS", "NODE_TLS_", "YARN_", "DENO_", "BUN_", "TS_NODE_", "COREPACK_"),
    *("JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH"),
    *("GOFLAGS", "GOPROXY", "GOENV", "GOPRIVATE", "GOINSECURE", "GOSUMDB", "GOTOOLCHAIN", "CGO_"),
    *("RUSTC", "RUSTFLAGS", "RUSTDOC", "RUSTUP_", "CARGO_"),
    *("BASH_FUNC_", "GIT_", "SSH_ASKPASS", "SSH_AUTH_SOCK", "SSL_", "OPENSSL_", "CURL_"),
    *("REQUESTS_CA_BUNDLE", "RYE_", "XDG_"),
)
"""What the names of control variables begin with: those of loaders, interpreters, and whatever gets code."""

_CONTROL_NAMES = (
    *("PATH", "HOME", "USER_SPACE", "TMPDIR", "TMP", "TEMP", "CDPATH", "SHELL"),  # where things are
    *("ENV", "BASH_ENV", "IFS", "SHELLOPTS", "BASHOPTS", "PS4", "PROMPT_COMMAND", "ZDOTDIR"),  # shells
    *("NODE_OPTIONS", "NODE_PATH", "NODE_REPL_EXTERNAL_MODULE"),
    *("LOCPATH", "NLSPATH", "HOSTALIASES", "RESOLV_HOST_CONF", "RES_OPTIONS", "TZDIR", "LOCALDOMAIN"),  # libc
    # programs that others start
    *("EDITOR", "VISUAL", "PAGER", "LESSOPEN", "LESSCLOSE", "MANPAGER", "BROWSER"),
)
"""The other control variables, by their whole names."""

_CONTROL_VARIABLES = re.compile(
    rf"(?:{'|'.join(_CONTROL_PREFIXES)}).*|.*_PROXY|{'|'.join(_CONTROL_NAMES)}", re.IGNORECASE | re.DOTALL
)


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
        return ProjectUse(frozenset(), dict.fromkeys((".env", ".venv", "node_modules"), reason))
    problem = _why_no_venv(facts)
    if problem is None:
        return ProjectUse(frozenset({".env", ".venv", "node_modules"}), {})
    return ProjectUse(frozenset({".env", "node_modules"}), {".venv": problem})


def split_dotenv(variables: Mapping[str, str]) -> DotenvSplit:
    """Take out what a `.env` may never set."""
    refused = tuple(sorted(name for name in variables if _CONTROL_VARIABLES.fullmatch(name)))
    return DotenvSplit({name: text for name, text in variables.items() if name not in refused}, refused)


def identify_project(root: Path) -> Path:
    """The path that a project is known by: its real one, or that of the repository it is a worktree of."""
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
    if administration is None:
        return None
    administration = Path(os.path.realpath(worktree / administration))
    if (administration.parent.name, administration.parent.parent.name) != _WORKTREES:
        return None
    back = _link(administration, "gitdir", b"")
    if back is None or Path(os.path.realpath(administration / back)) != worktree / ".git":
        return None
    return administration.parent.parent.parent


def _link(directory: Path, name: str, prefix: bytes) -> Path | None:
    """The path that stands in a small file; None when there is none, or something else stands there."""
    if not (directory / name).is_file():
        return None
    data = read_below(directory, name, limit=_MAX_LINK_BYTES)
    line = (data or b"").removesuffix(b"\n")
    if not line.startswith(prefix) or line == prefix or b"\n" in line:
        return None
    return Path(os.fsdecode(line.removeprefix(prefix)))
