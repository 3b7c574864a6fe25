"""The fields of metadata: types out of the checks, names out of the readers, and what they mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from rye_mcp.metadata import PYTHON_NAMES
from rye_mcp.metadata._fields import DEFAULT_VERSION, FIELDS, OF_TOOLS, TOOL_TYPES
from rye_mcp.metadata._forms import MAX_TEXT
from rye_mcp.metadata._reading import EXAMPLES_FORM
from scripts.reference.tables import cell, code, explained, table

__all__ = ["MEANINGS", "PARTS"]

MEANINGS: Final[Mapping[str, str]] = {
    "name": "its name; by default the last segment of the id",
    "version": f"such as `1.2.0`; by default `{DEFAULT_VERSION}`. A lockfile is for one version",
    "description": "what it does, for people and agents that search; in Python by default the first "
    "paragraph of the docstring",
    "category": "a group, such as `media/video`; searched and filtered by",
    "tool_type": "`primitive`, `runtime` and `engine` have a special meaning, all others are tools",
    "executor_id": "the item that runs this one. A file without it is a "
    "library: it can be loaded, but not run",
    "config": "what its executor is given: `timeout` (seconds), `max_output` (bytes), `cwd`; "
    "for an HTTP tool the request",
    "config_schema": "JSON Schema of the parameters: they are checked before a run, and defaults "
    "are filled in. `writeOnly: true` "
    "marks a value that must not appear in a log or an error",
    "output_schema": "JSON Schema of the result, for callers",
    "env_config": "`interpreter` (where to look for one, and the variable for its path) and "
    "`env` (variables)",
    "anchor": "when several files are one tool (`markers_any`), and which variables its "
    "directory is added to (`env_paths`)",
    "verify_deps": "which files next to a tool have to be signed: `extensions`, `recursive`, `exclude_dirs`",
    "child_constraints": "for a runtime: `min_version` and `max_version` of the tools that it runs",
    "inputs": "names, or a JSON Schema: in a directive what it takes, in a chain what has to "
    "fit its executor's `outputs`",
    "outputs": "names, or a JSON Schema, of what it passes on in a chain",
    "permissions": "what it may do: `project`, `net`, `env`, `secrets`, `uses`, `read`, `write`, `calls`, "
    "`require`; or the word `unconfined`. `{}` is not the same as nothing",
    "needs": "for a runtime: `read`, paths that whatever it runs has to read",
    "warm": "for a runtime: `prepare` (`python` or `node`), `keep`, `seconds` and `preload`: "
    "[interpreters wait for calls](../runtimes.md#warm-calls)",
    "limits": "`calls`: how many calls of other tools it may make, 1 to 10,000; by default 50",
    "skill": "`name`, `script`: the [skill](../skills.md#a-script-of-a-skill-as-a-tool) whose script it runs",
    "workspace": "what it needs to [run on another machine](../scale-out.md): `none`, nothing of the "
    "project; `tree`, the files that git tracks; `shared:NAME`, a directory of that machine",
    "resources": "`cpu`, `memory` (`4GiB`), `gpu`: what an engine has to offer; nothing limits the run to it",
    "placement": "`labels` that an engine has to have; `required: true`: on an engine or not at all",
    "idempotent": "`true`: a call of which nobody knows what came is made once more",
    "runs_given_code": "`true` for a tool that runs code that its caller gives it: no run of it is `sealed`",
    "annotations": "`title`, `readOnlyHint`, `destructiveHint`, `idempotentHint`, "
    "`openWorldHint`, as MCP has them",
    "tags": "words by which it is found",
    "examples": "example calls with their results, which `rye test` runs: `parameters`, `expect`, `files`",
}
"""What each field is for. A test fails where one is missing, or is no field any more."""


_EXAMPLES: Final = "examples"
_FIELDS: Final = (*FIELDS, _EXAMPLES)


def _type(field: str) -> str:
    """What the check of a field says that it expects, of a value that none takes."""
    form = EXAMPLES_FORM if field == _EXAMPLES else FIELDS[field].form
    ((_, problem), *_) = form.check(object())
    return problem.partition("expected ")[2].partition(", found")[0]


def _fields() -> str:
    spelled = {field: name for name, field in PYTHON_NAMES.items()}
    rows = [
        (code(name), code(spelled.get(name, "")), cell(_type(name)) + _only(name), cell(meaning))
        for name, meaning in explained(_FIELDS, MEANINGS, what="field")
    ]
    note = (
        f"Text has at most {MAX_TEXT} characters. `null` is the same as nothing, but for "
        "`executor_id` of a primitive."
    )
    return table(("field", "in Python", "type", "meaning"), rows) + f"\n\n{note}"


def _only(field: str) -> str:
    return "; tools only" if field in {*OF_TOOLS, _EXAMPLES} else ""


def _tool_types() -> str:
    return ", ".join(f"`{each}`" for each in TOOL_TYPES)


PARTS: Final[Mapping[str, Callable[[], str]]] = {"fields": _fields, "tool-types": _tool_types}
