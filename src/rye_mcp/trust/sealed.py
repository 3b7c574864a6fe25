"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "9151f91f235fcbd988a5e7612860e7aafc01fc965e0639d1988768dcdafbf7cd"
