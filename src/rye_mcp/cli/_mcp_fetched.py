"""Which version of a package npx or uvx has fetched, as their caches on this machine say.

Where a cache holds several versions, or cannot be read, nobody knows which one will run: None.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

__all__ = ["version_by_npm", "version_by_uv"]

_MAX_BYTES: Final = 1 << 20
"""No package.json is longer: 1 MiB."""

_VERSION: Final = re.compile(r"\d+(?:\.\d+)+[A-Za-z0-9.+-]{0,60}", re.ASCII)


def version_by_npm(name: str, environment: Mapping[str, str]) -> str | None:
    """The one version in the environments that npx keeps."""
    cache = _directory(environment, "npm_config_cache", ".npm")
    return None if cache is None else _only(_said(cache.glob(f"_npx/*/node_modules/{name}/package.json")))


def version_by_uv(name: str, environment: Mapping[str, str]) -> str | None:
    """The one version among the wheels that uv keeps."""
    above = environment.get("XDG_CACHE_HOME")
    own = f"{above}/uv" if above else ""
    cache = _directory({"UV_CACHE_DIR": own, **environment}, "UV_CACHE_DIR", ".cache/uv")
    normal = re.sub(r"[-_.]+", "-", name).lower()
    if cache is None or "/" in normal:
        return None
    return _only(path.name.partition("-")[0] for path in cache.glob(f"wheels-v*/pypi/{normal}/*"))


def _directory(environment: Mapping[str, str], variable: str, usual: str) -> Path | None:
    named, home = environment.get(variable), environment.get("HOME")
    return Path(named) if named else Path(home, usual) if home else None


def _said(files: Iterable[Path]) -> Iterator[str]:
    """The version that each package.json says."""
    for file in files:
        try:
            with file.open("rb") as opened:
                said = json.loads(opened.read(_MAX_BYTES))
        except (OSError, ValueError):
            continue
        if isinstance(said, dict):
            yield str(said.get("version"))


def _only(versions: Iterable[str]) -> str | None:
    try:
        found = {version for version in versions if _VERSION.fullmatch(version)}
    except OSError:
        return None
    return found.pop() if len(found) == 1 else None
