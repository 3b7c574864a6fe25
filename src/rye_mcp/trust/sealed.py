"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "7e992c849a57a70781d6e861b27ef0404d7a16490f480aff949f4e7b7c7f5746"
