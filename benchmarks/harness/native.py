"""The small C programs beside the benchmarks, compiled on the spot."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).parent.parent / "native"


@dataclass(frozen=True, slots=True)
class Native:
    """Where the compiled programs are."""

    spawner: str
    writer: str
    reader: str

    @classmethod
    def compile(cls, directory: Path) -> Native:
        """Compile everything into a directory, with the C compiler of this machine."""
        if shutil.which("cc") is None:
            raise SystemExit("there is no C compiler (`cc`): install gcc or clang")
        return cls(**{name: _compiled(name, directory) for name in cls.__slots__})


def _compiled(name: str, directory: Path) -> str:
    program = directory / name
    subprocess.run(["cc", "-O2", "-o", program, SOURCES / f"{name}.c"], check=True)
    return str(program)
