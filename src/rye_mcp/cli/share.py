"""`rye push`, `rye pull` and `rye sync`: signed items to and from registries, pinned by digest."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import anyio
import typer

from rye_mcp.cli._options import AnyTypeOption, JsonOption, ProjectOption, open_app, person
from rye_mcp.cli._printing import print_json, say
from rye_mcp.items import SpaceName
from rye_mcp.sharing.fetching import Network
from rye_mcp.sharing.reference import Reference, parse_reference
from rye_mcp.verbs.pull import Pulled, PullRequest, SyncRequest, pull, sync
from rye_mcp.verbs.push import PushRequest, push

if TYPE_CHECKING:
    from rye_mcp.verbs.context import Context

__all__ = ["pull_items", "push_items", "sync_items"]

Answer = TypeVar("Answer")

InsecureOption = Annotated[
    bool,
    typer.Option(
        "--insecure",
        help="Speak to the registry without TLS. A registry on this machine needs no such option.",
    ),
]
InsecureRegistriesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--insecure",
        metavar="REGISTRY",
        help="Speak to this registry (host and port) without TLS; can be given more than once.",
    ),
]
OverwriteOption = Annotated[
    bool, typer.Option("--overwrite", help="Replace files that were edited here, or came from elsewhere.")
]
NewSignerOption = Annotated[
    list[str] | None,
    typer.Option(
        "--new-signer",
        metavar="KEY_ID",
        help="Accept this key where another one signed before; can be given more than once.",
    ),
]
ToOption = Annotated[
    SpaceName, typer.Option("--to", metavar="SPACE", help="Where the items go: project or user.")
]


def push_items(
    reference: Annotated[
        str,
        typer.Argument(
            metavar="REF", help="Registry, repository and tag: registry.example.com/team/tools:1."
        ),
    ],
    patterns: Annotated[
        list[str], typer.Argument(metavar="ID|GLOB...", help="Ids, or patterns of ids such as 'demo/*'.")
    ],
    item_type: AnyTypeOption = None,
    source: Annotated[
        SpaceName, typer.Option("--from", metavar="SPACE", help="Where the items are: project or user.")
    ] = SpaceName.PROJECT,
    insecure: InsecureOption = False,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put signed items into a registry, with all that vouches for them."""
    request = PushRequest(reference, patterns, item_type, source)
    pushed = _run(
        project, _registry(reference, insecure), lambda context, network: push(request, context, network.put)
    )
    if as_json:
        print_json(pushed.as_dict())
        return
    say(f"pushed {len(pushed.items)} items, {len(pushed.files)} files")
    say(str(pushed.reference.pinned(pushed.digest)))


def pull_items(
    reference: Annotated[
        str,
        typer.Argument(
            metavar="REF", help="An artifact with its tag or digest, or git+https://…@COMMIT[#DIRECTORY]."
        ),
    ],
    to: ToOption = SpaceName.PROJECT,
    new_signer: NewSignerOption = None,
    overwrite: OverwriteOption = False,
    insecure: InsecureOption = False,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Bring in signed items, verified before they are written, and pin them."""
    request = PullRequest(reference, to, new_signer or (), overwrite)
    pulled = _run(
        project,
        _registry(reference, insecure),
        lambda context, network: pull(request, context, network.fetch),
    )
    if as_json:
        print_json({"status": "success", **pulled.as_dict()})
        return
    _print(pulled)


def sync_items(
    frozen: Annotated[
        bool, typer.Option("--frozen", help="Change nothing, and ask nobody: what differs is an error.")
    ] = False,
    to: ToOption = SpaceName.PROJECT,
    new_signer: NewSignerOption = None,
    overwrite: OverwriteOption = False,
    insecure: InsecureRegistriesOption = None,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Bring back exactly what sources.toml pins."""
    request = SyncRequest(to, frozen, new_signer or (), overwrite)
    synced = _run(project, insecure or (), lambda context, network: sync(request, context, network.fetch))
    if as_json:
        print_json(synced.as_dict())
        return
    for each in synced.sources:
        _print(each)
    if not synced.sources:
        say("nothing is pinned here: rye pull REF")


def _registry(reference: str, insecure: bool) -> Collection[str]:
    """The registry that is spoken to without TLS, if any is: the one that was named."""
    named = parse_reference(reference)
    return {named.host} if insecure and isinstance(named, Reference) else ()


def _run(
    project: Path | None, insecure: Collection[str], do: Callable[[Context, Network], Awaitable[Answer]]
) -> Answer:
    app = open_app(project)
    network = Network(app.settings.environment, app.trust.directories.why_not, insecure)
    return anyio.run(do, person(app), network)


def _print(pulled: Pulled) -> None:
    if not pulled.written and not pulled.removed:
        say(f"unchanged {pulled.reference}, {pulled.items} items")
        return
    say(f"pulled {pulled.reference}, {pulled.items} items: {pulled.digest}")
    for path in pulled.written:
        say(f"  wrote   {path}")
    for path in pulled.removed:
        say(f"  removed {path}")
    for key_id in pulled.undecided:
        say(
            f"rye: note: you have not decided about the key {key_id}, which says that it belongs to", err=True
        )
        say(f"  {pulled.signers[key_id]}; what it signed is refused until then: rye trust review", err=True)
