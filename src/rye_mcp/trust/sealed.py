"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "6445af2dcd1dac6b9f437a399c1be51cc68f566b58fc564de967927ed6237719"
