"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "65a852a7d929d2f0b93d32bf0e23f9936cc517a660fd08f858a52d5bb4017f51"
