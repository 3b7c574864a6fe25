"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "d57f1e0f7928ac17e0a4fa8a59df8866c2e26a636514b27638698418bfd7f78d"
