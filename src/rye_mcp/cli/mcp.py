"""`rye mcp`: other MCP servers, whose tools become signed items.

`add` asks a server for its tools and signs an item for each. `update` shows what changed and signs it after a
yes. `import` reads configurations of clients; it starts a server of a project only if you name it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rye_mcp.cli._client_files import ClientName
from rye_mcp.cli._command_groups import EXIT_FAILED, command_group
from rye_mcp.cli._mcp_connecting import bring_in, offered_now, place_of
from rye_mcp.cli._mcp_permissions import (
    AccessOption,
    NetOption,
    PermissionsOption,
    Wish,
    proposed,
    tell,
    tell_difference,
    widened,
)
from rye_mcp.cli._mcp_sources import Configured, Found, Origin, chosen, configured, plan_of
from rye_mcp.cli._options import JsonOption, ProjectOption, open_app, person
from rye_mcp.cli._printing import print_json, print_table, report, say, warn
from rye_mcp.cli._terminal import can_ask
from rye_mcp.errors import RyeError
from rye_mcp.items import SpaceName
from rye_mcp.verbs import mcp_servers as servers
from rye_mcp.visible import visible_lines

if TYPE_CHECKING:
    from rye_mcp.app import App
    from rye_mcp.permissions import Permissions
    from rye_mcp.verbs.context import Context
    from rye_mcp.verbs.mcp_servers import Comparison, Known, ServerPlan, Written

__all__ = ["mcp", "print_comparison"]

mcp = command_group("Other MCP servers: bring in their tools, signed, and look at what changed.")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="What the server is called here.")]
ToOption = Annotated[
    SpaceName, typer.Option("--to", metavar="SPACE", help="Where its tools go: project or user.")
]
OnlyOption = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="GLOB", help="Only tools with such names; more than once."),
]
FromOption = Annotated[
    SpaceName | None, typer.Option("--space", metavar="SPACE", help="Where its tools are: project or user.")
]
NetworkOption = Annotated[
    bool | None,
    typer.Option(
        "--network/--no-network",
        help="Pass on what this machine sets for its network: certificates, proxies, registries.",
    ),
]
YesOption = Annotated[bool, typer.Option("--yes", help="Agree without being asked.")]
WordsArgument = Annotated[
    list[str] | None, typer.Argument(metavar="URL | -- COMMAND…", help="Where it is, or what starts it.")
]
EnvOption = Annotated[
    list[str] | None,
    typer.Option("--env", metavar="NAME", help="A variable that it may see; more than once."),
]
HeaderOption = Annotated[
    list[str] | None,
    typer.Option("--header", metavar="TEXT", help="'Name: ${VARIABLE}' for every request; more than once."),
]
StartTimeoutOption = Annotated[
    float | None,
    typer.Option(
        "--start-timeout",
        metavar="SECONDS",
        min=0.1,
        max=3600,
        help="How long it may take to say what it offers.",
    ),
]
ServersArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[NAME]…", help="Which servers; without any, they are listed."),
]
ClientOption = Annotated[
    ClientName | None,
    typer.Option("--from", metavar="CLIENT", help="Only those of " + ", ".join(ClientName)),
]
FromProjectOption = Annotated[
    bool, typer.Option("--from-project", help="Those that files of the project name, such as .mcp.json.")
]
EverythingOption = Annotated[bool, typer.Option("--all", help="All that you are set up with.")]
ImportedToOption = Annotated[
    SpaceName | None,
    typer.Option("--to", metavar="SPACE", help="Where its tools go: user, or project (with --from-project)."),
]

_OURS = (SpaceName.PROJECT, SpaceName.USER)


@mcp.command()
def add(
    name: NameArgument,
    words: WordsArgument = None,
    env: EnvOption = None,
    header: HeaderOption = None,
    network: NetworkOption = None,
    start_timeout: StartTimeoutOption = None,
    project_access: AccessOption = None,
    net: NetOption = None,
    permissions: PermissionsOption = None,
    to: ToOption = SpaceName.PROJECT,
    only: OnlyOption = None,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Connect to a server, and write its tools as items that you have signed."""
    plan = plan_of(name, words or [], env or [], header or [], to, only or [], start_timeout)
    wish = Wish.of(project_access, net, permissions)
    app = open_app(project)
    context = person(app, as_json=as_json)
    written = _brought_in(plan, wish, app, context, {}, network=network, as_json=as_json)
    if as_json:
        print_json(_answer(name, written))
    else:
        _print_written(written, "added")


@mcp.command("list")
def list_servers(
    space: FromOption = None, project: ProjectOption = None, as_json: JsonOption = False
) -> None:
    """List the servers that have tools, without connecting to any."""
    context = person(open_app(project), as_json=as_json)
    found = servers.known_servers(context, _spaces(space, context))
    if as_json:
        print_json({"status": "success", "servers": [_facts(each) for each in found]})
    elif found:
        rows = [_row(each) for each in found]
        print_table(("NAME", "SPACE", "TOOLS", "REFUSED", "WHERE"), rows)
    else:
        typer.echo("no tools of other servers: rye mcp add NAME -- COMMAND")


