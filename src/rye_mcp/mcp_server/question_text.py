"""The text of a question: all that a person needs, one fact a line.

Only a declared secret is hidden, and what may be a command never is. The mark of a question stands for
everything in it."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lilux._dataclasses import dataclass
from rye_mcp.configuration import Action
from rye_mcp.errors import RyeError
from rye_mcp.executor.environment.variables import MAX_NAME, looks_secret
from rye_mcp.items import SpaceName, printable
from rye_mcp.trust.control_variables import chooses_code
from rye_mcp.trust.scope import SignerKind, signer_in_words
from rye_mcp.verbs.context import options_of
from rye_mcp.verbs.execute import ExecuteRequest
from rye_mcp.verbs.sign import SignRequest
from rye_mcp.visible import visible

if TYPE_CHECKING:
    from rye_mcp.executor.lock.agreement import Preview, Way
    from rye_mcp.verbs.sign import SigningPlan

__all__ = ["Question", "about_run", "about_signing"]

MAX_CHARACTERS: Final = 20_000
"""How long a question may be; nobody would read a longer one to its end."""

_MAX_NAMES: Final = 20
"""How many names are listed of files that no answer is about."""

_MAX_COMMAND_CHARACTERS: Final = 400

_HIDDEN: Final = "(hidden)"

_WORD: Final = re.compile(
    r"(?:(?:Basic|Bearer|Token) )?(?:[A-Za-z0-9_][A-Za-z0-9._~%+:-]{0,4095}={0,2})?", re.IGNORECASE | re.ASCII
)
"""What a secret looks like: one word, perhaps behind the scheme of a header, that no shell and no program
takes for several words, an option, an assignment or a path."""

_NAMES_PROGRAM: Final = re.compile("ASKPASS|LESSKEY", re.IGNORECASE)
"""Variables that sound like secrets and say what is started."""

_PASSWORD: Final = re.compile(r"(?<=://)([^/\s:@]*):([^/\s@]+)@")

_PLAIN_PASSWORD: Final = re.compile(r"[A-Za-z0-9._~%+=,:-]{1,128}")
"""A password that no shell takes for anything else."""

_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[A-Za-z0-9._~%+=,:@/?&#\[\]-]*")
"""A text that is one address, and nothing that a shell obeys but what may stand in one."""

_GAP: Final = re.compile(r"\s{40,}")
"""Blanks that would move what follows out of sight."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question. `action` is what would be done to `item_id`, `command` does it in a terminal.

    It `is_inner` if it is about what a program calls.
    """

    action: Action
    item_id: str
    text: str
    mark: str
    command: str
    is_inner: bool = False

    @property
    def same(self) -> str:
        """The mark that all questions about the same call have in common."""
        return self.mark.partition(" ")[0]


def about_run(
    request: ExecuteRequest,
    found: Preview,
    project: Path | None,
    *,
    in_background: bool = False,
    called_by: tuple[str, ...] = (),
) -> Question:
    """Whether to run a tool; `called_by` are the programs that call it, the outermost first."""
    values = found.parameters.values
    shown = {name: _shown(found, name, value) for name, value in values.items()}
    signer = found.signer
    # The time that is left to a program is another one at each call.
    timeout = None if called_by else request.timeout
    facts = {
        "called by": " → ".join(called_by),
        "signed by": signer_in_words(SignerKind(signer["kind"]), signer["owner"], signer["fingerprint"]),
        "sha256": found.digest,
        "permissions": found.may,
        "MORE THAN AGREED": "; ".join(found.widened),
        "project": "none" if project is None else printable(project),
        "brings": ", ".join(_first(list(found.brought))),
        "time limit": "" if timeout is None else f"{timeout:g} s",
        "beside": "nobody waits for its end" if in_background else "",
    }
    parameters = [f"  {visible(name)} = {text}" for name, text in shown.items()]
    lines = [f"Run {found.item_id}?", *_lines(facts), *(["parameters:", *parameters] if shown else [])]
    whole = [dict(values), timeout, in_background, *([list(called_by)] if called_by else [])]
    command = _run_command(found, shown, project)
    return _question("execute", found.item_id, lines, [found.mark, whole, str(project)], command)


def about_signing(request: SignRequest, found: SigningPlan, project: Path | None) -> Question:
    """Whether to sign items, as the agent."""
    what = request.item_id if len(found.item_ids) == 1 else f"{len(found.item_ids)} items, {request.item_id}"
    facts = {
        "signed by": f"the agent's key {found.signer}",
        "in": printable(found.root),
        "not signed": ", ".join(_first(list(found.failing))),
    }
    files = [f"  {visible(path)}  sha256 {digest}" for path, digest in found.files.items()]
    lines = [f"Sign {what}, so that it can run?", *_lines(facts), "files, as they are now:", *files]
    options = options_of(request.item_type, SpaceName(request.source))
    command = f"rye sign {shlex.quote(request.item_id)}{options}{_of_project(project)}"
    return _question("sign", request.item_id, lines, [found.mark, str(project)], command)


def _question(action: Action, item_id: str, lines: list[str], whole: list[Any], command: str) -> Question:
    text = "\n".join(lines)
    if len(text) > MAX_CHARACTERS:
        what = (
            f"expected a question of at most {MAX_CHARACTERS} characters about {item_id}, found {len(text)}"
        )
        hint = f"ask a person to do it in a terminal: {command}"
        raise RyeError("confirmation_required", what, item_id=item_id, hint=hint)
    mark = hashlib.sha256(json.dumps([action, item_id, whole], sort_keys=True).encode()).hexdigest()
    return Question(action, item_id, text, mark, command)


def _lines(facts: Mapping[str, str]) -> Iterator[str]:
    for name, value in facts.items():
        if value:
            yield f"{name}: {visible(value)}"


class _MaybeCommand(Exception):  # noqa: N818 - nothing is wrong yet
    """A value with the name of a secret may be a command."""


def _shown(found: Preview, name: str, value: Any) -> str:
    """A value as one line, whole but for its secrets; RyeError if something else would be hidden."""
    try:
        masked = value
        if found.signer["kind"] != SignerKind.AGENT:
            masked = _masked(value, (name,), found, is_secret=_names_secret(name))
    except _MaybeCommand:
        what = f"expected a secret of one word in {visible(name)[:80]}, found what may be a command"
        way = "call a tool" if found.is_direct else f"mark {visible(name)[:80]} as writeOnly in the schema"
        hint = f"{way}, or ask a person to run it in a terminal"
        raise RyeError("confirmation_required", what, item_id=found.item_id, hint=hint) from None
    text = visible(json.dumps(masked, ensure_ascii=False))
    return _HIDDEN if masked == _HIDDEN else _GAP.sub(lambda gap: f"[{len(gap[0])} blanks]", text)


def _masked(value: Any, path: Way, found: Preview, *, is_secret: bool) -> Any:
    if path in found.parameters.secret_paths:
        return _marked(value)
    if is_secret and _may_be_command(value, path, found):
        raise _MaybeCommand
    if isinstance(value, Mapping):
        return {
            name: _masked(each, (*path, name), found, is_secret=_is_secret(str(name), within=is_secret))
            for name, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [
            _masked(each, (*path, number), found, is_secret=is_secret) for number, each in enumerate(value)
        ]
    if not isinstance(value, str):
        return _HIDDEN if is_secret and _is_declared(path, found) else value
    return _masked_text(value, is_secret=is_secret, is_code=found.is_direct or found.runs_given_code)


def _marked(value: Any) -> str:
    """Show a value that the schema marks; a variable that chooses code is shown whole."""
    level = [value]
    while level:
        names = [name for each in level if isinstance(each, Mapping) for name in each]
        if any(_chooses_code(str(name)) for name in names):
            raise _MaybeCommand
        level = [inner for each in level for inner in _inside(each)]
    return _HIDDEN


def _inside(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value.values())
    return list(value) if isinstance(value, list | tuple) else []


def _is_declared(path: Way, found: Preview) -> bool:
    """Whether the schema has the name of a value, or of the list that it is in."""
    while path and isinstance(path[-1], int):
        path = path[:-1]
    return path in found.declared


def _is_secret(name: str, *, within: bool) -> bool:
    return (within and not _chooses_code(name)) or _names_secret(name)


def _may_be_command(value: Any, path: Way, found: Preview) -> bool:
    """Whether a value under the name of a secret has several texts, or a name that the caller invented."""
    if not _is_declared(path, found):
        return isinstance(value, str | Mapping | list | tuple) or found.is_direct
    if isinstance(value, list | tuple) and len(value) > 1:
        return True
    if isinstance(value, Mapping | list | tuple):
        return _texts(value, path, found.parameters.secret_paths) > 1
    return found.is_direct


def _texts(value: Any, path: Way, marked: frozenset[Way]) -> int:
    """How many texts are in a value, but for those that the schema marks."""
    if path in marked:
        return 0
    if isinstance(value, Mapping):
        return sum(_texts(each, (*path, name), marked) for name, each in value.items())
    if isinstance(value, list | tuple):
        return sum(_texts(each, (*path, number), marked) for number, each in enumerate(value))
    return int(isinstance(value, str))


def _masked_text(text: str, *, is_secret: bool, is_code: bool) -> str:
    if is_secret:
        if not _WORD.fullmatch(text):
            raise _MaybeCommand
        return _HIDDEN
    passwords = [found[2] for found in _PASSWORD.finditer(text)]
    if not passwords:
        return text
    is_plain = len(passwords) == 1 and _PLAIN_PASSWORD.fullmatch(passwords[0])
    if is_code or not is_plain or not _ADDRESS.fullmatch(text):
        raise _MaybeCommand
    return _PASSWORD.sub(rf"\1:{_HIDDEN}@", text)


def _names_secret(name: str) -> bool:
    """Whether a name says that its value is a secret; one that nobody would read says nothing."""
    if len(name) > MAX_NAME:
        return False
    return looks_secret(name) and not _chooses_code(name)


def _chooses_code(name: str) -> bool:
    return chooses_code(name) or _NAMES_PROGRAM.search(name) is not None


def _first(names: list[str]) -> list[str]:
    more = len(names) - _MAX_NAMES
    return [*names[:_MAX_NAMES], *([f"and {more} more"] if more > 0 else [])]


def _run_command(found: Preview, shown: Mapping[str, str], project: Path | None) -> str:
    values = found.parameters.values
    given = json.dumps(dict(values), ensure_ascii=False, separators=(",", ":"))
    is_whole = not found.parameters.secret_paths and all(_HIDDEN not in text for text in shown.values())
    if not values:
        parameters = ""
    elif is_whole and len(given) <= _MAX_COMMAND_CHARACTERS:
        parameters = f" --params {shlex.quote(visible(given))}"
    else:
        parameters = " --params -"
    return f"rye run{_of_project(project)}{parameters} {shlex.quote(found.item_id)}"


def _of_project(project: Path | None) -> str:
    return "" if project is None else f" --project {shlex.quote(printable(project))}"
