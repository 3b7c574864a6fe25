"""The permissions of a server to add: as the person says, or proposed from its command.

Nothing is known of a server before it runs. So a proposal has what its command names, and for the rest what
is usual; the person is asked at a terminal, and is told in words what they sign.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import urlsplit

import typer

from lilux._dataclasses import dataclass
from rye_mcp.cli._mcp_connecting import package_of
from rye_mcp.cli._printing import say
from rye_mcp.errors import RyeError
from rye_mcp.metadata import parse_configuration
from rye_mcp.permissions import Permissions, difference, read_permissions, sentence
from rye_mcp.visible import visible

if TYPE_CHECKING:
    from rye_mcp.verbs.mcp_servers import ServerPlan

__all__ = [
    "AccessOption",
    "NetOption",
    "PermissionsOption",
    "Wish",
    "proposed",
    "tell",
    "tell_difference",
    "widened",
]

AccessOption = Annotated[
    str | None,
    typer.Option(
        "--project-access", metavar="ACCESS", help="What it may do with the project: none, read or write."
    ),
]
NetOption = Annotated[
    list[str] | None,
    typer.Option("--net", metavar="HOST", help="A host that it may reach, more than once; or any, or none."),
]
PermissionsOption = Annotated[
    str | None,
    typer.Option(
        "--permissions",
        metavar="YAML",
        help="All that it may do, such as '{project: read, net: [example.org]}', or unconfined.",
    ),
]

_ACCESS: Final = ("none", "read", "write")
_WORDS: Final = ("any", "none")
_USUAL: Final[Mapping[str, Any]] = {"project": "write", "net": "any", "uses": ["cache"]}
"""The usual permissions of a server about which nothing is known."""

_MANIFESTS: Final = ("package.json", "node_modules", "pyproject.toml", "requirements.txt", ".venv", "go.mod")
"""Names in the top directory of a program's source."""

_SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/opt", "/nix", "/snap", "/dev", "/proc")


@dataclass(frozen=True, slots=True)
class Wish:
    """The permissions that the person named: all of them, or parts."""

    project: str | None = None
    net: tuple[str, ...] = ()
    whole: str | None = None

    @classmethod
    def of(cls, project: str | None, net: Sequence[str] | None, whole: str | None) -> Wish:
        """The options of a command; wrong use when they make no permissions."""
        wish = cls(project, tuple(net or ()), whole)
        if whole is not None and wish.parts:
            raise typer.BadParameter("expected --permissions, or --project-access and --net, found both")
        wish.applied({})
        return wish

    def __bool__(self) -> bool:
        return self.whole is not None or bool(self.parts)

    @property
    def parts(self) -> dict[str, Any]:
        """Those keys that are said one by one."""
        found: dict[str, Any] = {} if self.project is None else {"project": self.project}
        if self.net:
            found["net"] = self.net[0] if self.net[0] in _WORDS and len(self.net) == 1 else list(self.net)
        return found

    def applied(self, proposal: Mapping[str, Any]) -> Permissions:
        """The permissions, a proposal in place of parts; wrong use for what makes none."""
        value: Any = {**self.parts, **proposal}
        if self.whole is not None:
            try:
                value = parse_configuration(f"it: {self.whole}".encode(), Path("--permissions"))["it"]
            except RyeError as exc:
                raise typer.BadParameter(exc.message) from exc
        permissions, problems = read_permissions(value)
        if problems:
            raise typer.BadParameter(f"permissions: {'; '.join(problems[:5])}")
        return permissions


def proposed(
    plan: ServerPlan,
    wish: Wish,
    environment: Mapping[str, str],
    project: Path | None,
    *,
    can_ask: bool,
) -> ServerPlan:
    """The plan with permissions: as the person says, or else as is usual for what starts the server."""
    if plan.config["transport"] == "http":
        said = _address(plan.config)
        return replace(plan, allowed=wish.applied(said) if wish or said else None)
    if can_ask and not wish:
        wish = _asked(plan)
    return replace(plan, allowed=wish.applied(_proposal(plan.config, wish, environment, project)))


