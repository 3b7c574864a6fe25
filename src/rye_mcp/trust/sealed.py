"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "1e6ac52921f8dbe473fb60264e884db651c13af465b08386f33a5c6b9dc573fb"
