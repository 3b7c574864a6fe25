"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "ebd76b11bacf1188cb60fbaf08f8e0a6f44394f648b023dc25f7286e71680de5"
