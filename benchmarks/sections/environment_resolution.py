"""Resolving the environment of a tool, where no other program has to be asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lilux.runtime.env_resolver import EnvResolver
from sections.case import Case

LIMIT_MS = 1.0
VARIABLES = 60
DOTENV_LINES = 20
PATH_ENTRIES = 12


@contextmanager
def cases(directory: Path) -> Iterator[Sequence[Case]]:
    """The cases, in a project with a `.env`, a virtual environment and an installed version."""
    lines = [f"KEY_{number}='value {number}'\n" for number in range(DOTENV_LINES)]
    (directory / ".env").write_text("".join(lines), encoding="utf-8")
    python = _put(directory / ".venv/bin/python")
    _put(directory / "pyenv/versions/3.11.6/bin/python")
    newest = _put(directory / "pyenv/versions/3.11.10/bin/python")
    base = {f"VARIABLE_{number}": "x" * 40 for number in range(VARIABLES)}
    base |= {
        "PATH": ":".join(f"/nowhere/{number}" for number in range(PATH_ENTRIES)),
        "HOME": str(directory / "home"),
        "PYENV_ROOT": str(directory / "pyenv"),
    }
    resolver = EnvResolver(directory)
    venv = {"type": "venv_python", "search": ["project", "user", "system"]}
    pyenv = {"type": "version_manager", "manager": "pyenv", "version": "3.11"}

    def case(name: str, interpreter: Mapping[str, Any], found: str) -> Case:
        config = {
            "interpreter": {"var": "RYE_PYTHON", "fallback": "python3", **interpreter},
            "env": {"PYTHONUNBUFFERED": "1", "PROJECT_VENV_PYTHON": "${RYE_PYTHON}"},
        }
        return Case(
            name,
            lambda: resolver.resolve(config, {"TOOL": "1"}, base_env=base),
            is_right=lambda env: (env["PROJECT_VENV_PYTHON"], env["KEY_1"]) == (found, "value 1"),
            max_ms=LIMIT_MS,
        )

    yield [
        case("a virtual environment", venv, str(python)),
        case("nothing found anywhere", {**venv, "venv_path": "none"}, "python3"),
        case("the newest of a version", pyenv, str(newest)),
    ]


def _put(path: Path) -> Path:
    path.parent.mkdir(parents=True)
    path.touch(mode=0o755)
    return path
