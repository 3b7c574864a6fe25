"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "a89d815ca9cf2ed85b2810aac54fbaf5c05258515c5bfb5ef3d1205037304d52"
