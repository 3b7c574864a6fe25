"""Parameters against a schema, beside a `jsonschema` validator that is kept ready by hand.

The floor checks neither that the schema is one, nor that it is the one from before, nor how long anything
takes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from lilux.schemas import ValidationResult, apply_defaults, validate_parameters
from lilux.schemas._compiled import _compile
from lilux.schemas._keywords import limited
from sections.case import Case

MAX_RATIO = 2.0

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "command": {"type": "string", "minLength": 1},
        "args": {"type": "array", "items": {"type": "string"}},
        "env": {"type": "object", "additionalProperties": {"type": "string"}},
        "cwd": {"type": "string"},
        "timeout": {"type": "integer", "minimum": 1, "default": 300},
    },
    "required": ["command"],
    "additionalProperties": False,
}
PARAMETERS = {"command": "echo", "args": ["a", "b", "c"], "cwd": "/tmp", "env": {"A": "1"}}  # noqa: S108
WRONG = {"args": ["a", 1], "timeout": "soon", "more": True}
WRONG_PLACES = {"/args/1", "/command", "/more", "/timeout"}


@contextmanager
def cases(directory: Path) -> Iterator[Sequence[Case]]:
    """The cases: a schema that is known, one that is not, values that fit, and values that do not."""
    ready = Draft202012Validator(SCHEMA)
    text = json.dumps(SCHEMA)

    def make_anew() -> bool:
        with limited():
            return bool(_compile(text).contents)

    def check_anew() -> bool:
        Draft202012Validator.check_schema(SCHEMA)
        return not list(Draft202012Validator(SCHEMA).iter_errors(PARAMETERS))

    yield [
        Case(
            "a known schema",
            lambda: validate_parameters(PARAMETERS, SCHEMA).valid,
            lambda: not list(ready.iter_errors(PARAMETERS)),
            is_right=lambda answer: answer is True,
            max_ratio=MAX_RATIO,
        ),
        Case(
            "four errors",
            lambda: validate_parameters(WRONG, SCHEMA),
            lambda: list(ready.iter_errors(WRONG)),
            is_right=_has_found_four,
        ),
        Case("a new schema", make_anew, check_anew, is_right=bool),
        Case(
            "defaults",
            lambda: apply_defaults(PARAMETERS, SCHEMA),
            is_right=lambda filled: filled == {**PARAMETERS, "timeout": 300},
        ),
    ]


def _has_found_four(answer: ValidationResult | list[Any]) -> bool:
    if isinstance(answer, ValidationResult):
        return {error.field for error in answer.errors} == WRONG_PLACES
    return len(answer) == len(WRONG_PLACES)
