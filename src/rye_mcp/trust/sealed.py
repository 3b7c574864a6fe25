"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "afc307ac6f5148705dc95a111b3e07cb02b7c49392758088dfcfb8f24bb8a901"
