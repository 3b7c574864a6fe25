"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "e3b519c2c6fadccba9c3cb53562d37058d1a374e1d3e0871c00c557fa80f8e63"
