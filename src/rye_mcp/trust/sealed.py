"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "2a2e0cf0c59128ba9c512143b1cf885a23c48bc22d48e17235249e45ee701004"
