"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "186b0959a8b03b06f05430f158fe1ab7d7e6bbf98584e93ea5926566e634ddcd"
