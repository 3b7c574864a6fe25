"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "35e405448b30ff2a5583d99fbd57a1448472b67236c8f18f16d0843a28181dc2"
