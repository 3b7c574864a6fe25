"""From what a tool may do to the policy that the supervisor enforces: exact paths of this machine.

Nothing is looked at here: `Facts` say where things are. Whether a path is a link, or there at all, is seen
where it is opened, after which nobody can exchange it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from pathlib import PurePath
from types import MappingProxyType
from typing import Final, Literal

from lilux._dataclasses import dataclass
from lilux._policy import Bind, Hosts, Limits, Policy, Tier
from rye_mcp.errors import RyeError
from rye_mcp.permissions._grants import CLOSED, CREDENTIALS, below_any, is_below
from rye_mcp.permissions._value import Access, Permissions, Requirement

__all__ = [
    "DOTENV",
    "GUARDED",
    "MASKED",
    "OF_GIT",
    "PACKAGED",
    "Facts",
    "Plan",
    "plan",
    "with_private_copy",
]

GUARDED: Final = (
    ".git",
    ".hg",
    ".jj",
    ".sl",
    ".ai",
    ".vscode",
    ".idea",
    ".claude",
    ".cursor",
    ".mcp.json",
    ".envrc",
    ".aider.conf.yml",
    ".amazonq",
    ".codex",
    ".continue",
    ".crush.json",
    ".devcontainer",
    ".devcontainer.json",
    ".factory",
    ".fleet",
    ".gemini",
    ".helix",
    ".junie",
    ".kilocode",
    ".kiro",
    ".opencode",
    ".qwen",
    ".roo",
    ".trae",
    ".windsurf",
    ".zed",
    "crush.json",
    "opencode.json",
    "opencode.jsonc",
)
"""Names that stay read-only in a writable project, because other programs run these files."""

PACKAGED: Final = (
    ".venv",
    "node_modules",
    ".husky",
    ".pre-commit-config.yaml",
    ".python-version",
    ".tool-versions",
    ".mise",
    ".mise.toml",
    ".mise.local.toml",
    "mise.toml",
    "mise.local.toml",
    ".direnv",
    ".devenv",
    ".pixi",
    ".cargo",
    "rust-toolchain",
    "rust-toolchain.toml",
    "__pypackages__",
    ".npmrc",
    ".pnpmfile.cjs",
    ".yarn",
    ".yarnrc.yml",
    ".pnp.cjs",
    ".pnp.loader.mjs",
    ".bundle",
)
"""Names that stay read-only without `uses: packages`: interpreters, packages, files that choose them."""

DOTENV: Final = ".env"
MASKED: Final = (
    DOTENV,
    ".env.local",
    ".env.development.local",
    ".env.production.local",
    ".env.test.local",
)
"""Files of a project that no tool sees: secrets of the person."""

OF_GIT: Final = ("config", "config.worktree", "commondir", "hooks")
"""Files that git runs, reads commands from, or follows to others: read-only with `uses: git`, too."""

_TIERS: Final[Mapping[Requirement, Tier]] = MappingProxyType(
    {Requirement.NONE: "none", Requirement.WALLS: "walls", Requirement.CELL: "cell"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Where things are on this machine, for one run. Paths are absolute and without links."""

    home: str
    project: str | None = None
    run: tuple[str, ...] = ()
    """The parts of the run, to be read: interpreters with their prefixes, a venv, packages."""
    scratch: str | None = None
    """The private copy of the run, which it may write, and which ends with it."""
    has_cells: bool = True
    kept: str | None = None
    """A directory of the tool's own that stays: `cache` and `temp` in it are there if the tool uses them."""
    trash: str | None = None
    hidden: tuple[str, ...] = ()
    """Paths that no tool sees: keys, state, log, and those that the user's policy hides."""
    git_directories: tuple[str, ...] = ()
    """`.git` of the project and, of a worktree, the directories that it leads to."""
    repositories: tuple[str, ...] = ()
    """Directories of git inside the project: of submodules, worktrees and nested repositories."""
    guarded: tuple[str, ...] = ()
    """Other paths that stay read-only in the project, wherever they are."""
    packages: tuple[str, ...] = ()
    """Virtual environments and packages in the project, wherever they are."""
    git_configuration: tuple[str, ...] = ()
    git_links: tuple[tuple[str, str], ...] = ()
    """Configuration that is reached by links: its path, and where the file really is."""
    ssh_agent: str | None = None
    gpu_devices: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Plan:
    """The policy of a run, and what its environment needs for it."""

    policy: Policy
    variables: Mapping[str, str] = field(default_factory=dict)


