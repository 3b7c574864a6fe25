"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "17504b5c71033e70596076e23cc88fa8aae180d5fc1e095e1ecbd5aa7b119b81"
