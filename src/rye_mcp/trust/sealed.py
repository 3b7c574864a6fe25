"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "c171938a6383ba53b39fcd166e738d7fc1c9b7cbaa54c874fdf735d1209d646f"
