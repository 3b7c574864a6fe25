"""Variables that hold several paths, such as PYTHONPATH: what an anchor adds to them, and how they are set.

No path of an anchor is relative, none that is set is empty, and none holds the separator: to a loader
the first two are the working directory, which is somebody's project, and the last is two paths.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Final

from lilux import _templates
from rye_mcp.errors import RyeError
from rye_mcp.executor.anchor import EnvPaths
from rye_mcp.executor.chain import ChainElement
from rye_mcp.items import printable

__all__ = ["add_paths", "set_paths"]

_MAX_PATH_CHARACTERS: Final = 4096
"""How long one path may be: the system takes no longer one."""


def add_paths(
    variables: dict[str, str],
    env_paths: Mapping[str, EnvPaths],
    places: Mapping[str, str],
    root: ChainElement,
) -> None:
    """Put the paths of an anchor before and after what variables hold."""
    for name, paths in env_paths.items():
        own = variables.get(name, "").split(os.pathsep)
        before = [_path(text, name, variables, places, root) for text in paths.prepend]
        after = [_path(text, name, variables, places, root) for text in paths.append]
        set_paths(variables, name, [*before, *own, *after])


def set_paths(variables: dict[str, str], name: str, paths: Iterable[str]) -> None:
    """Set a variable of paths, each once; one without any is not set, as that would be an empty path."""
    kept = dict.fromkeys(path for path in paths if path)
    if kept:
        variables[name] = os.pathsep.join(kept)
    else:
        variables.pop(name, None)


def _path(
    template: str, name: str, variables: Mapping[str, str], places: Mapping[str, str], root: ChainElement
) -> str:
    """One path, absolute; empty when the place that it begins with is not there."""
    for placeholder in _templates.placeholders(template):
        if isinstance(placeholder, _templates.Parameter) and places.get(placeholder.name) == "":
            return ""
    path = _templates.render(template, variables, places)
    good = path.startswith("/") and os.pathsep not in path and "\0" not in path
    if good and len(path) <= _MAX_PATH_CHARACTERS:
        return path
    raise RyeError(
        "invalid_item",
        f"expected an absolute path without {os.pathsep} from {template!r} in anchor.env_paths.{name}, "
        f"found {printable(path[:_MAX_PATH_CHARACTERS])!r}",
        where=root.path,
        item_id=root.item_id,
        field=f"anchor.env_paths.{name}",
    )
