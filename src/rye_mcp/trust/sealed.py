"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "57660a67016af1ba0877cf4a954f172d8f111b27b006f85022ca08c855453e7d"