@mcp.command()
def update(
    name: NameArgument,
    yes: YesOption = False,
    only: OnlyOption = None,
    project_access: AccessOption = None,
    net: NetOption = None,
    permissions: PermissionsOption = None,
    space: FromOption = None,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a server says otherwise than you approved, or may do otherwise, and sign that after a yes."""
    wish = Wish.of(project_access, net, permissions)
    app = open_app(project)
    context = person(app, as_json=as_json)
    known = _known(name, space, context)
    plan = known.plan
    if wish:
        plan = proposed(plan, wish, app.settings.environment, context.project, can_ask=False)
    offered = offered_now(plan, app, context, {})
    comparison = servers.compare(known, offered, tuple(only or ()), plan.allowed if wish else None)
    if not as_json:
        print_comparison(name, comparison, known.permissions)
    agreed = comparison.is_none or yes or _agrees(as_json=as_json)
    written = None
    if not comparison.is_none and agreed:
        written = servers.update(known, comparison, offered, context, servers.signing_key(context))
    _print_updated(name, comparison, written, agreed=agreed, as_json=as_json)
    if not agreed:
        raise typer.Exit(EXIT_FAILED)


def _print_updated(
    name: str, comparison: Comparison, written: Written | None, *, agreed: bool, as_json: bool
) -> None:
    if as_json:
        print_json({**_compared(name, comparison), **({} if written is None else _answer(name, written))})
    elif written is not None:
        _print_written(written, "signed")
    elif not agreed:
        typer.echo(f"nothing was signed: look at it, then rye mcp update {name} --yes", err=True)


@mcp.command()
def remove(
    name: NameArgument,
    space: FromOption = None,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove every tool of a server."""
    context = person(open_app(project), as_json=as_json)
    servers.require_server_name(name)
    known = _known(name, space, context)
    removed = servers.remove(name, known.space.name, context)
    if as_json:
        print_json({"status": "success", "server": name, "removed": list(removed)})
    else:
        for item_id in removed:
            say(f"removed {item_id}")


@mcp.command("import")
def import_servers(
    names: ServersArgument = None,
    client: ClientOption = None,
    from_project: FromProjectOption = False,
    everything: EverythingOption = False,
    to: ImportedToOption = None,
    network: NetworkOption = None,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Bring in servers that Claude Desktop, Claude Code, Cursor or VS Code are set up with."""
    if everything and from_project:
        raise typer.BadParameter("expected the names of servers of the project, each of them, found --all")
    app = open_app(project)
    origin = Origin.PROJECT if from_project else Origin.USER
    if from_project:
        app.spaces.require_project()
    if not names and not everything:
        _list_configured(client, app, origin, as_json=as_json)
        return
    wanted = chosen(client, app, origin, None if everything else names, to)
    _import_all(wanted, app, network=network, as_json=as_json)


def _import_all(wanted: Iterable[Found], app: App, *, network: bool | None, as_json: bool) -> None:
    context = person(app, as_json=as_json)
    results = [_import(each, app, context, network=network, as_json=as_json) for each in wanted]
    if as_json:
        print_json({"status": "completed", "servers": results})
    else:
        _print_imported(results)
    if any(result["status"] == "error" for result in results):
        raise typer.Exit(EXIT_FAILED)


def _list_configured(client: ClientName | None, app: App, wanted: Origin, *, as_json: bool) -> None:
    origins = (wanted,) if wanted is Origin.PROJECT else tuple(Origin)
    # What the project says wrong is no reason not to see what the person asked for.
    found = [
        each
        for origin in origins
        for each in configured(client, app, origin, strict=client is not None and origin is wanted)
    ]
    _print_found(found, as_json=as_json)
    if not found and app.settings.project is None:
        typer.echo("rye: this is no project: files such as .mcp.json are read after rye init", err=True)


# --- doing it ---


def _brought_in(
    plan: ServerPlan,
    wish: Wish,
    app: App,
    context: Context,
    values: Mapping[str, str],
    *,
    network: bool | None,
    as_json: bool,
) -> Written:
    """Ask a server what it offers, under the permissions that its tools will have, and write these."""
    may_ask = can_ask(as_json=as_json)
    plan = proposed(plan, wish, app.settings.environment, context.project, can_ask=may_ask)
    if not as_json:
        tell(plan)
    while True:
        try:
            return bring_in(plan, app, context, values, network=network, can_ask=may_ask)
        except RyeError as exc:
            wider = widened(plan, exc, can_ask=may_ask)
            if wider is None:
                raise
            plan = wider


def _agrees(*, as_json: bool) -> bool:
    """Whether a person at a terminal says that they sign what was shown."""
    return can_ask(as_json=as_json) and typer.confirm("Sign this", default=False, err=True)


def _known(name: str, space: SpaceName | None, context: Context) -> Known:
    servers.require_server_name(name)
    found = servers.known_servers(context, _spaces(space, context), name)
    if not found:
        what = f"expected tools of a server {name}, found none"
        raise RyeError("item_not_found", what, hint="rye mcp list")
    if len(found) > 1:
        what = f"expected tools of a server {name} in one space, found them in two"
        raise RyeError("ambiguous_item", what, hint="name one with --space")
    return found[0]


def _spaces(named: SpaceName | None, context: Context) -> tuple[SpaceName, ...]:
    if named is not None:
        return (named,)
    return tuple(name for name in _OURS if name is SpaceName.USER or context.spaces.project is not None)


def _import(
    found: Found, app: App, context: Context, *, network: bool | None, as_json: bool
) -> dict[str, Any]:
    """Import one server, and return its state; a failure stops no other server."""
    try:
        if found.plan is None:
            raise RyeError("client_configuration", found.why_not or "", hint="rye mcp add NAME -- COMMAND")
        plan, values = found.plan, found.values
        written = _brought_in(plan, Wish(), app, context, values, network=network, as_json=as_json)
    except RyeError as exc:
        if not as_json:
            say(f"{found.name}: was not brought in", err=True)
            report(exc)
        return {"server": found.name, **exc.as_dict()}
    needs = sorted(found.values.keys() - app.settings.environment.keys())
    return {**_answer(found.name, written), "set_in_environment": needs}


# --- showing it ---


def _answer(name: str, written: Written) -> dict[str, Any]:
    return {
        "status": "success",
        "server": name,
        "signed": list(written.item_ids),
        "removed": list(written.removed),
        "left_out": [{"tool": each.tool, **each.error.as_dict()} for each in written.left_out],
    }


def _print_written(written: Written, done: str) -> None:
    for item_id in written.item_ids:
        say(f"{done} {item_id}")
    for item_id in written.removed:
        say(f"removed {item_id}")
    for each in written.left_out:
        what = f"left out {each.tool}: {each.error.code}: {each.error.message}"
        warn(f"{what}")


def _facts(known: Known) -> dict[str, Any]:
    return {
        "server": known.name,
        "space": known.space.name.value,
        "tools": sorted(known.items),
        "refused": [error.as_dict() for error in known.refused],
        "where": _where(known),
    }


def _where(known: Known) -> str | None:
    if not known.items:
        return None
    return place_of(known.config)


def _row(known: Known) -> tuple[str, ...]:
    counts = (str(len(known.items)), str(len(known.refused)))
    return (known.name, known.space.name.value, *counts, _where(known) or "-")


def _compared(name: str, comparison: Comparison) -> dict[str, Any]:
    said = comparison.permissions
    return {
        "status": "success" if comparison.is_none else "changed",
        "server": name,
        "changed": {tool: "\n".join(lines) for tool, lines in comparison.changed.items()},
        "added": list(comparison.added),
        "gone": list(comparison.gone),
        **({} if said is None else {"permissions": said.canonical()}),
    }


def print_comparison(name: str, comparison: Comparison, had: Permissions | None = None) -> None:
    """All that a server says otherwise than was approved, for a person who is asked to sign it."""
    if comparison.is_none:
        say(f"{name} says what you approved")
    for tool, lines in comparison.changed.items():
        say(f"{tool} has changed:")
        for line in lines:
            typer.echo(f"  {visible_lines(line)}")
    for tool, lines in comparison.added.items():
        say(f"{tool} is new:")
        for line in lines:
            typer.echo(f"  {line}")
    for tool in comparison.gone:
        say(f"{tool} is not offered any more")
    if comparison.permissions is not None:
        tell_difference(name, had, comparison.permissions)


def _print_found(found: list[Configured], *, as_json: bool) -> None:
    if as_json:
        print_json({"status": "success", "servers": [each.as_dict() for each in found]})
        return
    if not found:
        typer.echo("no client here is set up with other servers")
        return
    print_table(("NAME", "CLIENT", "WHERE"), [(each.name, each.shown_client, each.where) for each in found])
    if any(each.origin is Origin.USER for each in found):
        typer.echo("bring in some: rye mcp import NAME…, or --all")
    if any(each.origin is Origin.PROJECT for each in found):
        typer.echo("those of the project, when you know what they start: rye mcp import --from-project NAME…")


def _print_imported(results: list[dict[str, Any]]) -> None:
    for result in results:
        if result["status"] == "error":
            continue
        say(f"{result['server']}: {len(result['signed'])} tools")
        for name in result["set_in_environment"]:
            what = f"set {name} where rye-mcp runs: its value was not written anywhere"
            warn(f"{what}")
