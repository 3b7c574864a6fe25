"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "c9ff01787fc902a1b3714ffc9936de34c0ffac4986cdd8213dd5eeda98aa795b"
