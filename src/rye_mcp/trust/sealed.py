"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "8977a6660262897d5677ed89ce2b0fb15cd841c9ce6d5e795025cdf6f1eb0a04"
