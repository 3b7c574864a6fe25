"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "1cb12fc6f289ea4854d119e21d2ffa4f6571bbf5314f69834914f5f6ed643974"
