"""argparse, optparse, click, typer, getopt and `sys.argv` in Python source: read from the syntax tree.

Rules:

- Nothing is run; `_python_source` says what a value is.
- What cannot be read plainly is left out; a remark says how many arguments that were.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from rye_mcp.scripts._argparse import read_argparse
from rye_mcp.scripts._argv import read_argv, read_getopt
from rye_mcp.scripts._click import read_click, read_typer
from rye_mcp.scripts._python_source import Source, first_paragraph
from rye_mcp.scripts.declared import Declared

__all__ = ["imported_modules", "read_python_script"]

_READERS: Final[tuple[Callable[[Source, str | None], Declared | None], ...]] = (
    read_argparse,
    read_click,
    read_typer,
    read_getopt,
    read_argv,
)


def read_python_script(tree: ast.Module, subcommand: str | None) -> Declared:
    """What the module says about its arguments."""
    source = Source.of(tree)
    read = (reader(source, subcommand) for reader in _READERS)
    found = next((each for each in read if each is not None), Declared("nothing"))
    told = (found.description, first_paragraph(tree))
    return replace(found, description=next(filter(None, told if subcommand else told[::-1]), ""))


def imported_modules(tree: ast.Module) -> frozenset[str]:
    """The modules that a script imports and that Python does not bring along, by their first names."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names.add(node.module.partition(".")[0])
    return frozenset(names - sys.stdlib_module_names - {"__main__"})
