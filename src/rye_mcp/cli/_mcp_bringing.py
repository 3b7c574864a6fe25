"""Connecting to a server to bring its tools in: what it is given, what is waited for, what would help.

`rye mcp add` and `rye mcp import` go through `bring_in`: both warn of a package whose version is not pinned,
and ask about what this machine sets for its network.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from threading import Timer
from typing import TYPE_CHECKING, Any, Final

import typer

from rye_mcp.bridge.servers import START_TIMEOUT_S, require_variables
from rye_mcp.cli._mcp_packages import (
    IMPATIENT,
    network_variables,
    package_of,
    speaks_of_certificates,
    speaks_of_network,
)
from rye_mcp.errors import RyeError
from rye_mcp.executor.environment.shims import behind_shims
from rye_mcp.items import SpaceName
from rye_mcp.verbs import mcp_servers as servers
from rye_mcp.visible import visible

if TYPE_CHECKING:
    from rye_mcp.app import App
    from rye_mcp.bridge.definitions import Definition
    from rye_mcp.verbs.context import Context
    from rye_mcp.verbs.mcp_servers import ServerPlan, Written

__all__ = ["bring_in", "offered_now", "place_of"]

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
        typer.echo(visible(f"rye: warning: {plan.name}: {warning}"), err=True)


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
    """What would help a server that could not reach its registry."""
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
    offered = offered_now(plan.config, app, context, values)
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
    config: Mapping[str, Any], app: App, context: Context, values: Mapping[str, str]
) -> Mapping[str, Definition]:
    """What the server of a configuration offers, asked as its tools would ask it."""
    import anyio

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
        return await offered_by(whole, variables, cwd=cwd, project=project, directories=directories)

    with _telling_what_is_waited_for(whole):
        return anyio.run(ask)


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
