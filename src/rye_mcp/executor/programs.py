"""Whether the program of a tool is on this machine, and what to do where it is not.

Rules:

- A program is looked for as the supervisor does it: one with a `/` where it says, any other in the absolute
  directories of the PATH that the tool gets. What is there counts as found; whether it can be started, the
  start tells.
- The hint says what to install. To fix a path that leads nowhere, look at the chain.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from lilux.primitives.subprocess import ProcessSpec

__all__ = ["Missing", "how_to_install", "install_hint", "why_not_there"]

_DEFAULT_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_SHOWN_CHARACTERS: Final = 1024

_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "node": "Node.js (https://nodejs.org)",
        "uv": "uv (https://docs.astral.sh/uv/, or: pipx install uv)",
        "python3": "Python 3 (https://www.python.org)",
        "ruby": "Ruby (https://www.ruby-lang.org)",
        "perl": "Perl (https://www.perl.org)",
    }
)
"""What to install for a program, where its name alone does not say it."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A program that is not there: where it was looked for, and what to do; None where nothing is known."""

    sentence: str
    hint: str | None


def how_to_install(program: str) -> str:
    """What to install to have a program."""
    return _NAMES.get(program, program)


def install_hint(program: str) -> str | None:
    """What to do where a program was not found; None for a path, which nothing is installed at."""
    if "/" in program:
        return None
    return f"install {how_to_install(program)}, or put it on the PATH"


def why_not_there(spec: ProcessSpec) -> Missing | None:
    """Why the program of a process cannot be started; None when it is there."""
    if any(Path(path).exists() for path in _candidates(spec)):
        return None
    if "/" in spec.command:
        return Missing(f"expected the program {spec.command}, found that it does not exist", None)
    searched = _search_path(spec)[:_SHOWN_CHARACTERS]
    what = f"expected {spec.command} on the PATH of the tool, found none (searched {searched})"
    return Missing(what, install_hint(spec.command))


def _candidates(spec: ProcessSpec) -> Iterator[str]:
    if "/" in spec.command:
        yield os.path.join(spec.cwd or "", spec.command)  # noqa: PTH118 - it may be absolute
        return
    for directory in _search_path(spec).split(os.pathsep):
        if directory.startswith("/"):
            yield f"{directory}/{spec.command}"


def _search_path(spec: ProcessSpec) -> str:
    found = spec.env.get("PATH", _DEFAULT_PATH) if spec.search_path is None else spec.search_path
    return os.fsdecode(found)
