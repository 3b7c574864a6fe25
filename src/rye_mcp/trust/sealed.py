"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "92ca9ab735aa2869b0a783ee8c960565f663fcf1dd7b8dcc8491553211226c66"
