"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "83fda1af224460d4b847f97d84db53da3298c14d6d24c45804ff4a124925ce63"
