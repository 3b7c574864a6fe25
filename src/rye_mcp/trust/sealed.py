"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "a55a0d2d046903a2074918abfd37a8abc35676a81e8b0a7651e8e233700f65dd"
