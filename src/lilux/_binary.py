"""Find `lilux-proc`, and check that it is the one that belongs to this package.

It is looked for beside the running interpreter first, then on PATH: a graphical client starts the server with
a bare PATH, and another version on PATH must not win. Every look is a new one. What is not ours is a
ConfigurationError that says where it stands, what was expected and found, and what to do.
"""

from __future__ import annotations

import shutil
import sysconfig
from pathlib import Path
from typing import Final

from lilux._protocol import PROTOCOL, Hello
from lilux.primitives.errors import ConfigurationError

__all__ = ["REINSTALL", "check_greeting", "find_lilux_proc", "stranger"]

REINSTALL: Final = "reinstall rye-mcp in this environment (`pip install --force-reinstall rye-mcp`)"


def find_lilux_proc() -> str:
    """The `lilux-proc` of this environment, else the one on PATH."""
    scripts = sysconfig.get_path("scripts")
    found = shutil.which("lilux-proc", path=scripts) or shutil.which("lilux-proc")
    if not found:
        raise ConfigurationError(f"lilux-proc binary not found on PATH or in {scripts}: {REINSTALL}")
    return str(Path(found).absolute())


def check_greeting(path: str, hello: Hello, version: str | None = None) -> None:
    """The supervisor speaks our protocol and has our version (or this one)."""
    version = version or _own_version() or hello.version
    if (hello.protocol, hello.version) != (PROTOCOL, version):
        raise ConfigurationError(
            f"expected lilux-proc {version} (protocol {PROTOCOL}) at {path}, "
            f"found {hello.version} (protocol {hello.protocol}); {REINSTALL}"
        )


def stranger(path: str, found: str) -> ConfigurationError:
    """The error for a program that did not greet at all."""
    return ConfigurationError(f"expected a greeting of {path}, found: {found}; {REINSTALL}")


def _own_version() -> str | None:
    """The version that this package was installed as; None when it runs from its sources."""
    from importlib import metadata  # slow to import, and not needed before the first run

    try:
        return metadata.version("rye-mcp")
    except metadata.PackageNotFoundError:
        return None
