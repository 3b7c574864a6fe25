"""`rye lock`: what tools and skills were when they were locked, and whether they still are.

A run is refused when the tool, or anything that runs it, is no longer what is locked. `rye lock update` is
how a person says that it may be. Exit codes: 0 done, 1 refused, 2 wrong use.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from rye_mcp.cli._command_groups import EXIT_FAILED, command_group
from rye_mcp.cli._options import (
    ItemArgument,
    JsonOption,
    LockedTypeOption,
    PatternArgument,
    ProjectOption,
    open_app,
    pattern_argument,
    person,
)
from rye_mcp.cli._printing import print_facts, print_json, print_table, report, say
from rye_mcp.items import ItemType, printable
from rye_mcp.verbs.lock import (
    Locked,
    LockListRequest,
    LockShowRequest,
    LockUpdateRequest,
    LockVerifyRequest,
    Updated,
    Verified,
    lock_list,
    lock_show,
    lock_update,
    lock_verify,
)

__all__ = ["lock"]

lock = command_group("Lock tools and skills as they are now, and check that they still are.", for_id="update")

_SHOWN_DIGITS = 16
_NOTHING = "nothing is locked"


@lock.command("list")
def list_lockfiles(
    pattern: Annotated[str, pattern_argument("An id, or a pattern; by default everything.")] = "*",
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the lockfiles of every space."""
    result = lock_list(LockListRequest(pattern), person(open_app(project)))
    if as_json:
        print_json(result.as_dict())
    elif result.lockfiles:
        red = (number for number, each in enumerate(result.lockfiles) if each.refusal is not None)
        print_table(
            ("ITEM", "TYPE", "VERSION", "SPACE", "LOCKED"), list(map(_row, result.lockfiles)), red=red
        )
    else:
        typer.echo(_NOTHING)


@lock.command()
def show(
    item: ItemArgument,
    version: Annotated[
        str | None,
        typer.Option("--version", metavar="VERSION", help="Which version; by default the one it has now."),
    ] = None,
    item_type: LockedTypeOption = ItemType.TOOL,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a lockfile pins."""
    result = lock_show(LockShowRequest(item, version, item_type), person(open_app(project)))
    if as_json:
        print_json(result.as_dict())
        return
    stored = result.stored
    facts = {
        "item": f"{stored.pins.root['tool_id']} {stored.pins.root['version']}",
        "path": printable(stored.path),
        "locked at": stored.lockfile.generated_at,
        "under": f"rye-mcp {stored.package_version}" if stored.package_version else "",
    }
    print_facts(facts.items())
    typer.echo()
    columns = ("item_id", "version", "space", "integrity", "signer")
    rows = [[_short(name, element.get(name)) for name in columns] for element in stored.pins.elements]
    print_table(("ELEMENT", "VERSION", "SPACE", "SHA256", "SIGNER"), rows)
    if stored.pins.dependencies:
        typer.echo()
        files = [(path, digest[:_SHOWN_DIGITS]) for path, digest in stored.pins.dependencies.items()]
        print_table(("FILE", "SHA256"), files)


@lock.command()
def update(
    pattern: PatternArgument,
    item_type: LockedTypeOption = ItemType.TOOL,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Lock a tool or a skill as it is now, or all that are locked and match a pattern."""
    result = lock_update(LockUpdateRequest(pattern, item_type), person(open_app(project), as_json=as_json))
    if as_json:
        print_json(result.as_dict())
    else:
        for each in result.updated:
            _print_updated(each)
        _report(result.failed)
        if not result.updated and not result.failed:
            typer.echo(_NOTHING)
    if result.failed:
        raise typer.Exit(EXIT_FAILED)


@lock.command()
def verify(
    pattern: Annotated[str, pattern_argument("An id, or a pattern; by default everything locked.")] = "*",
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say whether tools and skills are what was locked, without running them."""
    result = lock_verify(LockVerifyRequest(pattern), person(open_app(project)))
    if as_json:
        print_json(result.as_dict())
    elif result.tools:
        red = (number for number, each in enumerate(result.tools) if each.refusal is not None)
        print_table(("ITEM", "STATE"), [(each.item_id, each.state) for each in result.tools], red=red)
        _report(result.refused)
    else:
        typer.echo(_NOTHING)
    if result.refused:
        raise typer.Exit(EXIT_FAILED)


def _row(locked: Locked) -> tuple[str, str, str, str, str]:
    place = locked.place
    when = f"refused: {locked.refusal.code}" if locked.refusal is not None else ""
    if locked.stored is not None:
        when = locked.stored.lockfile.generated_at
    return (place.item_id, place.item_type.value, locked.version, place.space.name.value, when)


def _short(name: str, value: str | None) -> str:
    if name in ("integrity", "signer"):
        return (value or "-")[:_SHOWN_DIGITS]
    return value or ""


def _print_updated(updated: Updated) -> None:
    for change in updated.changes:
        say(f"  {change}")
    for place in updated.removed:
        say(f"removed: {printable(place.path)}, as {place.item_id} is gone")
    say(f"{updated.state}: {updated.item_id} {updated.version}, in {printable(updated.path)}")


def _report(refused: Iterable[Verified]) -> None:
    for each in refused:
        if each.refusal is not None:
            report(each.refusal)
