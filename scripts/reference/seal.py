"""`python -m scripts.reference.seal`: writes the manifest of the system space, and pins it in the package.

Run it after each change to the system space; a test fails until then. The same files give the same bytes.
With `--check` nothing is written, and the exit code is 1 if something would be.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path

from lilux import _files as whole_files
from rye_mcp.errors import RyeError
from rye_mcp.files import Tree
from rye_mcp.items import SYSTEM_MANIFEST_NAME
from rye_mcp.trust.manifest import render_manifest
from scripts.reference.pages import ROOT

__all__ = ["PIN_FILE", "list_files", "main", "render_pin", "stale_files", "system_space_of_package"]

PIN_FILE = ROOT / "src/rye_mcp/trust/sealed.py"
"""The module that holds the pin."""

MAX_SYSTEM_FILE_BYTES = 64 << 20
"""How many bytes a file of the system space may have."""

_LEFT_BEHIND = "__pycache__"
_PIN_LINE = 'MANIFEST_SHA256: Final = "'
_FILE_MODE = 0o644


def system_space_of_package() -> Path:
    """The system space that ships with this package."""
    return (ROOT / "src/rye_mcp/.ai").resolve()


def list_files(system_space: Path) -> dict[str, str]:
    """The SHA256 of every file of a system space, by its path below it."""
    files: dict[str, str] = {}
    for path in sorted(system_space.rglob("*")):
        relative = path.relative_to(system_space)
        if _LEFT_BEHIND in relative.parts or relative.as_posix() == SYSTEM_MANIFEST_NAME:
            continue
        if path.is_symlink() or path.name.startswith("."):
            what = f"expected regular files that are not hidden in the system space, found {path}"
            raise RyeError("unsafe_path", what, where=path)
        if path.is_dir():
            continue
        content = Tree(system_space).read(relative.as_posix(), limit=MAX_SYSTEM_FILE_BYTES)
        files[relative.as_posix()] = hashlib.sha256(content or b"").hexdigest()
    return files


def render_pin(manifest: bytes, module: str) -> str:
    """The source of the module that holds the pin, with the pin of this manifest."""
    before, found, rest = module.partition(_PIN_LINE)
    if not found:
        raise RyeError("internal", f"expected a line {_PIN_LINE}… in {PIN_FILE}", where=PIN_FILE)
    return before + found + hashlib.sha256(manifest).hexdigest() + rest[rest.index('"') :]


def stale_files(system_space: Path, pin_file: Path) -> dict[Path, bytes]:
    """Return the files whose content has to be written again."""
    manifest = render_manifest(list_files(system_space))
    wanted = {
        system_space / SYSTEM_MANIFEST_NAME: manifest,
        pin_file: render_pin(manifest, pin_file.read_text(encoding="utf-8")).encode(),
    }
    return {path: data for path, data in wanted.items() if not path.exists() or path.read_bytes() != data}


def main(
    arguments: Sequence[str] = (), *, system_space: Path | None = None, pin_file: Path = PIN_FILE
) -> int:
    """Write both files, or with `--check` say whether they are what they would be."""
    stale = stale_files(system_space or system_space_of_package(), pin_file)
    if "--check" in arguments:
        sys.stdout.writelines(f"stale: {path}; run: make docs\n" for path in stale)
        return 1 if stale else 0
    for path, data in stale.items():
        whole_files.write_whole(path, data, mode=_FILE_MODE)
        sys.stdout.write(f"written: {path}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
