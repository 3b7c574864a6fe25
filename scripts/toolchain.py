"""Say in plain sentences what this machine lacks for building rye-mcp.

    python3 scripts/toolchain.py

Ends with 0 when nothing is missing. It keeps to what old interpreters understand: it has to tell them.
"""

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Iterator, Optional, Tuple  # noqa: UP035 - see above

MINIMUM_PYTHON = (3, 11)
Version = Tuple[int, ...]  # noqa: UP006 - see above


def missing() -> Iterator[str]:
    """Yield one sentence for each thing that has to be installed first."""
    if sys.version_info < MINIMUM_PYTHON:
        found = ".".join(map(str, sys.version_info[:2]))
        yield (
            f"rye-mcp needs Python {_text(MINIMUM_PYTHON)} or newer, and {sys.executable} is {found}: "
            "name a newer one, as in `make demo PYTHON=python3.12`."
        )
    elif importlib.util.find_spec("ensurepip") is None:
        yield (
            f"{sys.executable} cannot make virtual environments: "
            "install its venv package (on Debian and Ubuntu, python3-venv)."
        )
    if shutil.which("cc") is None:
        yield "there is no C compiler for Rust to link with: install gcc or clang."
    wanted, found_rust = _wanted_rust(), _found_rust()
    if found_rust is None and shutil.which("cargo") is not None:
        yield f"Rust {_text(wanted)} or newer is needed, and rustup has none: run `rustup default stable`."
    elif found_rust is None:
        yield f"Rust {_text(wanted)} or newer is needed, and cargo is not there: get it from https://rustup.rs."
    elif found_rust < wanted:
        yield f"Rust {_text(wanted)} or newer is needed, this is {_text(found_rust)}: run `rustup update`."


def _wanted_rust() -> Version:
    """Return the `rust-version` of the workspace (read without tomllib, which old interpreters lack)."""
    manifest = (Path(__file__).resolve().parent.parent / "Cargo.toml").read_text(encoding="utf-8")
    match = re.search(r'^rust-version = "([0-9.]+)"', manifest, re.MULTILINE)
    if match is None:
        raise SystemExit("Cargo.toml states no rust-version")
    return tuple(map(int, match.group(1).split(".")))


def _found_rust() -> Optional[Version]:  # noqa: UP045 - see above
    cargo = shutil.which("cargo")
    if cargo is None:
        return None
    # `cargo --version` of a rustup that has no toolchain yet fails, with many lines that help nobody here.
    answer = subprocess.run(  # noqa: S603
        [cargo, "--version"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False
    )
    match = re.search(rb"(\d+)\.(\d+)", answer.stdout)
    return None if match is None else (int(match.group(1)), int(match.group(2)))


def _text(version: Version) -> str:
    return ".".join(map(str, version))


def main() -> int:
    """Print every sentence on standard error; return how many there are, at most one."""
    sentences = list(missing())
    for sentence in sentences:
        sys.stderr.write(f"{sentence}\n")
    return min(len(sentences), 1)


if __name__ == "__main__":
    sys.exit(main())
