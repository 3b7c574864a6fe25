"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "4cac1878e14630fbcbea66c740f8510ee6abc3b0746a43a1b738bfd4a0a94770"
