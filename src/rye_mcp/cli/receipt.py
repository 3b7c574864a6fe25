"""`rye receipt`: what is on record of each run, signed on this machine.

Nothing here asks a server, or needs more than public keys to verify. What a receipt proves, and what it does
not, is in docs/receipts.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from rye_mcp.cli._command_groups import EXIT_FAILED, command_group
from rye_mcp.cli._options import JsonOption, open_app
from rye_mcp.cli._printing import print_json, say
from rye_mcp.errors import RyeError
from rye_mcp.receipts.verification import Checked
from rye_mcp.runs.receipts import ReceiptStore
from rye_mcp.trust.scope import SignerKind
from rye_mcp.trust.trust_document import TrustDocument
from rye_mcp.verbs.receipts import (
    AtHand,
    ReceiptSources,
    ShownReceipt,
    checkpoint_of,
    export_all,
    export_day,
    export_run,
    items_at_hand,
    read_key,
    rekor_entry,
    runner_key,
    show_receipt,
    verify_checkpoint,
    verify_everything,
    verify_file,
    verify_run,
)
from rye_mcp.visible import visible

__all__ = ["receipt"]

_PARTS: Final = ("verified", "observed", "reported")

receipt = command_group("What is on record of each run, signed: show it, verify it, pass it on.")

RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="The id of a run, or a handle such as rye://runs/…/stdout.")
]
KeysOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--key", metavar="FILE", help="The public key of another machine's runner; may be repeated."
    ),
]


@receipt.command()
def show(run: RunArgument, as_json: JsonOption = False) -> None:
    """Show what the receipt of a run says, and how each of it is known."""
    sources = _sources()
    with ReceiptStore(sources.state) as store:
        shown = show_receipt(run, sources, store)
    if as_json:
        print_json(shown.as_dict())
    else:
        _print_receipt(shown)
    if shown.problem is not None:
        raise typer.Exit(EXIT_FAILED)


@receipt.command()
def verify(
    what: Annotated[
        str | None,
        typer.Argument(metavar="[FILE|RUN]", help="Exported receipts, - for standard input; or a run."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Verify the whole log, and that nothing is missing.")
    ] = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            "--checkpoint", metavar="FILE", help="Check that the log still has what this checkpoint says."
        ),
    ] = None,
    every_signature: Annotated[
        bool,
        typer.Option(
            "--every-signature",
            help="With --all: check each signature, although later receipts vouch for earlier ones.",
        ),
    ] = False,
    key: KeysOption = None,
    as_json: JsonOption = False,
) -> None:
    """Verify receipts with public keys alone, and say what is missing or was changed."""
    if [what is not None, everything, checkpoint is not None].count(True) != 1:
        raise typer.BadParameter("expected one of FILE, RUN, --all and --checkpoint")
    sources = _sources(key)
    items: Mapping[str, AtHand] = {}
    with ReceiptStore(sources.state) as store:
        if checkpoint is not None:
            mark = verify_checkpoint(checkpoint, sources, store)
            found = Checked(1, 1, mark.number, mark)
        elif everything:
            found = verify_everything(sources, store, every_signature=every_signature)
        else:
            found = _verify(str(what), sources, store)
            if not _is_file(str(what)):
                items = items_at_hand(str(what), store, open_app(None).spaces)
    _report(found, items, as_json=as_json)


@receipt.command()
def export(
    run: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="A run, with all that it asked for.")
    ] = None,
    day: Annotated[
        str | None,
        typer.Option(
            "--day", metavar="DATE", help="Receipts of runs that started on this day, in UTC: 2026-11-18."
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All receipts.")] = False,
) -> None:
    """Print receipts for others, a line each: DSSE envelopes of in-toto statements."""
    if [run is not None, day is not None, everything].count(True) != 1:
        raise typer.BadParameter("expected one of RUN, --day and --all")
    with ReceiptStore(_sources().state) as store:
        if run is not None:
            lines = export_run(run, store)
        else:
            lines = export_all(store) if day is None else export_day(_date(day), store)
        _write(lines)


@receipt.command()
def checkpoint(
    rekor: Annotated[
        bool,
        typer.Option("--rekor", help="As the request that enters it into a transparency log of Sigstore."),
    ] = False,
) -> None:
    """Print the state of the chain, signed, to be kept elsewhere: it shows later that receipts are gone."""
    sources = _sources()
    with ReceiptStore(sources.state) as store:
        envelope = checkpoint_of(sources, store)
    if rekor:
        print_json(rekor_entry(envelope, sources))
    else:
        typer.echo(envelope.line.decode("ascii"))


@receipt.command()
def key(
    owner: Annotated[
        str, typer.Option("--owner", metavar="NAME", help="What to call this machine.")
    ] = "runner",
) -> None:
    """Print the public key of this machine's runner, for others: rye trust add FILE, or --key FILE."""
    document = TrustDocument.create(runner_key(_sources()), owner, kind=SignerKind.RUNNER)
    typer.echo(document.data.decode("utf-8"), nl=False)


