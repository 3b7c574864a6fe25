"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "3eb16cefad344bdb264003cdaa0a0d291e5df29063d79658ed3adec6a5bdd1bb"
