"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "27a1bfd670e63342bbc08febcf22153f1980dc82b383a6413016935651852a0a"