def plan(permissions: Permissions, facts: Facts, *, item_id: str) -> Plan:
    """The policy for permissions that confine; ValueError for others.

    RyeError `denied_by_policy` for a path that is, or holds, what no tool may see on this machine.
    """
    if permissions.unconfined:
        raise ValueError("expected permissions that confine, found none")
    extra_read = _extra(permissions.read, facts, item_id)
    extra_write = _extra(permissions.write, facts, item_id)
    write = _outermost([*_written(permissions, facts), *extra_write])
    read = _outermost([*_read(permissions, facts), *extra_read])
    shown = [*read, *write]
    policy = Policy(
        tier="cell",
        require=_TIERS[permissions.require],
        read=[path for path in read if not any(is_below(path, each) for each in write)],
        write=write,
        protect=list(_protected(permissions, facts, extra_write)),
        mask=list(_masked(permissions, facts, shown)),
        binds=list(_binds(permissions, facts)),
        devices=facts.gpu_devices if "gpu" in permissions.uses else (),
        home=None if any(is_below(facts.home, each) for each in shown) else facts.home,
        net=_net(permissions, item_id),
        limits=facts.limits,
    )
    if facts.scratch is not None:
        policy = with_private_copy(policy, facts.scratch)
    return Plan(policy, dict(_variables(permissions, facts)))


def with_private_copy(policy: Policy, private_copy: str) -> Policy:
    """The same policy for a run that may also write its private copy, where nothing is that it names."""
    if any(is_below(private_copy, each) for each in policy.write):
        return policy
    return replace(policy, write=sorted((*policy.write, private_copy)))


def _net(permissions: Permissions, item_id: str) -> Literal["none", "any"] | Hosts:
    """The network of a program; RyeError `denied_by_policy` for a service of this machine.

    A cell has a loopback of its own, and ports are all that walls could tell apart.
    """
    if permissions.any_host:
        return "any"
    if here := [host.written for host in sorted(permissions.net) if host.is_this_machine]:
        what = f"expected only tools for HTTP to name services of this machine, found {here[0]} in {item_id}"
        hint = "a program reaches services of this machine with net: any alone"
        raise RyeError("denied_by_policy", what, item_id=item_id, hint=hint)
    return Hosts([host.written for host in sorted(permissions.net)]) if permissions.net else "none"


def _read(permissions: Permissions, facts: Facts) -> Iterator[str]:
    yield from facts.run
    if facts.project is not None and permissions.project is Access.READ:
        yield facts.project
    if "git" in permissions.uses:
        yield from facts.git_configuration
        if permissions.project is Access.READ:
            yield from facts.git_directories


def _written(permissions: Permissions, facts: Facts) -> Iterator[str]:
    if facts.kept is not None and not facts.has_cells:
        yield from (f"{facts.kept}/{use}" for use in ("cache", "temp") if use in permissions.uses)
    if facts.project is not None and permissions.project is Access.WRITE:
        yield facts.project
        if "git" in permissions.uses:
            yield from facts.git_directories
    if facts.trash is not None and "trash" in permissions.uses:
        yield facts.trash


def _protected(permissions: Permissions, facts: Facts, extra: Iterable[str]) -> Iterator[str]:
    """Yield the paths that stay read-only inside writable ones, except paths that the tool names itself."""
    named = frozenset(extra)
    is_written = facts.project is not None and permissions.project is Access.WRITE
    roots = (*([facts.project] if is_written else []), *sorted(named))
    yield from _guarded_names(permissions, facts, roots, named)
    if is_written:
        yield from _guarded_in_project(permissions, facts)


