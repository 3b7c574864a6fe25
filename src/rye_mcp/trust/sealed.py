"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "69ee899adc75ee34dba27493789721b0ebf09177a1207c0a39ce200cd1bdf672"
