"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "abf094fe44015409a3fb9d0e27f055da9c545fb35d255c5328ce0671465fcde8"
