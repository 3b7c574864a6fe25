"""`rye new`, `rye copy`, `rye show` and `rye schema`: one item, and the schemas of metadata."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, repeat
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rye_mcp.cli._command_groups import EXIT_FAILED
from rye_mcp.cli._options import (
    ItemArgument,
    JsonOption,
    LockedTypeOption,
    ProjectOption,
    SpaceOption,
    TypeOption,
    close_ids,
    open_app,
    person,
)
from rye_mcp.cli._parameters import parse_json_object
from rye_mcp.cli._printing import drawn, print_json, print_table, print_warnings, report, say
from rye_mcp.cli._signers import signers_in_words
from rye_mcp.errors import RyeError
from rye_mcp.files import Tree
from rye_mcp.items import ItemType, SpaceName, printable
from rye_mcp.metadata import SCHEMA_KINDS, metadata_schema
from rye_mcp.secret_store import command_to_set
from rye_mcp.trust.scope import Signer, SignerKind
from rye_mcp.verbs.load import LoadRequest, LoadResult, load
from rye_mcp.verbs.new import LANGUAGES, NewRequest, NewResult, new
from rye_mcp.visible import visible, visible_lines

if TYPE_CHECKING:
    from rye_mcp.app import App
    from rye_mcp.verbs.context import Context
    from rye_mcp.verbs.explain import Explained, ExplainRequest, Explanation
    from rye_mcp.verbs.sign import SignResult

__all__ = ["copy", "explain", "new_item", "schema", "show"]


def new_item(
    item_id: Annotated[str, typer.Argument(metavar="ID", help="The id of the new item, such as demo/hello.")],
    language: Annotated[
        str | None,
        typer.Option(
            "--lang", metavar="LANGUAGE", help=f"What a tool is written in: {', '.join(LANGUAGES)}."
        ),
    ] = None,
    item_type: TypeOption = ItemType.TOOL,
    space: Annotated[
        SpaceName, typer.Option("--space", metavar="SPACE", help="Where it goes: project or user.")
    ] = SpaceName.PROJECT,
    signed: Annotated[bool, typer.Option("--sign", help="Sign it at once, with your key.")] = False,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write an item that works, as a start."""
    app = open_app(project)
    context = person(app, as_json=as_json)
    if signed:
        app.keys.show(SignerKind.PERSON)  # without a key nothing is written
    made = new(NewRequest(item_id, item_type, language, space, app.settings.environment), context)
    signature = _sign(made, context) if signed else None
    following = made.commands[signature is not None :]
    if item_type is ItemType.TOOL:
        following = (*following, f"rye test {made.file.item_id}")[:2]
    if as_json:
        answer = made.as_dict() | {"next": list(following)}
        print_json(answer | {"signed": None if signature is None else signature.as_dict()})
        return
    say(f"wrote {printable(made.file.text_path)}")
    if signature is not None:
        signer = signature.item.signer
        say(f"signed {made.file.item_id} by {signer.owner} ({signer.fingerprint})")
    print_warnings((*made.warnings, *(signature.warnings if signature is not None else ())))
    typer.echo("Now:")
    for command in following:
        typer.echo(f"  {visible(command)}")


def _sign(made: NewResult, context: Context) -> SignResult:
    from rye_mcp.verbs.sign import SignRequest, SignResult, sign

    file = made.file  # its very bytes: what stands there by now may be somebody else's
    result = sign(SignRequest(file.item_id, file.item_type, file.space.name, exactly=file), context)
    assert isinstance(result, SignResult)  # noqa: S101 - for the type checker: an id is no pattern
    return result


