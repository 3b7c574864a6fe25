"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "1e1b53ed9c323fe2b2d012a9799fe9352533928b2f062d731bb7e70d04e4e7b2"
