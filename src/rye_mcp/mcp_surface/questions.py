"""What a person is asked before something is signed or run: what they see, and what stands for all of it.

Rules:

- Everything that a person needs to decide is in the text: what, whose signature, which bytes, which
  parameters. Each fact is one line, in which nothing hides: no value can look like another fact.
- Values of secrets are not shown: what the schema marks `writeOnly`, what has the name of one, an address
  with a password. Long values are shortened in the middle, and say so.
- The mark of a question stands for everything in it, also for what is hidden or shortened: other parameters,
  another file, another project is another question.
- The command is what a person types to do the same without being asked; no hidden value is in it.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rye_mcp.executor.variable_names import holds_password, looks_secret
from rye_mcp.items import SpaceName, printable
from rye_mcp.verbs._context import options_of
from rye_mcp.verbs.policy import Action
from rye_mcp.visible import visible

if TYPE_CHECKING:
    from rye_mcp.executor.agreement import Preview
    from rye_mcp.verbs.execute import ExecuteRequest
    from rye_mcp.verbs.sign import SigningPlan, SignRequest

__all__ = ["Question", "about_run", "about_signing"]

MAX_SHOWN: Final = 20
"""How many parameters, or files, are shown."""

MAX_CHARACTERS: Final = 600
"""How much of a value is shown."""

_HEAD: Final = 400
_MAX_COMMAND_CHARACTERS: Final = 400
_HIDDEN: Final = "(hidden)"


@dataclass(frozen=True, slots=True)
class Question:
    """What to ask. `action` is what would be done to `item_id`, `command` does it in a terminal."""

    action: Action
    item_id: str
    text: str
    mark: str
    command: str


def about_run(
    request: ExecuteRequest, found: Preview, project: Path | None, *, in_background: bool = False
) -> Question:
    """Whether to run a tool."""
    values = found.parameters.values
    shown = {name: _shown(name, value, found.parameters.secret) for name, value in values.items()}
    signer = found.signer
    facts = {
        "signed by": f"{signer['owner']} ({signer['kind']}) {signer['fingerprint'] or ''}",
        "sha256": found.digest,
        "project": "none" if project is None else printable(project),
        "brings": ", ".join(_first(list(found.brought))),
        "time limit": "" if request.timeout is None else f"{request.timeout:g} s",
        "beside": "nobody waits for its end" if in_background else "",
    }
    parameters = [f"  {visible(name)} = {text}" for name, text in _first_of(shown)]
    lines = [f"Run {found.item_id}?", *_lines(facts), *(["parameters:", *parameters] if shown else [])]
    whole = [dict(values), request.timeout, in_background]
    command = _run_command(found.item_id, values, shown, project)
    return _question("execute", found.item_id, lines, [found.mark, whole, str(project)], command)


def about_signing(request: SignRequest, found: SigningPlan, project: Path | None) -> Question:
    """Whether to sign items, as the agent."""
    what = request.item_id if len(found.item_ids) == 1 else f"{len(found.item_ids)} items, {request.item_id}"
    facts = {
        "signed by": f"the agent's key {found.signer}",
        "in": printable(found.root),
        "not signed": ", ".join(_first(list(found.failing))),
    }
    files = [f"  {visible(path)}  sha256 {digest}" for path, digest in _first_of(dict(found.files))]
    lines = [f"Sign {what}, so that it can run?", *_lines(facts), "files, as they are now:", *files]
    options = options_of(request.item_type, SpaceName(request.source))
    command = f"rye sign {shlex.quote(request.item_id)}{options}{_of_project(project)}"
    return _question("sign", request.item_id, lines, [found.mark, str(project)], command)


def _question(action: Action, item_id: str, lines: list[str], whole: list[Any], command: str) -> Question:
    text = json.dumps([action, item_id, whole], sort_keys=True)
    return Question(action, item_id, "\n".join(lines), hashlib.sha256(text.encode()).hexdigest(), command)


def _lines(facts: Mapping[str, str]) -> Iterator[str]:
    for name, value in facts.items():
        if value:
            yield f"{name}: {visible(value)}"


# --- parameters ---


def _shown(name: str, value: Any, secret: frozenset[str]) -> str:
    """A value as one line; `(hidden)` for what is secret."""
    if name in secret or looks_secret(name):
        return _HIDDEN
    text = visible(json.dumps(_without_secrets(value), ensure_ascii=False))
    if len(text) <= MAX_CHARACTERS:
        return text
    tail = MAX_CHARACTERS - _HEAD
    return f"{text[:_HEAD]} … {len(text) - MAX_CHARACTERS} characters are not shown … {text[-tail:]}"


def _without_secrets(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            name: _HIDDEN if looks_secret(str(name)) else _without_secrets(each)
            for name, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [_without_secrets(each) for each in value]
    return _HIDDEN if isinstance(value, str) and holds_password(value) else value


def _first(names: list[str]) -> list[str]:
    more = len(names) - MAX_SHOWN
    return [*names[:MAX_SHOWN], *([f"and {more} more"] if more > 0 else [])]


def _first_of(named: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    yield from list(named.items())[:MAX_SHOWN]
    if len(named) > MAX_SHOWN:
        yield "…", f"and {len(named) - MAX_SHOWN} more, which are not shown"


# --- commands ---


def _run_command(
    item_id: str, values: Mapping[str, Any], shown: Mapping[str, str], project: Path | None
) -> str:
    given = json.dumps(dict(values), ensure_ascii=False, separators=(",", ":"))
    is_whole = all(_HIDDEN not in text for text in shown.values())
    if not values:
        parameters = ""
    elif is_whole and len(given) <= _MAX_COMMAND_CHARACTERS:
        parameters = f" --params {shlex.quote(visible(given))}"
    else:
        parameters = " --params -"
    return f"rye run{_of_project(project)}{parameters} {shlex.quote(item_id)}"


def _of_project(project: Path | None) -> str:
    return "" if project is None else f" --project {shlex.quote(printable(project))}"
