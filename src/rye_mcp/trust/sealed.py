"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "726042d27fa6d5a4e87b24252f50a748d3af4424097825bbb2b7b587fdde6116"