def _sources(keys: list[Path] | None = None) -> ReceiptSources:
    app = open_app(None)
    return ReceiptSources(app.settings.state, app.trust.store, tuple(map(read_key, keys or ())))


def _verify(what: str, sources: ReceiptSources, store: ReceiptStore) -> Checked:
    if what == "-":
        return verify_file(sys.stdin.buffer, "standard input", sources)
    if not _is_file(what):
        return verify_run(what, sources, store)
    try:
        with Path(what).open("rb") as file:
            return verify_file(file, what, sources)
    except OSError as exc:
        found = f"expected receipts in {what}, found: {exc.strerror}"
        raise RyeError("read_failed", found, where=what) from exc


def _is_file(what: str) -> bool:
    return what == "-" or Path(what).exists()


def _report(found: Checked, items: Mapping[str, AtHand], *, as_json: bool) -> None:
    is_good = not found.problems
    if as_json:
        told = {"items": dict(items)} if items else {}
        print_json({"status": "success" if is_good else "error"} | found.as_dict() | told)
    else:
        _print_checked(found)
        for item_id, state in items.items():
            say(f"{item_id} is {state}" if state != "changed since" else f"{item_id} has changed since")
    if not is_good:
        raise typer.Exit(EXIT_FAILED)


def _print_checked(found: Checked) -> None:
    for problem in found.problems:
        typer.echo(f"{problem.code}: {visible(problem.message)}")
    if found.more_problems:
        typer.echo(f"and {found.more_problems} more")
    last = "" if found.last is None else f", the last one is number {found.last.number}: {found.last.digest}"
    count = "1 receipt" if found.receipts == 1 else f"{found.receipts} receipts"
    if found.problems:
        say(f"{count} read, and something is wrong{last}")
    else:
        say(f"{count} verified: nothing was changed{last}")
    if found.without_receipt:
        say(f"nothing vouches for {found.without_receipt} runs in the log that are older than its receipts")


def _print_receipt(shown: ShownReceipt) -> None:
    statement = shown.statement
    say(f"receipt     {shown.receipt.digest}")
    say(f"signed by   {shown.receipt.key_id}")
    say(f"signature   {'good' if shown.problem is None else shown.problem.message}")
    for subject in statement.get("subject", ()):
        say(f"about       {subject['digest']['sha256']} {subject['name']}")
    predicate = statement.get("predicate", {})
    for part in _PARTS:
        typer.echo(f"\n{part}")
        for name, value in _flat(predicate.get(part, {})):
            say(f"  {name:<30} {value}")


def _flat(facts: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """The values of a part by their names; what says nothing is left out."""
    for name, value in facts.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        elif isinstance(value, list) and any(isinstance(each, Mapping) for each in value):
            for number, each in enumerate(value):
                yield from _flat(each, f"{before}{name}.{number}.")
        elif value not in (None, [], ""):
            text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            yield f"{before}{name}", visible(text)


def _date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as exc:
        raise typer.BadParameter(f"expected a date such as 2026-11-18 for --day, found {text!r}") from exc


def _write(lines: Iterator[bytes]) -> None:
    for line in lines:
        sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
