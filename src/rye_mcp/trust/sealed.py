"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "d466230085a7ae6cb9c4279750194397af2504e1c3f577692eec4c43c0ba99b2"
