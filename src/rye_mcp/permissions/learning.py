"""From what runs have named to the least permissions that allow it, and to what no permission gives.

An observation is material for a person, and no boundary: a tool can behave otherwise when nobody looks on.

    proposal = propose([Fact("read", "/work/shop/a.txt")], Facts(home="/home/ada", project="/work/shop"))
    proposal.permissions.canonical()  # {'project': 'read'}
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from pathlib import PurePosixPath
from typing import Final

from lilux._dataclasses import dataclass
from lilux.primitives.subprocess import Fact
from rye_mcp.permissions._grants import (
    ANY_HOST,
    CLOSED,
    CREDENTIALS,
    Host,
    is_below,
    problem_of_host,
    problem_of_path,
)
from rye_mcp.permissions._value import Access, Permissions
from rye_mcp.permissions.planning import GUARDED, MASKED, OF_GIT, PACKAGED, Facts

__all__ = ["RUN_LATER", "SYSTEM", "TEMPORARY", "Proposal", "propose"]

SYSTEM: Final = (
    *("/usr", "/etc", "/opt", "/nix", "/snap", "/bin", "/sbin"),
    *("/lib", "/lib32", "/lib64", "/libx32", "/proc", "/sys"),
)
"""Directories that every tool may read."""

TEMPORARY: Final = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 - each cell has its own
RUN_LATER: Final = tuple(
    f"~/{name}"
    for name in (
        # shells, and what begins a session
        *(".profile", ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases"),
        *(
            ".bash_completion",
            ".zshrc",
            ".zshenv",
            ".zprofile",
            ".zlogin",
            ".zlogout",
            ".oh-my-zsh",
            ".kshrc",
        ),
        *(".cshrc", ".tcshrc", ".login", ".logout", ".xprofile", ".xinitrc", ".xsession", ".xsessionrc"),
        *(
            ".pam_environment",
            ".config/autostart",
            ".config/systemd",
            ".config/environment.d",
            ".config/fish",
        ),
        *(".config/zsh", ".config/plasma-workspace", ".config/hypr", ".config/i3", ".config/sway"),
        *(".local/share/applications", ".local/share/dbus-1", ".local/share/systemd"),
        # programs, and what is loaded into them
        *("bin", "go/bin", ".local/bin", ".local/lib", ".local/share/uv", ".local/share/pipx", ".npm-global"),
        *(".nvm", ".pyenv", ".rbenv", ".asdf", ".sdkman", ".rustup", ".deno", ".bun"),
        *(".vim", ".vimrc", ".gvimrc", ".config/nvim", ".emacs", ".emacs.d", ".config/emacs", ".config/Code"),
        *(".gitconfig", ".config/git", ".tmux.conf", ".config/tmux", ".screenrc", ".gdbinit", ".pdbrc"),
        *(
            ".Rprofile",
            ".irbrc",
            ".pryrc",
            ".psqlrc",
            ".sqliterc",
            ".lldbinit",
            ".config/mise",
            ".config/direnv",
        ),
        *(".gradle", ".m2", ".config/pip", ".claude.json", ".config/Claude"),
    )
)
"""Files and directories of a home in which other programs find what they run, now or at the next login."""

_RUN_WHEREVER_IT_IS: Final = frozenset({*GUARDED, *PACKAGED})
_COMMON_DEVICES: Final = frozenset(
    f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty")
)
"""Every shell looks for `tty`, and no run has one."""

_TERMINALS: Final = ("/dev/ptmx", "/dev/pts")
_GPU: Final = ("/dev/dri", "/dev/kfd")
_GPU_PREFIX: Final = "/dev/nvidia"
_NAME_SERVICES: Final = ("/run/nscd", "/var/run/nscd", "/run/systemd", "/run/dbus")
_STAND_INS: Final = ipaddress.ip_network("198.18.0.0/15")
"""The addresses that stand for names where every host may be reached."""
_DNS: Final = 53
_ENOUGH_FOR_A_DIRECTORY: Final = 3
"""So many files of a directory, and it is proposed itself."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """The least permissions that allow what was seen, and in words what they leave out."""

    permissions: Permissions
    notes: tuple[str, ...] = ()


def propose(
    facts: Iterable[Fact],
    surroundings: Facts,
    *,
    hosts: Iterable[tuple[str, int]] = (),
    names: Mapping[str, str] | None = None,
    declared: Permissions | None = None,
) -> Proposal:
    """The least block for these facts.

    `hosts` were reached by name. `names` says which names the stand-in addresses were for. Variables, secrets
    and calls of other tools cannot be seen: they are taken over from what is `declared`.
    """
    learner = _Learner(surroundings, {address: name for name, address in (names or {}).items()})
    learner.hosts |= set(hosts)
    for fact in facts:
        learner.take(fact)
    return learner.proposal(declared or Permissions())


@dataclass(slots=True)
class _Learner:
    """Everything seen up to now, sorted by the key that grants it."""

    where: Facts
    names: Mapping[str, str]
    project: Access = Access.NONE
    hosts: set[tuple[str, int]] = field(default_factory=set)
    any_host: bool = False
    uses: set[str] = field(default_factory=set)
    read: set[str] = field(default_factory=set)
    write: set[str] = field(default_factory=set)
    notes: dict[str, None] = field(default_factory=dict)

    def take(self, fact: Fact) -> None:
        match fact.kind:
            case "connect" if fact.what.startswith("/"):
                self._socket(fact.what)
            case "connect":
                self._address(fact.what)
            case "exec":
                self._program(fact.what)
            case "write":
                self._path(fact.what, "wrote")
            case "read":
                self._path(fact.what, "read")

    def proposal(self, declared: Permissions) -> Proposal:
        net = frozenset(self._granted_hosts())
        read, write = frozenset(self._extra(self.read, "read")), frozenset(self._extra(self.write, "wrote"))
        if "git" in self.uses and self.project is Access.NONE:
            self.project = Access.READ
        permissions = replace(
            Permissions(self.project, net, uses=frozenset(self.uses), read=read, write=write),
            env=declared.env,
            secrets=declared.secrets,
            calls=declared.calls,
            require=declared.require,
        )
        return Proposal(permissions, tuple(self.notes))

    def _note(self, text: str) -> None:
        self.notes[text] = None

    # --- the network ---

    def _socket(self, path: str) -> None:
        if path == self.where.ssh_agent:
            self.uses.add("ssh-agent")
        elif self._is_hidden(path) or not any(is_below(path, each) for each in _NAME_SERVICES):
            self._note(f"it connected to the socket {path}: no permission grants that")

    def _address(self, text: str) -> None:
        written, _, port = text.rpartition(":")
        address = ipaddress.ip_address(written.strip("[]"))
        if address in _STAND_INS:
            if name := self.names.get(str(address)):
                self.hosts.add((name, int(port)))
        elif address.is_loopback:
            if int(port) != _DNS:
                self._note(f"it connected to {text} of this machine: a cell has a loopback of its own")
        elif int(port) != _DNS:
            self.any_host = True
            self._note(f"it connected to {text}: name the host in net, if you know it, instead of any")

    def _granted_hosts(self) -> Iterator[Host]:
        for name, port in sorted(self.hosts):
            if problem_of_host(f"{name}:{port}") is None:
                yield Host(name.lower(), port)
            else:
                self._note(f"it reached {name}:{port}: net cannot name that")
        if self.any_host:
            yield ANY_HOST

    # --- files ---

    def _program(self, path: str) -> None:
        # Its own files are seen when it opens them; this is only whether the program can be found.
        if PurePosixPath(path).name == "git" and self._has_git:
            self.uses.add("git")
        elif not any(is_below(path, each) for each in TEMPORARY):
            self._path(path, "read")

    @property
    def _has_git(self) -> bool:
        return bool(self.where.git_directories)

    def _path(self, path: str, did: str) -> None:
        where = self.where
        if self._is_hidden(path):
            self._note(f"it {did} {self._shown(path)}: not proposed, no tool gets that without your word")
        elif where.project is not None and is_below(path, where.project):
            self._in_project(path, did)
        elif any(is_below(path, each) for each in where.git_directories):
            self._in_git(path, did)
        elif path.startswith("/dev/"):
            self._device(path)
        elif any(is_below(path, each) for each in where.git_configuration) and did == "read":
            self.uses.add("git")
        elif is_below(path, f"{where.home}/.cache"):
            self.uses.add("cache")
        elif where.trash is not None and is_below(path, where.trash):
            self.uses.add("trash")
        elif not self._is_private(path, did):
            self._elsewhere(path, did)

    def _elsewhere(self, path: str, did: str) -> None:
        if did == "read":
            self.read.add(path)
        elif self._is_run_later(path):
            self._note(
                f"it {did} {self._shown(path)}: not proposed, because other programs run what is there"
            )
        else:
            self.write.add(path)

    def _is_run_later(self, path: str) -> bool:
        in_home = any(is_below(path, self._expanded(each)) for each in RUN_LATER)
        return in_home or not _RUN_WHEREVER_IT_IS.isdisjoint(path.split("/"))

    def _is_hidden(self, path: str) -> bool:
        closed = (self._expanded(each) for each in (*CLOSED, *CREDENTIALS))
        masked = (f"{self.where.project}/{name}" for name in MASKED if self.where.project is not None)
        return any(is_below(path, each) for each in (*self.where.hidden, *closed, *masked))

    def _is_private(self, path: str, did: str) -> bool:
        """Whether it has that anyway: what belongs to the run, the system, temporary files of its own."""
        own = [each for each in (self.where.scratch, self.where.kept, *TEMPORARY) if each is not None]
        readable = (*SYSTEM, *self.where.run) if did == "read" else ()
        return any(is_below(path, each) for each in (*own, *readable))

    def _in_project(self, path: str, did: str) -> None:
        inside = path[len(self.where.project or "") + 1 :]
        top = inside.partition("/")[0]
        if top == ".git":
            self._in_git(path, did)
        elif did == "read":
            self.project = max(self.project, Access.READ)
        elif top == ".ai":
            self.project = Access.WRITE
            self.uses.add("items")
        elif top in PACKAGED or any(is_below(path, each) for each in self.where.packages):
            self.project = Access.WRITE
            self.uses.add("packages")
        elif top in GUARDED or any(is_below(path, each) for each in self.where.guarded):
            self._note(f"it wrote {self._shown(path)}: no tool may, because other programs run what is there")
        else:
            self.project = Access.WRITE

    def _in_git(self, path: str, did: str) -> None:
        if did == "read":
            self.project = max(self.project, Access.READ)
            return
        protected = (f"{each}/{name}" for each in self.where.git_directories for name in OF_GIT)
        if not self._has_git or any(is_below(path, each) for each in protected):
            self._note(f"it wrote {self._shown(path)}: no tool may, because git runs what is there")
            return
        self.project = Access.WRITE
        self.uses.add("git")

    def _device(self, path: str) -> None:
        if any(is_below(path, each) for each in _TERMINALS):
            self.uses.add("terminal")
        elif path.startswith(_GPU_PREFIX) or any(is_below(path, each) for each in _GPU):
            self.uses.add("gpu")
        elif path not in _COMMON_DEVICES and not any(is_below(path, each) for each in TEMPORARY):
            self._note(f"it used {path}: no permission grants that device")

    # --- extra paths ---

    def _extra(self, paths: set[str], did: str) -> Iterator[str]:
        """Yield the paths that can be granted, in their written form; a note names each of the others."""
        granted = {path for path in paths if self._can_be_granted(path, did)}
        for path in sorted(paths - granted):
            self._note(f"it {did} {self._shown(path)}: not proposed, name what it needs in there")
        yield from map(self._shown, self._folded(granted, did))

    def _can_be_granted(self, path: str, did: str) -> bool:
        apart = RUN_LATER if did == "wrote" else ()
        holds_those = any(is_below(self._expanded(each), path) for each in apart)
        return problem_of_path(self._shown(path)) is None and not holds_those and not self._holds_hidden(path)

    def _folded(self, paths: set[str], did: str) -> set[str]:
        """Directories instead of many files in them, and nothing that is below something else."""
        found = set(paths)
        for parent in sorted({str(PurePosixPath(path).parent) for path in paths}):
            inside = [path for path in paths if str(PurePosixPath(path).parent) == parent]
            is_narrow = parent.count("/") > 1 and self._can_be_granted(parent, did)
            if len(inside) >= _ENOUGH_FOR_A_DIRECTORY and is_narrow:
                found.add(parent)
        return {each for each in found if not any(is_below(each, o) for o in found if o != each)}

    def _holds_hidden(self, path: str) -> bool:
        closed = [self._expanded(each) for each in (*CLOSED, *CREDENTIALS)]
        apart = [*self.where.hidden, *closed, self.where.home]
        return any(is_below(each, path) for each in apart)

    def _shown(self, path: str) -> str:
        home = self.where.home.rstrip("/")
        return f"~{path[len(home) :]}" if home and is_below(path, home) else path

    def _expanded(self, path: str) -> str:
        return f"{self.where.home.rstrip('/')}{path[1:]}"
