"""What a person, or a script, is told when something was refused.

Rules:

- For people, on standard error: the code, what was expected and found, then where, every issue with its line,
  and the hint. With `--json`, the same as one object on standard output, in place of the result.
- What comes out of files is shown with its control characters spelled out: no item, path or owner's name can
  move the cursor, hide a line, add one or change a title.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import typer

from rye_mcp.errors import ERRORS, RyeError

__all__ = ["JSON_WANTED", "print_json", "report", "visible", "visible_lines"]

JSON_WANTED: Final = "rye.json"
"""The key of a command's context that says whether `--json` was given."""

_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u2800\u3164\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\U0001d173-\U0001d17a\U000e0000-\U000e01ef]"
)


def visible(text: str) -> str:
    """The text as one line, with escapes for all that a terminal would obey or not show."""
    return visible_lines(text).replace("\n", "\\n").replace("\t", "\\t")


def visible_lines(text: str) -> str:
    """The same for the content of a file: its lines and tabs stay."""
    return text if text.isprintable() else _INVISIBLE.sub(lambda found: _escape(found[0]), text)


def _escape(character: str) -> str:
    code = ord(character)
    if code > 0xFFFF:
        return f"\\U{code:08x}"
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}"


def print_json(value: Mapping[str, Any]) -> None:
    """Print one object on standard output."""
    typer.echo(json.dumps(value, indent=2))


def report(error: RyeError, *, as_json: bool = False) -> None:
    """Say what was refused, and what mends it."""
    if as_json:
        print_json(error.as_dict())
        return
    issues = error.details.get("issues")
    message = ERRORS[error.code].sentence if issues else error.message
    code = typer.style(error.code, fg=typer.colors.RED, bold=True)
    typer.echo(f"rye: {code}: {visible(message)}", err=True)
    for line in _lines(issues or ()):
        typer.echo(f"  {visible(line)}", err=True)
    if error.where is not None:
        typer.echo(f"  where: {visible(error.where)}", err=True)
    if error.hint:
        typer.echo(f"  hint:  {visible(error.hint)}", err=True)


def _lines(issues: Sequence[Mapping[str, Any]]) -> list[str]:
    return [
        f"line {issue['line']}: {issue['message']}" if "line" in issue else str(issue["message"])
        for issue in issues
    ]
