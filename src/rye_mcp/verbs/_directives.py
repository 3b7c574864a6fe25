"""The instructions of a directive, with the caller's inputs put into it.

Rules:

- `{input:name}` is the input and has to be there; `{input:name?}` may be missing; `{input:name|default}` has
  something to stand there instead. A default is plain text up to the next `}`.
- Inputs are put in once, in one pass over the verified text. What they hold is never looked at again.
- `inputs` of the front matter is a JSON Schema, whose defaults apply, or a list of the names that have to be
  there. All that is wrong is reported at once; values that the schema marks `writeOnly` stand in no error.
- Text goes in as it is, everything else as JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from lilux.primitives.errors import ConfigurationError
from rye_mcp.errors import RyeError
from rye_mcp.items import ItemFile
from rye_mcp.metadata import ItemMetadata, body_of

__all__ = ["check_inputs", "instructions"]

MAX_CHARACTERS: Final = 4 << 20
"""How long instructions may be with their inputs put in; no agent reads more."""

_PLACEHOLDER: Final = re.compile(r"\{input:([A-Za-z_][A-Za-z0-9_.-]*)(?:(\?)|\|([^{}]*))?\}")


def check_inputs(file: ItemFile, metadata: ItemMetadata, given: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs of a directive with its defaults; RyeError `invalid_parameters` with every reason."""
    schema = _schema(metadata.inputs)
    try:
        from lilux.schemas import apply_defaults, validate_parameters

        values: dict[str, Any] = apply_defaults(dict(given), schema)
        errors = validate_parameters(values, schema).errors
    except ConfigurationError as exc:
        what = f"expected a JSON Schema as inputs of {file.item_id}: {exc.message}"
        raise RyeError("invalid_item", what, where=file.path, item_id=file.item_id) from exc
    issues = {error.field: error.error for error in errors}
    for name in _required(file):
        if name not in values:
            issues.setdefault(f"/{name}", "expected a value, found nothing")
    if issues:
        raise _refused(file, issues)
    return values


def instructions(file: ItemFile, inputs: Mapping[str, Any]) -> str:
    """The body of a directive, filled; RyeError `invalid_parameters` when that would be too long."""
    texts = {name: _text(value) for name, value in inputs.items()}
    room = MAX_CHARACTERS

    def value(found: re.Match[str]) -> str:
        nonlocal room
        name, _, default = found.groups()
        text = texts.get(name, default or "")
        room -= len(text)
        if room < 0:
            problem = f"expected at most {MAX_CHARACTERS} characters in all their places, found more"
            raise _refused(file, {f"/{name}": problem})
        return text

    return _PLACEHOLDER.sub(value, body_of(file))


def _schema(inputs: Mapping[str, Any] | Sequence[str] | None) -> Mapping[str, Any]:
    if isinstance(inputs, Mapping):
        return inputs
    return {"type": "object", "required": list(inputs or ())}


def _required(file: ItemFile) -> Iterator[str]:
    """The inputs that the text cannot do without."""
    for found in _PLACEHOLDER.finditer(body_of(file)):
        name, optional, default = found.groups()
        if optional is None and default is None:
            yield name


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _refused(file: ItemFile, issues: Mapping[str, str]) -> RyeError:
    listed = "; ".join(f"{field or '/'}: {message}" for field, message in issues.items())
    return RyeError(
        "invalid_parameters",
        f"expected the inputs that {file.item_id} declares, found: {listed}",
        where=file.path,
        hint=f"rye show {file.item_id} --type directive",
        item_id=file.item_id,
        issues=[{"path": path, "message": message} for path, message in issues.items()],
    )
