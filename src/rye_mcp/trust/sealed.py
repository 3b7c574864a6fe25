"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "c9d736e9a8f40621cfd9906e567cecd4d3f6de73d8084f9767b2cca28866d4ab"
