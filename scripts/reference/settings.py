"""The environment variables that the program goes by, and the limits of items."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import rye_mcp
from rye_mcp.items import MAX_ID_SEGMENTS, MAX_ITEM_BYTES
from rye_mcp.runs._database import MAX_KEPT_ROWS
from rye_mcp.runs.outputs import MAX_AGE, MAX_RUN_BYTES, MAX_TOTAL_BYTES
from rye_mcp.verbs.offers import MAX_OFFERS
from scripts.reference.tables import code, explained, table

__all__ = ["PARTS", "variables"]

MEANINGS: Final[Mapping[str, str]] = {
    "RYE_PROJECT": "the directory of the project; comes before `RYE_PROJECT_PATH`",
    "RYE_PROJECT_PATH": "the same, under the name that every tool is told it by",
    "RYE_LOCKED": "[locked mode](../lockfiles.md): nothing runs without its lockfile. On with "
    "anything but nothing, "
    "`0`, `false` and `no`",
    "RYE_TRUSTED_KEYS": "whole key ids, with blanks or commas between them, whose proposals in "
    "a project count; for CI",
    "RYE_KEY_PASSPHRASE": "the passphrase of the private key",
    "RYE_NEW_KEY_PASSPHRASE": "the one to change to, for `rye keys passphrase` and `rye keys rotate`",
    "RYE_HTTP_TOKEN": "the token of [the server over HTTP](../http.md), unless `--token-file` names one",
    "RYE_HTTP_STATE_KEY": "the key that several workers over HTTP share, unless an option names its file",
    "RYE_LOG": "from which level on the server logs, unless an option says so",
    "RYE_WARM": "with `0`, no interpreter [waits for a call](../runtimes.md#warm-calls)",
    "RYE_SENTENCE_MODEL": "the directory of [a sentence model](../search.md#a-sentence-model), which search "
    "compares texts by",
    "RYE_TRACEBACK": "show the traceback of what went wrong inside of rye-mcp",
    "USER_SPACE": "the directory of your own `.ai`; by itself your home directory",
    "XDG_STATE_HOME": "where decisions, the log and outputs are, in `rye/`; by itself `~/.local/state`",
    "XDG_CACHE_HOME": "where the search index is, in `rye/`; by itself `~/.cache`",
}
"""What each variable does. A test fails where one is missing, or is read no more."""

_SUFFIX: Final = "_VARIABLE"
_IS_NAME: Final = re.compile(r"[A-Z][A-Z0-9_]+")
_OF_NO_USER: Final = frozenset({"PATH", "PYTHONPATH"})


def variables() -> Iterator[str]:
    """The values of every constant in the package that is called `…_VARIABLE`, each once."""
    seen: set[str] = set()
    for module in sorted(Path(rye_mcp.__file__).parent.rglob("*.py")):
        if ".ai" in module.parts:
            continue
        for node in ast.parse(module.read_text(encoding="utf-8")).body:
            match node:
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(value)))
                    | ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant(value=str(value)))
                ) if name.endswith(_SUFFIX) and _IS_NAME.fullmatch(value):
                    seen.add(value)
    yield from sorted(seen - _OF_NO_USER)


def _variables() -> str:
    order = list(MEANINGS)
    rows = sorted(explained(variables(), MEANINGS, what="variable"), key=lambda row: order.index(row[0]))
    return table(("variable", "meaning"), [(code(name), meaning) for name, meaning in rows])


def _limits() -> str:
    rows = [
        ("an item", f"{MAX_ITEM_BYTES >> 20} MiB, its id {MAX_ID_SEGMENTS} segments"),
        ("exposed tools", f"{MAX_OFFERS}"),
        (
            "output that is kept",
            f"{MAX_RUN_BYTES >> 20} MiB a run, {MAX_TOTAL_BYTES >> 20} MiB in all, {MAX_AGE.days} days",
        ),
        ("runs in the log", f"{MAX_KEPT_ROWS:,}"),
    ]
    return table(("what", "at most"), rows)


PARTS: Final[Mapping[str, Callable[[], str]]] = {"variables": _variables, "limits": _limits}
