"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "ab611e5ee7088818a243d191f719372a14ba62ac80e733f0dbbba707788ea7ef"
