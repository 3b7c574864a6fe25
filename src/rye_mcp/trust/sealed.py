"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "6e2c6c44b1fb881a7fed10f75472dbd11ee1bb99e50a11f8887c59930a82f1c7"
