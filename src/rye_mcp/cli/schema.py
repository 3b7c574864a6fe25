"""`rye schema`: the metadata of items as JSON Schemas, for editors that complete YAML.

    # yaml-language-server: $schema=../../schemas/tool.json

A schema is printed, or all of them are written to `.ai/schemas/` of the project. They help who writes; what
is signed is decided by the checks of `rye sign`.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from rye_mcp.cli._common import JsonOption, ProjectOption, open_app, print_json, visible
from rye_mcp.errors import RyeError
from rye_mcp.files import Tree
from rye_mcp.items import printable
from rye_mcp.metadata import SCHEMA_KINDS, metadata_schema

__all__ = ["schema"]

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
        typer.echo(visible(f"wrote {path}"))
    typer.echo("An editor completes .ai/tools/demo/tool.yaml with this line at its top:")
    typer.echo(f"  {_LINE}")


def _spelled(value: dict[str, Any]) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()
