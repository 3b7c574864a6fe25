"""Servers that come from a registry of packages: which one, and what of this machine they need to reach it.

Rules:

- Only variables that say how the network is reached are offered: certificates, proxies, registries. None that
  switches a check off is among them.
- They are written into the item by name. Nothing is passed on to which the person has not agreed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final

from rye_mcp.cli._mcp_fetched import version_by_npm, version_by_uv

__all__ = [
    "IMPATIENT",
    "Package",
    "network_variables",
    "package_of",
    "speaks_of_certificates",
    "speaks_of_network",
]

IMPATIENT: Final[Mapping[str, str]] = {"npm_config_fetch_retries": "0", "UV_HTTP_RETRIES": "0"}
"""What makes a program that fetches packages say at once that it cannot, while a person waits for it."""

_OF_ALL: Final = r"(?:https?|all|no)_proxy|ssl_cert_(?:file|dir)"
_OF_NPM: Final = (
    r"node_extra_ca_certs|npm_config_(?:[^_].*:)?_?(?:registry|cafile|ca|proxy|https?_proxy|noproxy)"
)
_OF_PYPI: Final = (
    r"requests_ca_bundle|pip_(?:cert|proxy|index_url|extra_index_url|find_links)"
    r"|uv_(?:default_index|index|index_url|extra_index_url|find_links|native_tls|system_certs)"
)


@dataclass(frozen=True, slots=True)
class _Launcher:
    """A program that fetches what it starts: how its options name that, and how a version is pinned."""

    names: re.Pattern[str]
    naming: frozenset[str]
    with_value: frozenset[str]
    pinned: re.Pattern[str]
    certificates: str
    joined: str
    how: str
    fetched: Callable[[str, Mapping[str, str]], str | None]


_NPX: Final = _Launcher(
    re.compile(rf"{_OF_ALL}|{_OF_NPM}", re.IGNORECASE),
    frozenset({"-p", "--package"}),
    frozenset({"-c", "--call", "--registry", "--cache"}),
    re.compile(r"(?:@[^/]+/)?[^@/]+@v?\d+\.\d+\.\d+[\w.+-]*"),
    "NODE_EXTRA_CA_CERTS",
    "@",
    "npm view {name} version",
    version_by_npm,
)
_UVX: Final = _Launcher(
    re.compile(rf"{_OF_ALL}|{_OF_PYPI}", re.IGNORECASE),
    frozenset({"--from"}),
    frozenset({"-p", "--python", "--with", "--index", "--index-url", "--default-index", "--extra-index-url"}),
    re.compile(r"[^=@]+(?:===?|@)v?\d+(?:\.\d+)+[\w.+-]*"),
    "SSL_CERT_FILE",
    "==",
    "https://pypi.org/project/{name}",
    version_by_uv,
)
_LAUNCHERS: Final[Mapping[tuple[str, ...], _Launcher]] = {
    ("npx",): _NPX,
    ("bunx",): _NPX,
    ("npm", "exec"): _NPX,
    ("pnpm", "dlx"): _NPX,
    ("uvx",): _UVX,
    ("uv", "tool", "run"): _UVX,
    ("pipx", "run"): _UVX,
}
_OF_NETWORK: Final = re.compile(
    r"\b(?:certificate|proxy|tls|ssl|dns|getaddrinfo|econn\w+|enotfound|etimedout|eai_again|enetunreach"
    r"|ehostunreach|registry|network|fetch\w*|timed out|unreachable|connect(?:ion)?|resolve host)\b|_cert",
    re.IGNORECASE,
)
_OF_CERTIFICATES: Final = re.compile(
    r"self-signed certificate|SELF_SIGNED_CERT|UNABLE_TO_(?:VERIFY|GET_ISSUER)|UnknownIssuer"
    r"|CERTIFICATE_VERIFY_FAILED"
)
_ANY: Final = re.compile(rf"{_OF_ALL}|{_OF_NPM}|{_OF_PYPI}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Package:
    """A package that a command fetches and starts."""

    name: str
    is_pinned: bool
    bare: str
    launcher: _Launcher

    @property
    def certificates(self) -> str:
        """The variable by which what fetches it learns of more certificates."""
        return self.launcher.certificates

    def warning(self, environment: Mapping[str, str]) -> str | None:
        """What to say of a version that is not pinned; with the one that was fetched, where that is known."""
        if self.is_pinned:
            return None
        version = self.launcher.fetched(self.bare, environment)
        form = f"{self.bare}{self.launcher.joined}{version or 'VERSION'}"
        how = "the version that is here now" if version else self.launcher.how.format(name=self.bare)
        return f"{self.name} is fetched in whatever version is the newest; pin it: {form} ({how})"


def package_of(config: Mapping[str, Any]) -> Package | None:
    """The package that the command of a server fetches; None for any other command."""
    launcher, args = _launcher_of(config)
    name = None if launcher is None else _named(launcher, args)
    if launcher is None or name is None or name.startswith((".", "/", "~")):
        return None
    bare = re.split(r"(?<=.)[@=\[<>~! ]", name, maxsplit=1)[0]
    return Package(name, launcher.pinned.fullmatch(name) is not None, bare, launcher)


def network_variables(config: Mapping[str, Any], environment: Mapping[str, str]) -> tuple[str, ...]:
    """What of an environment says how the network is reached, as far as the program asks for it."""
    launcher, _ = _launcher_of(config)
    names = _ANY if launcher is None else launcher.names
    given = config.get("env", {})
    return tuple(sorted(name for name, value in environment.items() if value and _is(name, names, given)))


def speaks_of_certificates(said: str) -> bool:
    """Whether a program did not trust the certificate of whom it reached."""
    return _OF_CERTIFICATES.search(said) is not None


def speaks_of_network(said: str) -> bool:
    """Whether the last words of a program are about reaching something over the network."""
    return _OF_NETWORK.search(said) is not None


def _is(name: str, names: re.Pattern[str], given: Iterable[str]) -> bool:
    return name.isidentifier() and name not in given and names.fullmatch(name) is not None


def _launcher_of(config: Mapping[str, Any]) -> tuple[_Launcher | None, Sequence[str]]:
    words = [PurePath(str(config.get("command", ""))).name, *map(str, config.get("args", ()))]
    for start, launcher in _LAUNCHERS.items():
        if tuple(words[: len(start)]) == start:
            return launcher, words[len(start) :]
    return None, ()


def _named(launcher: _Launcher, args: Sequence[str]) -> str | None:
    """What the options name, or the first word that is none."""
    words = iter(args)
    for word in words:
        option, is_joined, value = word.partition("=")
        if option in launcher.naming:
            return value if is_joined else next(words, None)
        if option in launcher.with_value:
            if not is_joined:
                next(words, None)
        elif not word.startswith("-"):
            return word
    return None
