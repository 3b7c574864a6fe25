"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "53ff9fe83d1292a40f49f1338b2570d779230d3b02c3b7ef6a555ed5b603ece5"