def tell(plan: ServerPlan) -> None:
    """Say what the server may do, before anything is signed."""
    declared = plan.declared()
    if declared is not None and plan.allowed is not None:
        say(f"rye: {plan.name} {sentence(declared)}", err=True)


def widened(plan: ServerPlan, error: RyeError, *, can_ask: bool) -> ServerPlan | None:
    """The plan with what a server lacked that ended when it was started, if the person agrees to that.

    Otherwise the hint of the error says how to allow it.
    """
    had = plan.declared()
    lacked, _ = read_permissions(error.details.get("denied", {}).get("would_need", {}))
    if had is None or had.unconfined or not (added := difference(had, now := had.join(lacked))):
        return None
    shown = "; ".join(added)
    if can_ask:
        say(f"rye: {plan.name} ended, and seems to need more than it may do: {visible(shown)}", err=True)
        if typer.confirm(f"Allow {visible(plan.name)} that", default=False, err=True):
            return replace(plan, allowed=now)
    words = shlex.quote(json.dumps(now.canonical()))
    error.hint = (
        f"it seems to need that it {shown}; to allow it: rye mcp add {plan.name} --permissions {words} …"
    )
    return None


def tell_difference(name: str, had: Permissions | None, now: Permissions) -> None:
    """Say what a server may do from now on, and what of that is new."""
    say(f"{name} {sentence(now)}")
    for added in () if had is None else difference(had, now):
        say(f"  that is new: {added}")


def _asked(plan: ServerPlan) -> Wish:
    """Ask a person at a terminal; an empty answer takes the usual ones."""
    shown = visible(plan.name)
    question = f"What may {shown} do with the project: none, read or write"
    project = typer.prompt(question, default=_USUAL["project"], err=True).strip()
    question = "Which hosts may it reach: any, none, or their names"
    net = typer.prompt(question, default=_USUAL["net"], err=True).replace(",", " ").split()
    return Wish.of(project, net, None)


def _proposal(
    config: Mapping[str, Any], wish: Wish, environment: Mapping[str, str], project: Path | None
) -> dict[str, Any]:
    found = {**_USUAL, **wish.parts}
    home = environment.get("HOME", "")
    package = package_of(config)
    read = {*_named(config.get("args", ()), home, project)}
    if package is not None:
        if found["net"] != "any":  # it is fetched from there, whatever else it reaches
            named = () if found["net"] == "none" else found["net"]
            found["net"] = sorted({*package.launcher.hosts, *named})
        read |= {place for place in package.launcher.reads if Path(home, place[2:]).exists()}
    return found | ({"read": sorted(read)} if read else {})


def _named(args: Iterable[str], home: str, project: Path | None) -> Iterator[str]:
    """The places that the words of a command name: files with what belongs to them, and directories."""
    above = (home, *map(str, Path(home).parents)) if home.startswith("/") else (os.sep,)
    for word in args:
        named = Path(word.partition("=")[2] if word.startswith("-") else word)
        if not named.is_absolute() or not named.exists():
            continue
        place = Path(os.path.realpath(named))
        there = _SYSTEM if project is None else (*_SYSTEM, project)
        if any(place.is_relative_to(each) for each in there):
            continue
        whole = place if place.is_dir() else _source_of(place, above)
        shown = f"~/{whole.relative_to(home)}" if home and whole.is_relative_to(home) else str(whole)
        if not read_permissions({"read": [shown]})[1]:
            yield shown


def _source_of(file: Path, above: Sequence[str]) -> Path:
    """The directory that a program's source is in, or the file alone where that would be too much."""
    inside = [each for each in file.parents if str(each) not in above and len(each.parts) > 2]
    for each in inside:
        if any((each / name).exists() for name in _MANIFESTS):
            return each
    return inside[0] if inside else file


def _address(config: Mapping[str, Any]) -> dict[str, Any]:
    """Where a server over HTTP is, as permissions; nothing for an address that no name stands for."""
    split = urlsplit(str(config["url"]))
    port = split.port or {"http": 80}.get(split.scheme, 443)
    net = [f"{split.hostname}:{port}"]
    return {} if read_permissions({"net": net})[1] else {"net": net}
