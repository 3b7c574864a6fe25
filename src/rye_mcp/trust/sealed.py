"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "75c4432a355b02ecdf9c3a75176f68a601e3c0e26aa0d0eb5f79d8da219f6417"
