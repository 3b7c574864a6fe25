"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "295b6f25117ec1c30e12af7fa8612d22d3ab4a430b29ef4ecb38b60d5912eed8"
