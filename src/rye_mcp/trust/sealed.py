"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "2f2a07d2d095fe7026d126f310b75a3c7b5b89492b9223d0f0fde3eb6944b03f"
