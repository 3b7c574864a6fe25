"""Variables that hold paths, such as PATH: which they are, how they are set, what an anchor adds to them.

No path of an anchor is relative, none that is set is empty, and none holds the separator: to a loader
the first two are the working directory, which is somebody's project, and the last is two paths.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lilux import _templates
from rye_mcp.errors import RyeError
from rye_mcp.executor.anchor import EnvPaths
from rye_mcp.executor.chain import ChainElement
from rye_mcp.items import printable
from rye_mcp.trust.directories import Look

if TYPE_CHECKING:
    from rye_mcp.trust.directories import Directories

__all__ = [
    "OF_EVERYBODY",
    "add_paths",
    "paths_in",
    "programs_for_tools",
    "refused_paths",
    "set_paths",
    "usable_variables",
]

_MAX_PATH_CHARACTERS: Final = 4096
"""How long one path may be: the system takes no longer one."""

OF_EVERYBODY: Final = frozenset({"TMPDIR", "TMP", "TEMP", "TEMPDIR", "MAIL"})
"""Variables that usually name a directory to which every user may write."""


_OWN_PROGRAMS: Final = None if sys.prefix == sys.base_prefix else sysconfig.get_path("scripts")
"""The programs of the environment that rye-mcp is installed in, when it has one of its own."""


def paths_in(name: str, value: str) -> tuple[str, ...]:
    """The paths that a variable holds: of PATH every entry, of any other all of them or none.

    >>> paths_in("XDG_DATA_DIRS", "/usr/share:/srv/share"), paths_in("DISPLAY", ":0")
    (('/usr/share', '/srv/share'), ())
    """
    entries = tuple(value.split(os.pathsep))
    if name == "PATH":
        return entries
    return entries if all(each.startswith("/") for each in entries) else ()


def programs_for_tools(path: str, project: Path | None) -> str:
    """An entry of PATH, or where that Python came from when it is the environment of rye-mcp itself.

    A tool that found its packages there would run until rye-mcp is installed in another way. In a project
    whose own environment holds rye-mcp, that is also the tools' environment.
    """
    if path != _OWN_PROGRAMS or (project is not None and Path(path).is_relative_to(project)):
        return path
    return os.path.join(sys.base_exec_prefix, "bin")  # noqa: PTH118 - an entry of PATH is a text


def refused_paths(paths: Mapping[str, Iterable[str]], directories: Directories) -> dict[str, str]:
    """Which paths of these variables lead where nothing is used, with the reasons."""
    refused: dict[str, str] = {}
    look = Look()
    for name, found in paths.items():
        why_not = directories.why_no_project if name in OF_EVERYBODY else directories.why_not
        for path in found:
            if path.startswith("/") and (why := why_not(path, look)) is not None:
                refused[path] = why
    return refused


def usable_variables(
    variables: Mapping[str, str], directories: Directories, project: Path | None
) -> dict[str, str]:
    """These variables without paths that lead where nothing is used, and without relative ones of PATH."""
    paths = {name: found for name, text in variables.items() if (found := paths_in(name, text))}
    if "PATH" in paths:
        paths["PATH"] = tuple(programs_for_tools(path, project) for path in paths["PATH"])
    refused, usable = refused_paths(paths, directories), dict(variables)
    for name, found in paths.items():
        set_paths(usable, name, (path for path in found if path.startswith("/") and path not in refused))
    return usable


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
