"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "2dec1c3ad586424c3c3304e00c9ff8431429de13aa1b8b5b71c993fcd4338390"