def _guarded_names(
    permissions: Permissions, facts: Facts, roots: Iterable[str | None], named: frozenset[str]
) -> Iterator[str]:
    """Yield the names that other programs trust, at the top of what can be written."""
    # A `.git` that is a file, of a worktree, stays as it is.
    opened = {*(facts.git_directories if "git" in permissions.uses else ())}
    allowed = {*named, *opened, *([f"{facts.project}/.ai"] if "items" in permissions.uses else [])}
    names = GUARDED if "packages" in permissions.uses else (*GUARDED, *PACKAGED)
    for root in roots:
        yield from (path for name in names if (path := f"{root}/{name}") not in allowed)


def _guarded_in_project(permissions: Permissions, facts: Facts) -> Iterator[str]:
    """Yield what was found in a writable project: guarded files, packages, and what git runs."""
    opened = {f"{facts.project}/{name}" for name in PACKAGED} if "packages" in permissions.uses else set()
    yield from (path for path in facts.guarded if not any(is_below(path, each) for each in opened))
    yield from () if opened else facts.packages
    if "git" in permissions.uses:
        directories = (*facts.git_directories, *facts.repositories)
        yield from (f"{directory}/{name}" for directory in directories for name in OF_GIT)
    else:
        yield from facts.repositories


def _masked(permissions: Permissions, facts: Facts, shown: Iterable[str]) -> Iterator[str]:
    """Yield the paths inside visible directories that the tool must not see."""
    is_visible = below_any(shown)
    hidden = [*facts.hidden, *(_expanded(each, facts.home) for each in (*CLOSED, *CREDENTIALS))]
    yield from filter(is_visible, hidden)
    if facts.project is not None and is_visible(facts.project):
        yield from (f"{facts.project}/{name}" for name in MASKED)


def _binds(permissions: Permissions, facts: Facts) -> Iterator[Bind]:
    if facts.kept is not None:
        for use, target in (("cache", f"{facts.home}/.cache"), ("temp", "/tmp")):  # noqa: S108 - the cell's own
            if use in permissions.uses:
                yield Bind(source=f"{facts.kept}/{use}", target=target, write=True)
    if "git" in permissions.uses and facts.has_cells:  # in walls, the home is another directory
        yield from _linked(facts)
    if facts.ssh_agent is not None and "ssh-agent" in permissions.uses:
        yield Bind(source=facts.ssh_agent, target=facts.ssh_agent, write=True)


def _linked(facts: Facts) -> Iterator[Bind]:
    """Configuration behind links, but for what no tool sees."""
    hidden = [*facts.hidden, *(_expanded(each, facts.home) for each in (*CLOSED, *CREDENTIALS))]
    for path, real in facts.git_links:
        if not any(is_below(real, each) or is_below(each, real) for each in hidden):
            yield Bind(source=real, target=path)


def _variables(permissions: Permissions, facts: Facts) -> Iterator[tuple[str, str]]:
    if "git" in permissions.uses:
        yield "GIT_DISCOVERY_ACROSS_FILESYSTEM", "1"
    if facts.ssh_agent is not None and "ssh-agent" in permissions.uses:
        yield "SSH_AUTH_SOCK", facts.ssh_agent


def _extra(paths: Iterable[str], facts: Facts, item_id: str) -> list[str]:
    """Extra paths on this machine; RyeError for one that is hidden, or has all of the home in it."""
    found = sorted(_expanded(path, facts.home) for path in paths)
    for path in found:
        if is_below(facts.home, path) or any(is_below(path, each) for each in facts.hidden):
            what = f"expected places in the permissions of {item_id} that a tool may see, found {path}"
            hint = f"leave {path} out, and sign it again"
            raise RyeError("denied_by_policy", what, item_id=item_id, hint=hint)
    return found


def _expanded(path: str, home: str) -> str:
    return f"{home.rstrip('/')}{path[1:]}" if path.startswith("~") else path


def _outermost(paths: Iterable[str]) -> list[str]:
    """The paths in order, each once, without those that are below another one."""
    found = sorted({str(PurePath(path)) for path in paths})
    return [path for path in found if not any(is_below(path, other) for other in found if other != path)]
