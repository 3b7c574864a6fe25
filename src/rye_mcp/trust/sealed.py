"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "ac67ac712499ccba843d4b6056aadb75774594281d1863b1bda993558630dcca"
