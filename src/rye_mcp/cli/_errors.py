"""What a person, or a script, is told when something was refused.

Rules:

- For people, on standard error: the code, what was expected and found, then where, every issue with its line,
  and the hint. With `--json`, the same as one object on standard output, in place of the result.
- What comes out of files is shown with its control characters spelled out: no item, path or owner's name can
  move the cursor, hide a line, add one or change a title.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import typer

from rye_mcp.errors import ERRORS, RyeError
from rye_mcp.visible import visible, visible_lines

__all__ = ["JSON_WANTED", "print_json", "report", "visible", "visible_lines"]

JSON_WANTED: Final = "rye.json"
"""The key of a command's context that says whether `--json` was given."""


def print_json(value: Mapping[str, Any]) -> None:
    """Print one object on standard output."""
    typer.echo(json.dumps(value, indent=2))


def report(error: RyeError, *, as_json: bool = False) -> None:
    """Say what was refused, and what fixes it."""
    if as_json:
        print_json(error.as_dict())
        return
    issues = error.details.get("issues")
    said = error.details.get("said") or ()
    message = ERRORS[error.code].sentence if issues else error.message
    # Other programs' lines follow one by one, further in than anything of ours.
    message = message.removesuffix("\\n".join(said)).rstrip() if said else message
    code = typer.style(error.code, fg=typer.colors.RED, bold=True)
    typer.echo(f"rye: {code}: {visible(message)}", err=True)
    for line in said:
        typer.echo(f"    {visible(line)}", err=True)
    for line in _lines(issues or ()):
        typer.echo(f"  {visible(line)}", err=True)
    if error.where is not None:
        typer.echo(f"  where: {visible(error.where)}", err=True)
    if error.hint:
        typer.echo(f"  hint:  {visible(error.hint)}", err=True)


def _lines(issues: Sequence[Mapping[str, Any]]) -> list[str]:
    return [f"{_place(issue)}{issue['message']}" for issue in issues]


def _place(issue: Mapping[str, Any]) -> str:
    """Where in a file, or in what was given, an issue is."""
    if "line" in issue:
        column = f", column {issue['column']}" if "column" in issue else ""
        return f"line {issue['line']}{column}: "
    return f"{issue['path']}: " if issue.get("path") else ""