def copy(
    item: ItemArgument,
    to: Annotated[
        SpaceName, typer.Option("--to", metavar="SPACE", help="Where the copy goes: project or user.")
    ],
    source: Annotated[
        SpaceName | None,
        typer.Option("--from", metavar="SPACE", help="Where the item is; by default as it would be found."),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an item that is there already.")
    ] = False,
    item_type: TypeOption = ItemType.TOOL,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy an item to another space; its signature goes with it."""
    request = LoadRequest(item, item_type, source=source, destination=to, overwrite=overwrite)
    result = load(request, person(open_app(project)))
    if as_json:
        print_json(result.as_dict())
        return
    if result.copied_to is not None:
        say(f"copied {result.file.item_id} to {printable(result.copied_to)}")
    print_warnings(result.warnings)


def show(
    item: ItemArgument,
    content: Annotated[bool, typer.Option("--content", help="Print the file, and nothing else.")] = False,
    file: Annotated[
        str | None, typer.Option("--file", metavar="PATH", help="A file of a skill, instead of its SKILL.md.")
    ] = None,
    space: SpaceOption = None,
    item_type: TypeOption = ItemType.TOOL,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show an item, who signed it, and what it says."""
    context = person(open_app(project))
    result = load(LoadRequest(item, item_type, source=space, file=file), context)
    if as_json:
        print_json(result.as_dict())
        return
    if result.integrity.refusal is not None:
        report(result.integrity.refusal)
    if not content:
        for label, text in _facts(result, signers_in_words(context)).items():
            say(f"{label:<12}{text}")
        typer.echo()
    if sys.stdout.isatty():
        typer.echo(visible_lines(result.content), nl=not result.content.endswith("\n"))
    else:
        typer.echo(result.file.text if result.part is None else result.part.content, nl=False)


def _facts(result: LoadResult, in_words: Callable[[Signer | None], str]) -> dict[str, str]:
    file, integrity, metadata = result.file, result.integrity, result.metadata
    facts = {
        "item": file.item_id,
        "type": file.item_type.value,
        "space": file.space.name.value,
        "path": printable(file.text_path),
        "state": integrity.state,
    }
    if integrity.signer is not None:
        facts["signer"] = in_words(integrity.signer)
        facts["hash"] = integrity.digest or ""
    if file.skill is not None:
        facts["files"] = ", ".join(f"{path} ({each.size})" for path, each in sorted(file.skill.files.items()))
    if metadata is not None:
        facts |= {"version": metadata.version, "about": metadata.description.partition("\n")[0]}
        if metadata.executor_id is not None:
            facts["executor"] = metadata.executor_id
    for place in result.shadowed:
        facts["shadows"] = f"{place.space.name}: {printable(place.path)}"
    return facts


_DIRECTORY = "schemas"
_DIRECTORY_MODE = 0o755
_FILE_MODE = 0o644
_LINE = "# yaml-language-server: $schema=../../schemas/tool.json"


def schema(
    kind: Annotated[
        str | None, typer.Argument(metavar="KIND", help=f"{', '.join(SCHEMA_KINDS)}; by default tool.")
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="Write all of them to .ai/schemas/.")] = False,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the JSON Schema of what an item says about itself, or write all of them."""
    if kind is not None and kind not in SCHEMA_KINDS:
        raise typer.BadParameter(f"expected one of {', '.join(SCHEMA_KINDS)}, found {kind!a}")
    if not write:
        print_json(metadata_schema(kind or SCHEMA_KINDS[0]))
        return
    if kind is not None:
        raise typer.BadParameter("expected no KIND with --write, which writes all of them")
    space = open_app(project).spaces.require_project()
    if not space.root.is_dir():
        what = f"expected a project, found no {printable(space.root)}"
        raise RyeError("no_project", what, where=printable(space.root))
    paths = []
    for each in SCHEMA_KINDS:
        relative = f"{_DIRECTORY}/{each}.json"
        Tree(space.root).write(
            relative, _spelled(metadata_schema(each)), mode=_FILE_MODE, create_mode=_DIRECTORY_MODE
        )
        paths.append(printable(space.root / relative))
    if as_json:
        print_json({"status": "success", "written": paths, "line": _LINE})
        return
    for path in paths:
        say(f"wrote {path}")
    typer.echo("An editor completes .ai/tools/demo/tool.yaml with this line at its top:")
    typer.echo(f"  {_LINE}")


def _spelled(value: dict[str, Any]) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()


# --- rye explain ---
# `rye explain`: what would run a tool: its chain with spaces, signers and lock, as text, JSON or a picture.
#
# Nothing runs. The exit code is 1 if a call would be refused. The same explanation gives the same picture.
# Of a skill, it tells the signer, the files, what to look at, the tools of its scripts, and the copies.


def explain(
    item: ItemArgument,
    params: Annotated[
        str | None, typer.Option("--params", metavar="JSON", help="Parameters to explain a call with.")
    ] = None,
    svg: Annotated[bool, typer.Option("--svg", help="Print the chain as an SVG picture.")] = False,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="Print the chain as a Mermaid chart.")] = False,
    locked: Annotated[
        bool, typer.Option("--locked", help="Explain as if only locked tools may run.")
    ] = False,
    item_type: LockedTypeOption = ItemType.TOOL,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what would run a tool, and what prevents it.

    Of a skill: what it holds, and who signed it.
    """
    import anyio

    from rye_mcp.verbs.explain import ExplainRequest

    if svg + mermaid + as_json > 1:
        raise typer.BadParameter("expected one of --json, --svg and --mermaid, found several")
    app = open_app(project, locked=locked)
    if item_type is not ItemType.TOOL:
        if item_type is not ItemType.SKILL or svg or mermaid or params is not None:
            raise typer.BadParameter("expected a tool, or a skill as text or with --json")
        _explain_skill(item, person(app, as_json=as_json), as_json=as_json)
        return
    given = None if params is None else parse_json_object(params, "--params")
    context = person(app, as_json=as_json)
    explanation = anyio.run(_explain, ExplainRequest(item, given), app, context)
    if as_json:
        print_json(explanation.as_dict())
    elif svg or mermaid:
        from rye_mcp.ui.chain_picture import as_mermaid, as_svg

        typer.echo(as_svg(explanation) if svg else as_mermaid(explanation), nl=False)
    else:
        _print(explanation, signers_in_words(context))
    if explanation.refusal is not None:
        raise typer.Exit(EXIT_FAILED)


def _explain_skill(name: str, context: Context, *, as_json: bool) -> None:
    from rye_mcp.cli.skill import print_explained
    from rye_mcp.verbs.explain_skill import explain_skill

    with close_ids(context.spaces):
        found = explain_skill(name, context)
    if as_json:
        print_json(found.as_dict())
    else:
        print_explained(found, signers_in_words(context))
    sys.stdout.flush()
    if found.integrity.refusal is not None:
        if not as_json:
            report(found.integrity.refusal)
        raise typer.Exit(EXIT_FAILED)


async def _explain(request: ExplainRequest, app: App, context: Context) -> Explanation:
    from rye_mcp.verbs.explain import explain as explain_item

    async with app.closing():
        with close_ids(context.spaces):
            return await explain_item(request, context)


def _print(explanation: Explanation, in_words: Callable[[Signer | None], str]) -> None:
    rows = [_row(number, explained, in_words) for number, explained in enumerate(explanation.chain)]
    red = (number for number, each in enumerate(explanation.chain) if each.integrity.refusal is not None)
    print_table(("ELEMENT", "SPACE", "VERSION", "STATE", "SIGNER"), rows, red=red)
    for each in explanation.chain:
        for place in each.element.shadowed:
            hidden = f"{each.element.item_id} hides one of the {place.space.name} space: {place.path}"
            typer.echo(visible(hidden))
    _print_facts(_facts_of(explanation))
    sys.stdout.flush()
    if explanation.refusal is not None:
        report(explanation.refusal)


def _facts_of(explanation: Explanation) -> Iterator[tuple[str, str]]:
    """Each line below the chain, with its label."""
    yield "declares", explanation.declares or ""
    calls = drawn(explanation.calls, lambda each: each.calls, lambda each: each.in_words)
    yield from zip(chain(["may call"], repeat("")), calls, strict=False)
    yield "secrets", ", ".join(_states(explanation.secrets))
    if explanation.call is not None:
        yield from explanation.call.facts().items()
        yield from (("notice", f"{each.code}: {each.message}") for each in explanation.call.notices)
    if explanation.needs:
        yield "needs", ", ".join(explanation.needs)
        yield "", f"with values: rye explain {explanation.item_id} --params JSON"


def _print_facts(facts: Iterable[tuple[str, str]]) -> None:
    for label, text in facts:
        if text:
            say(f"{label:<13}{text}")


def _states(secrets: Mapping[str, bool]) -> Iterator[str]:
    """Each secret, and how to set it if it is not."""
    for name, is_set in secrets.items():
        yield f"{name} ({'set' if is_set else f'not set: {command_to_set([name])}'})"


def _row(number: int, explained: Explained, in_words: Callable[[Signer | None], str]) -> tuple[str, ...]:
    element, integrity = explained.element, explained.integrity
    indent = "" if number == 0 else "  " * (number - 1) + "└ "
    signer = in_words(integrity.signer)
    return indent + element.item_id, element.space.value, element.version, integrity.state, signer
