"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "b362b1edec1d398a0307b4c6214006e67820e6a6d3f33894e39a6452e73bbb8c"
