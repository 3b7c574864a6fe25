"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "1049413a540eb0e147243fb229e0db09ad8dc9e6c2aeff92d67bc6c7eac0d5e6"
