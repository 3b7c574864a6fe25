"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "e584f718190f8250959ef5f4ce69443091a0caed52aa385ed3c9aabd1bc84903"
