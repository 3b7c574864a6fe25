"""The parts that permissions consist of: hosts, paths and patterns of items, and when one covers another.

Each kind is laminar: of two values one covers the other, or they have nothing in common. So a set is
normal when none of its values covers another one, and two sets meet value by value.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass  # noqa: TID251 - ours has no order
from typing import Final, TypeVar

from rye_mcp.items import is_item_id
from rye_mcp.visible import find_hidden

__all__ = [
    "ANY_HOST",
    "CLOSED",
    "CREDENTIALS",
    "DEFAULT_PORT",
    "HOST_PATTERN",
    "ITEM_PATTERN",
    "PATH_PATTERN",
    "VARIABLE_PATTERN",
    "Covers",
    "Host",
    "allows_call",
    "below_any",
    "common",
    "covers_host",
    "covers_items",
    "covers_path",
    "is_below",
    "maximal",
    "problem_of_host",
    "problem_of_item_pattern",
    "problem_of_path",
    "problem_of_path_text",
    "problem_of_variable",
    "uncovered",
]

DEFAULT_PORT: Final = 443
"""The port of a host that names none."""

MAX_PATH: Final = 1024
"""How many characters an extra path may have."""

_MAX_HOST: Final = 253
_MAX_PORT: Final = 65535
_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"

_PORT: Final = "[1-9][0-9]{0,4}"
HOST_PATTERN: Final = rf"^(?:localhost:{_PORT}|(?:\*\.)?{_LABEL}(?:\.{_LABEL})+(?::{_PORT})?)$"
PATH_PATTERN: Final = r"^~?/[^*?\[\]{}$\\\x00-\x1f]+$"
VARIABLE_PATTERN: Final = r"^[A-Za-z_][A-Za-z0-9_]{0,127}$"
ITEM_PATTERN: Final = r"^[A-Za-z0-9_][A-Za-z0-9_./-]*(?:/\*)?$"
"""The forms as JSON Schema has them too; the checks below are stricter."""

_HOST: Final = re.compile(HOST_PATTERN, re.ASCII)
_PATH: Final = re.compile(PATH_PATTERN)
_VARIABLE: Final = re.compile(VARIABLE_PATTERN, re.ASCII)
_NUMBER: Final = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*", re.ASCII)
_ITEMS_BELOW: Final = "/*"

_LOCALHOST: Final = "localhost"
_THIS_MACHINE: Final = frozenset({"localhost", "localdomain", "ip6-localhost", "ip6-loopback", "loopback"})
"""The last part, or the only one, of names that mean this machine."""

_SECOND_LEVEL: Final = frozenset({"ac", "co", "com", "edu", "gov", "net", "or", "org"})
"""Second levels below a country under which everybody gets a name, such as co.uk."""

_KERNEL: Final = ("/proc", "/sys", "/dev", "/run", "/var/run")
_SHARED: Final = ("/tmp", "/var/tmp")  # noqa: S108 - nothing is written there
_A_HOME: Final = re.compile(r"^(?:/(?:home|Users)/[^/]+|/root)(?=/|$)")
CLOSED: Final = ("~/.ssh", "~/.gnupg", "~/.password-store", "~/.local/share/keyrings")
CREDENTIALS: Final = ("~/.aws", "~/.azure", "~/.docker", "~/.kube", "~/.config/gcloud", "~/.config/gh")


@dataclass(frozen=True, slots=True, order=True)
class Host:
    """Where a tool may connect to: a name, or `*.name` for every name below it, and a port."""

    name: str
    port: int = DEFAULT_PORT

    @classmethod
    def parse(cls, text: str) -> Host:
        """The host of a text that `problem_of_host` finds nothing wrong with."""
        name, _, port = text.partition(":")
        return cls(name.lower(), int(port) if port else DEFAULT_PORT)

    def __str__(self) -> str:
        return "any" if self == ANY_HOST else f"{self.name}:{self.port}"

    @property
    def is_this_machine(self) -> bool:
        """Whether this is a service of the machine itself."""
        return self.name == _LOCALHOST

    @property
    def written(self) -> str:
        """The shortest text that says this."""
        return self.name if self.port == DEFAULT_PORT and not self.is_this_machine else str(self)


ANY_HOST: Final = Host("*", 0)
"""Every host and port."""

_G = TypeVar("_G", Host, str)
Covers = Callable[[_G, _G], bool]


def covers_host(wide: Host, narrow: Host) -> bool:
    """Whether the one grants every host that the other grants."""
    if wide in (narrow, ANY_HOST):
        return True
    return wide.port == narrow.port and wide.name.startswith("*.") and narrow.name.endswith(wide.name[1:])


def is_below(path: str, directory: str) -> bool:
    """Whether a path is this directory, or is below it."""
    return path == directory or path.startswith(f"{directory.rstrip('/')}/")


def below_any(directories: Iterable[str]) -> Callable[[str], bool]:
    """Return what tells whether a path is one of these directories, or is below one: for many paths."""
    ways = tuple(f"{each.rstrip('/')}/" for each in directories)
    return lambda path: f"{path}/".startswith(ways)


def covers_path(wide: str, narrow: str) -> bool:
    """Whether the one path grants the other."""
    return is_below(narrow, wide)


def covers_items(wide: str, narrow: str) -> bool:
    """Whether the one id or pattern grants all items that the other one grants."""
    return wide == narrow or (wide.endswith(_ITEMS_BELOW) and narrow.startswith(wide[:-1]))


def allows_call(patterns: Iterable[str], item_id: str) -> bool:
    """Whether one of the ids and patterns is, or covers, the id of an item."""
    return is_item_id(item_id) and any(covers_items(each, item_id) for each in patterns)


def maximal(grants: Iterable[_G], covers: Covers[_G]) -> frozenset[_G]:
    """The grants without those that another one covers."""
    found = frozenset(grants)
    return frozenset(each for each in found if not any(covers(o, each) for o in found if o != each))


def uncovered(grants: Iterable[_G], by: Iterable[_G], covers: Covers[_G]) -> frozenset[_G]:
    """The grants that none of the others covers."""
    others = tuple(by)
    return frozenset(each for each in grants if not any(covers(other, each) for other in others))


def common(one: Iterable[_G], other: Iterable[_G], covers: Covers[_G]) -> frozenset[_G]:
    """Return the grants that both include."""
    mine, theirs = frozenset(one), frozenset(other)
    return (mine - uncovered(mine, theirs, covers)) | (theirs - uncovered(theirs, mine, covers))


# --- what is wrong with a text, or nothing ---


def problem_of_host(text: str) -> str | None:
    """Return the problem of a text as `host[:port]`."""
    for is_wrong, expected in _WRONG_HOSTS:
        if is_wrong(text):
            return f"expected {expected}, found {text[:80]!r}"
    return None


def _is_no_host(text: str) -> bool:
    name, _, port = text.partition(":")
    return not _HOST.fullmatch(text) or len(name) > _MAX_HOST or int(port or DEFAULT_PORT) > _MAX_PORT


def _is_this_machine(text: str) -> bool:
    """Whether a resolver takes this name for loopback by its spelling; `localhost:PORT` may be named."""
    name, _, port = text.partition(":")
    if name == _LOCALHOST and port:
        return False
    return text.partition(":")[0].lower().rstrip(".").rpartition(".")[2] in _THIS_MACHINE


def _is_public_suffix(text: str) -> bool:
    """Whether anybody gets a name below this, as far as the spelling tells."""
    if not text.startswith("*."):
        return False
    labels = text.partition(":")[0].lower().split(".")[1:]
    return len(labels) == 1 or (len(labels) == 2 and len(labels[1]) == 2 and labels[0] in _SECOND_LEVEL)


def _is_address(text: str) -> bool:
    """Whether this is an address in any spelling that a resolver takes: `::1`, `127.1`, `0x7f000001`."""
    bare = text.strip("[]").partition("%")[0]
    try:
        ipaddress.ip_address(bare.partition("]")[0])
    except ValueError:
        name = text.partition(":")[0].rstrip(".")
        return text.startswith("[") or _NUMBER.fullmatch(name.rpartition(".")[2]) is not None
    return True


_WRONG_HOSTS: Final[tuple[tuple[Callable[[str], bool], str], ...]] = (
    (_is_address, "a host name, and no address"),
    (lambda text: "/" in text or "@" in text, "a host name such as api.github.com, and no URL"),
    (lambda text: not text.isascii(), "a host name in ASCII (xn--…)"),
    (lambda text: not text.partition(":")[0].strip("*."), "a host name (for every host: net: any)"),
    (_is_this_machine, "a host on the network, or one service of this machine as localhost:PORT"),
    (_is_public_suffix, "*. before the name of one owner, such as *.example.org"),
    (_is_no_host, "a full host name, such as api.github.com, *.example.org or host.org:8443"),
)


def problem_of_path(text: str) -> str | None:
    """Return the problem of a text as an extra path, judging by its spelling; `plan` knows this machine."""
    return problem_of_path_text(text) or _problem_of_place(text, repr(text[:80]))


def problem_of_path_text(text: str) -> str | None:
    """Return the problem in how a path is written."""
    shown = repr(text[:80])
    if text in ("/", "~", "~/"):
        return f"expected a path below {text}, found all of it"
    if any(each in text for each in "*?[]{}$\\"):
        return f"expected a path without patterns and variables, found {shown}"
    if not _PATH.fullmatch(text) or len(text) > MAX_PATH or find_hidden(text) is not None:
        return f"expected an absolute path, or one that begins with ~/, found {shown}"
    if any(part in ("", ".", "..") for part in text.removeprefix("~").split("/")[1:]):
        return f"expected a path without //, /./, /../ and a / at its end, found {shown}"
    return None


def _problem_of_place(text: str, shown: str) -> str | None:
    """Why a path may not be granted to any tool."""
    text = _A_HOME.sub("~", text)
    if text in ("~", "/home", "/Users"):
        return f"expected one place, found {shown}, in which all of a home is"
    for hidden in (*_KERNEL, *_SHARED, *CLOSED):
        if is_below(text, hidden) or is_below(hidden, text):
            return f"expected no hidden place, found {shown}: no tool may see {hidden}"
    for hidden in CREDENTIALS:
        if is_below(hidden, text):
            return f"expected one file, found {shown}, which holds credentials: name a file below {hidden}"
    return None


def problem_of_variable(text: str) -> str | None:
    """Return the problem of a text as the name of a variable or a secret."""
    return None if _VARIABLE.fullmatch(text) else f"expected names of variables, found {text[:80]!r}"


def problem_of_item_pattern(text: str) -> str | None:
    """Return the problem of a text as an item id, or as `directory/*`."""
    if is_item_id(text.removesuffix(_ITEMS_BELOW)):
        return None
    return f"expected an item id, or directory/* for all below it, found {text[:80]!r}"
