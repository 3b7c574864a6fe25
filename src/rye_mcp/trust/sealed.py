"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "d09d2eff6748531c38cdd2c9f599854399082c0b2f3302dd00c5d47e73c8f4da"
