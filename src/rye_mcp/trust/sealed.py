"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "2d3f311a2c5d37f3aa9a3753e703d857dd44d2d7d954116f7332f9bbbc7bdcd9"
