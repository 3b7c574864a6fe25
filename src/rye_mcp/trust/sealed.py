"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "4ff9ce262381abf304e579f510e2d890493fd0056d1d87f55db2970dc2914f43"
