"""The start of the `rye-mcp` command: it loads the server without collecting garbage meanwhile.

What is loaded stays to the end. To look through it again and again takes a part of the start; later it would
delay a waiting client by a twentieth of a second each time.
"""

from __future__ import annotations

import gc
import sys
from typing import Final

__all__ = ["main"]

SWITCH_INTERVAL_S: Final = 0.001
"""How long a thread that computes keeps the interpreter while the event loop wants it; 5 ms by default."""


def main() -> int:
    """Load the server, and serve."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.disable()
    try:
        from rye_mcp.server import main as serve
    finally:
        gc.enable()
    gc.freeze()
    return serve()
