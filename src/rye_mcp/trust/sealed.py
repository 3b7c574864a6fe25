"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "29ecc34b2157ef369d3a4808834b97e25ca855b7eea39657d1472e60a4c3bf5e"
