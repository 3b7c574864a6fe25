"""Connects to a server to add its tools: what it gets of the environment, and hints if that fails.

Only variables that say how the network is reached are passed on, by name, if the person agrees.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePath
from threading import Timer
from typing import TYPE_CHECKING, Any, Final

import typer

from lilux._dataclasses import dataclass
from rye_mcp.bridge.definitions import DIRECTORY
from rye_mcp.bridge.servers import START_TIMEOUT_S, require_variables
from rye_mcp.cli._printing import warn
from rye_mcp.configuration import isolation_of
from rye_mcp.errors import RyeError
from rye_mcp.executor.environment.shims import behind_shims
from rye_mcp.executor.job.confinement import Bounds, Confinement, Rights
from rye_mcp.items import SpaceName
from rye_mcp.permissions import effective
from rye_mcp.trust.scope import SignerKind
from rye_mcp.verbs import mcp_servers as servers
from rye_mcp.visible import visible

if TYPE_CHECKING:
    from rye_mcp.app import App
    from rye_mcp.bridge.definitions import Definition
    from rye_mcp.verbs.context import Context
    from rye_mcp.verbs.mcp_servers import ServerPlan, Written

__all__ = [
    "IMPATIENT",
    "Package",
    "bring_in",
    "network_variables",
    "offered_now",
    "package_of",
    "place_of",
    "speaks_of_certificates",
    "speaks_of_network",
    "version_by_npm",
    "version_by_uv",
]

_MAX_BYTES: Final = 1 << 20
"""No package.json is longer: 1 MiB."""

_FETCHED_VERSION: Final = re.compile(r"\d+(?:\.\d+)+[A-Za-z0-9.+-]{0,60}", re.ASCII)


def version_by_npm(name: str, environment: Mapping[str, str]) -> str | None:
    """The one version in the environments that npx keeps."""
    cache = _directory(environment, "npm_config_cache", ".npm")
    return None if cache is None else _only(_said(cache.glob(f"_npx/*/node_modules/{name}/package.json")))


def version_by_uv(name: str, environment: Mapping[str, str]) -> str | None:
    """The one version among the wheels that uv keeps."""
    above = environment.get("XDG_CACHE_HOME")
    own = f"{above}/uv" if above else ""
    cache = _directory({"UV_CACHE_DIR": own, **environment}, "UV_CACHE_DIR", ".cache/uv")
    normal = re.sub(r"[-_.]+", "-", name).lower()
    if cache is None or "/" in normal:
        return None
    return _only(path.name.partition("-")[0] for path in cache.glob(f"wheels-v*/pypi/{normal}/*"))


def _directory(environment: Mapping[str, str], variable: str, usual: str) -> Path | None:
    named, home = environment.get(variable), environment.get("HOME")
    return Path(named) if named else Path(home, usual) if home else None


def _said(files: Iterable[Path]) -> Iterator[str]:
    """The version that each package.json says."""
    for file in files:
        try:
            with file.open("rb") as opened:
                said = json.loads(opened.read(_MAX_BYTES))
        except (OSError, ValueError):
            continue
        if isinstance(said, dict):
            yield str(said.get("version"))


def _only(versions: Iterable[str]) -> str | None:
    try:
        found = {version for version in versions if _FETCHED_VERSION.fullmatch(version)}
    except OSError:
        return None
    return found.pop() if len(found) == 1 else None


IMPATIENT: Final[Mapping[str, str]] = {"npm_config_fetch_retries": "0", "UV_HTTP_RETRIES": "0"}
"""Variables that make a program report at once that it cannot fetch packages, while a person waits."""

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
    hosts: tuple[str, ...]
    reads: tuple[str, ...]
    """Its own paths below the home directory, which it needs."""


_NPX: Final = _Launcher(
    re.compile(rf"{_OF_ALL}|{_OF_NPM}", re.IGNORECASE),
    frozenset({"-p", "--package"}),
    frozenset({"-c", "--call", "--registry", "--cache"}),
    re.compile(r"(?:@[^/]+/)?[^@/]+@v?\d+\.\d+\.\d+[\w.+-]*"),
    "NODE_EXTRA_CA_CERTS",
    "@",
    "npm view {name} version",
    version_by_npm,
    ("registry.npmjs.org",),
    (),
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
    ("pypi.org", "files.pythonhosted.org"),
    ("~/.local/share/uv/python", "~/.local/bin/uv"),
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
        """Return the warning about a version that is not pinned; with the fetched one, if known."""
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
    """Return the variables that say how the network is reached, as far as the program asks for them."""
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
    """Return the package that the options name, or the first word that is not an option."""
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


_SILENT_S: Final = 1.0
"""How long a server may take before a person is told that it is waited for."""


def bring_in(
    plan: ServerPlan,
    app: App,
    context: Context,
    values: Mapping[str, str],
    *,
    network: bool | None,
    can_ask: bool,
) -> Written:
    """Ask a server what it offers, and write its tools; `values` are those of variables, to be used once."""
    plan, withheld = _with_network(plan, app, agreed=network, can_ask=can_ask)
    try:
        return _add(plan, app, context, values)
    except RyeError as exc:
        if exc.code == "spawn_failed":
            exc.hint = _shim_hint(plan, app) or exc.hint
        if exc.code in ("lost", "timeout"):
            exc.hint = _network_hint(exc, withheld, plan) or exc.hint
        raise
    finally:
        _warn_of_version(plan, app)  # now that it was fetched, its version may be known


def _warn_of_version(plan: ServerPlan, app: App) -> None:
    package = package_of(plan.config)
    warning = None if package is None else package.warning(app.settings.environment)
    if warning is not None:
        warn(f"{plan.name}: {warning}")


def _shim_hint(plan: ServerPlan, app: App) -> str | None:
    """The real file, where a command is a shim that its manager has no program for outside of a project."""
    name = str(plan.config.get("command"))
    files = [] if "/" in name else behind_shims(name, app.settings.environment)
    if not files:
        return None
    words = shlex.join([files[-1], *map(str, plan.config.get("args", ()))])
    what = f"{name} is a shim of a version manager, which chooses no version of it outside of a project"
    return f"{what}; name the file itself: rye mcp add {plan.name} -- {words}"


def _network_hint(error: RyeError, withheld: Sequence[str], plan: ServerPlan) -> str | None:
    """Return the hint for a server that could not reach its registry."""
    if withheld and _is_about_network(error, withheld, plan):
        names = visible(", ".join(withheld))
        return f"to pass on what this machine sets for its network, add --network: {names}"
    package = package_of(plan.config)
    if package is None or not speaks_of_certificates(" ".join(error.details.get("said", ()))):
        return None
    own = "if your network has a certificate authority of its own"
    return f"{own}, set {package.certificates} to its file, and add --network"


def _is_about_network(error: RyeError, withheld: Sequence[str], plan: ServerPlan) -> bool:
    """Whether a server failed for want of the network: by its words, or by silence while it is fetched."""
    said = " ".join(error.details.get("said", ()))
    if not said:
        return error.code == "timeout" and package_of(plan.config) is not None
    return speaks_of_network(said) or any(name in said for name in withheld)


def _add(plan: ServerPlan, app: App, context: Context, values: Mapping[str, str]) -> Written:
    if plan.space is SpaceName.PROJECT:
        context.spaces.require_project()
    key = servers.signing_key(context)
    offered = offered_now(plan, app, context, values)
    return servers.add(plan, offered, context, key)


def _with_network(
    plan: ServerPlan, app: App, *, agreed: bool | None, can_ask: bool
) -> tuple[ServerPlan, tuple[str, ...]]:
    """The plan with what this machine sets for its network, if the person agrees, and the names if not."""
    if plan.config["transport"] != "stdio":
        return plan, ()
    names = network_variables(plan.config, app.settings.environment)
    shown = visible(", ".join(names))
    if agreed is None and names and can_ask and package_of(plan.config) is not None:
        typer.echo(f"This machine sets, for its network: {shown}", err=True)
        agreed = typer.confirm(f"Pass that on to the server {plan.name}", default=True, err=True)
    if not agreed:
        return plan, names
    env = {**plan.config.get("env", {}), **{name: f"${{{name}}}" for name in names}}
    return replace(plan, config={**plan.config, "env": env}), ()


def offered_now(
    plan: ServerPlan, app: App, context: Context, values: Mapping[str, str]
) -> Mapping[str, Definition]:
    """Ask a server for its tools, as its items would ask it."""
    import anyio

    config = plan.config
    from rye_mcp.bridge.pool import offered_by

    whole = servers.whole_config(config, context)
    if package_of(config) is not None:
        whole["env"] = {**IMPATIENT, **whole["env"]}
    here = context.project if app.spaces.project is not None else None
    cwd = str(here or os.path.expanduser("~"))  # noqa: PTH111 - as text, whatever it is
    variables = {**app.settings.environment, **values}
    require_variables(config, variables)

    async def ask() -> Mapping[str, Definition]:
        project = "" if here is None else str(here)
        directories = context.trust.directories
        bounds = _bounds(plan, app, context)
        return await offered_by(
            whole, variables, cwd=cwd, project=project, directories=directories, bounds=bounds
        )

    with _telling_what_is_waited_for(whole):
        return anyio.run(ask)


def _bounds(plan: ServerPlan, app: App, context: Context) -> Bounds | None:
    """Return the confinement for a server that is asked for its tools: the one that its tools will have."""
    item_id, isolation = f"{DIRECTORY}/{plan.name}", isolation_of(context)
    declared = None if plan.allowed is None else plan.declared()
    found = effective(declared, SignerKind.PERSON, isolation, item_id=f"{item_id}/*").permissions
    if found.unconfined or plan.config["transport"] != "stdio":
        return None
    space = context.spaces.space(plan.space)
    fingerprint = context.keys.show(SignerKind.PERSON).fingerprint
    owner = (str(space.root), str(SignerKind.PERSON), fingerprint)
    rights = Rights(found, item_id, owner, tuple(sorted(isolation.hide)), isolation.limits)
    project = None if context.spaces.project is None else context.project
    confinement = Confinement(context.spaces, project, app.settings.state, app.settings.environment)
    return Bounds(rights, confinement, context.trust.directories)


@contextmanager
def _telling_what_is_waited_for(config: Mapping[str, Any]) -> Iterator[None]:
    """A block that takes as long as a server does: it says so when that is long."""
    limit = config.get("start_timeout", START_TIMEOUT_S)
    what = f"rye: waiting for the server {config['server']} to say what it offers, for at most {limit:g} s"
    timer = Timer(_SILENT_S, typer.echo, [visible(f"{what}: {place_of(config)}")], {"err": True})
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # a line that is being written is whole before anything follows


def place_of(config: Mapping[str, Any]) -> str:
    """Where a server is: its address, or what starts it."""
    if config["transport"] == "http":
        return str(config.get("url"))
    return " ".join(map(str, [config.get("command"), *config.get("args", ())]))
