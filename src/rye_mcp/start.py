"""The start of the `rye-mcp` command: it greets the client, and loads the server without collecting garbage.

What is loaded stays to the end. To look through it again and again takes a part of the start; later it would
delay a waiting client by a twentieth of a second each time.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rye_mcp.mcp_server.greeting import Greeting

__all__ = ["main", "share_memory"]

SWITCH_INTERVAL_S: Final = 0.001
"""How long a thread that computes keeps the interpreter while the event loop wants it; 5 ms by default."""


_M_ARENA_MAX: Final = -8  # of malloc.h


def main() -> int:
    """Load the server, and serve."""
    gc.disable()
    try:
        greeting = _greeting()
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        share_memory()
        from rye_mcp.server import main as serve
    finally:
        gc.enable()
    gc.freeze()
    return serve(greeting)


def _greeting() -> Greeting:
    """What a client was answered that waits already: nothing by a server whose options may be wrong."""
    from rye_mcp.mcp_server.greeting import Greeting, greet

    return greet() if _has_usual_options(sys.argv[1:]) else Greeting()


def _has_usual_options(arguments: list[str]) -> bool:
    """Whether there are no options, or only an existing project, as `rye install` writes it."""
    names_project = len(arguments) == 2 and arguments[0] == "--project"
    return not arguments or (names_project and os.path.isdir(os.path.join(arguments[1], ".ai")))  # noqa: PTH112, PTH118 - pathlib is not loaded yet


def share_memory() -> None:
    """Let all threads take memory from one place, if the C library can.

    Otherwise each thread has a place of its own, and what one frees for another leaves gaps: thousands of
    calls would take some megabytes. Only one thread runs at a time, so none waits for another.
    """
    import ctypes

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)
