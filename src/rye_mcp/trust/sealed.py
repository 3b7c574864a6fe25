"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "0eb86aac0ebe4d2d3da15886b51d7cc19ff52a9d43fd613a73fcdd776f6addf7"
