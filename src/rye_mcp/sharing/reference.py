"""What names an artifact or a commit: `registry.example.com/team/tools:1`, `git+https://…@main#tools`.

A registry is always named: no default decides where something comes from. No reference holds a password.

    >>> str(parse_reference("localhost:5000/team/tools:1"))
    'localhost:5000/team/tools:1'
"""

from __future__ import annotations

import ipaddress
import re
import socket
from contextlib import suppress
from typing import Final

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.sharing.artifact import is_digest

__all__ = [
    "GitReference",
    "Reference",
    "is_commit",
    "is_loopback",
    "leads_here",
    "parse_reference",
    "parse_repository",
]

_HOST: Final = re.compile(
    r"(?:(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)*[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
    r"|\[[0-9A-Fa-f:]{2,45}\])(?::[0-9]{1,5})?",
    re.ASCII,
)
_REPOSITORY: Final = re.compile(
    r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*", re.ASCII
)
_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}", re.ASCII)
_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}", re.ASCII)
_REVISION: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/-]{0,199}", re.ASCII)
_GIT_URL: Final = re.compile(r"(?:https://[^\s/@?#]{1,255}|file://)/[^\s@?#\\]{1,1000}", re.ASCII)
_REPOSITORY_URL: Final = re.compile(
    r"(?:git\+)?(?P<url>(?:https|ssh)://(?:[\w.-]+@)?[^\s@#/]+/[^\s#]*?"
    r"|file:///[^\s#]*?|[\w.-]+@[\w.-]+:[^\s#]+?)"
    r"(?:@(?P<revision>[\w][\w./-]{0,199}))?(?:#(?P<directory>[^\s]+))?"
)
_SUBDIRECTORY: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.-]*)*", re.ASCII)
_MAX_CHARACTERS: Final = 2_000
_MAX_REPOSITORY: Final = 255
_SHOWN: Final = 120
_EXAMPLES: Final = "registry.example.com/team/tools:1, or git+https://example.com/tools.git@COMMIT"


@dataclass(frozen=True, slots=True)
class Reference:
    """An artifact of a registry: by its tag, its digest, or both, of which the digest counts."""

    host: str
    repository: str
    tag: str | None = None
    digest: str | None = None

    @property
    def name(self) -> str:
        """Where it comes from, without saying which version."""
        return f"{self.host}/{self.repository}"

    @property
    def version(self) -> str:
        """What a registry is asked for."""
        return self.digest or self.tag or ""

    def pinned(self, digest: str) -> Reference:
        """The same, at one digest."""
        return Reference(self.host, self.repository, self.tag, digest)

    def unpinned(self) -> str:
        """The reference as a person writes it, for a file that has the digest beside it."""
        return str(Reference(self.host, self.repository, self.tag))

    def __str__(self) -> str:
        tag = "" if self.tag is None else f":{self.tag}"
        digest = "" if self.digest is None else f"@{self.digest}"
        return f"{self.name}{tag}{digest}"


@dataclass(frozen=True, slots=True)
class GitReference:
    """A commit of a repository, and the directory in it that holds an `.ai`."""

    url: str
    revision: str
    directory: str = ""

    @property
    def name(self) -> str:
        """Where it comes from, without saying which version."""
        return f"git+{self.url}" + (f"#{self.directory}" if self.directory else "")

    @property
    def protocol(self) -> str:
        """What git speaks; `user@host:path` is ssh, too."""
        scheme, is_url, _ = self.url.partition("://")
        return scheme if is_url else "ssh"

    def pinned(self, digest: str) -> GitReference:
        """The same, at one commit."""
        return GitReference(self.url, digest.removeprefix("git:"), self.directory)

    def unpinned(self) -> str:
        """The reference as a person writes it."""
        return str(self)

    def __str__(self) -> str:
        directory = f"#{self.directory}" if self.directory else ""
        return f"git+{self.url}@{self.revision}{directory}"


def is_commit(text: str) -> bool:
    """Whether this is the whole name of a commit."""
    return _COMMIT.fullmatch(text) is not None


def is_loopback(host: str) -> bool:
    """Whether a host, with its port or without, is this machine by its name or its address."""
    is_name_and_port = host.count(":") == 1 or (host.startswith("[") and not host.endswith("]"))
    name = (host.rpartition(":")[0] if is_name_and_port else host).strip("[]").lower()
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def leads_here(host: str) -> bool:
    """Whether a host is this machine in any spelling that a resolver takes: `127.1`, `localhost.`, …"""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    address = _address_in(name)
    address = getattr(address, "ipv4_mapped", None) or address
    return address is not None and (address.is_loopback or address.is_unspecified or address.is_link_local)


def _address_in(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """An address, also in a form that `inet_aton` alone knows; None for a name."""
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        with suppress(OSError, UnicodeError):
            return ipaddress.IPv4Address(socket.inet_aton(name))
    return None


def parse_reference(text: str) -> Reference | GitReference:
    """The reference that a person or a file wrote; RyeError `invalid_reference` for anything else."""
    if len(text) > _MAX_CHARACTERS:
        raise _refused(f"at most {_MAX_CHARACTERS} characters", text)
    return _git(text) if text.startswith("git+") else _artifact(text)


def parse_repository(text: str) -> GitReference | None:
    """The commit that somebody means by `URL[@REVISION][#DIRECTORY]`; None for what is no such address."""
    found = _REPOSITORY_URL.fullmatch(text)
    if found is None or len(text) > _MAX_CHARACTERS or found["url"].startswith("-"):
        return None
    return GitReference(found["url"], found["revision"] or "HEAD", found["directory"] or "")


def _git(text: str) -> GitReference:
    rest, _, directory = text.removeprefix("git+").partition("#")
    url, at, revision = rest.rpartition("@")
    if not at:
        raise _refused("a commit, a tag or a branch after @", text)
    if not _GIT_URL.fullmatch(url):
        raise _refused("git+https://, or git+file://, and no user or password", text)
    if not _REVISION.fullmatch(revision) or ".." in revision:
        raise _refused("a commit, a tag or a branch after @", text)
    if directory and (not _SUBDIRECTORY.fullmatch(directory) or ".." in directory):
        raise _refused("a directory of the repository after #", text)
    return GitReference(url, revision, directory)


def _artifact(text: str) -> Reference:
    rest, at, digest = text.partition("@")
    if at and not is_digest(digest):
        raise _refused("sha256: and 64 hexadecimal digits after @", text)
    host, slash, path = rest.partition("/")
    if not slash or not _HOST.fullmatch(host) or not _names_a_host(host):
        raise _refused(f"a registry and a repository, such as {_EXAMPLES}", text)
    repository, colon, tag = path.partition(":")
    if not _REPOSITORY.fullmatch(repository) or len(repository) > _MAX_REPOSITORY:
        raise _refused("a repository of lower case letters, digits, and - _ . between them", text)
    if colon and not _TAG.fullmatch(tag):
        raise _refused("a tag of at most 128 letters, digits, and _ . -", text)
    if not colon and not at:
        raise _refused("a tag or a digest at the end", text)
    return Reference(host, repository, tag if colon else None, digest if at else None)


def _names_a_host(host: str) -> bool:
    return "." in host or ":" in host or host == "localhost"


def _refused(expected: str, found: str) -> RyeError:
    return RyeError("invalid_reference", f"expected {expected}, found {found[:_SHOWN]!a}")
