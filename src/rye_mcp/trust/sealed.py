"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "3d659804425641f7d9fa2e88055f48230a4020603115c5c9d3299457e3146a6f"
