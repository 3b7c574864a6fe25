"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "909e407666e6522c23be4599cce480a6b1a495420d6638e2c2f59c40283685e6"
