"""The sections of `benchmarks/lilux.py`, in the order in which they run.

A section is a context manager over its cases: it prepares files or servers, in a directory of its own, and
ends what it has started. To add one, write a module with such a function and name it here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from sections import canonical_json, environment_resolution, http, lockfile, parameter_validation, signing
from sections.case import Case

__all__ = ["SECTIONS", "Section"]

Section = Callable[[Path], AbstractContextManager[Sequence[Case]]]

SECTIONS: Mapping[str, Section] = {
    "signing": signing.cases,
    "canonical JSON": canonical_json.cases,
    "lockfile": lockfile.cases,
    "environment resolution": environment_resolution.cases,
    "parameter validation": parameter_validation.cases,
    "HTTP": http.cases,
}
