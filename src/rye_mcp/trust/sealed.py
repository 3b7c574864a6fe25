"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "5f3aa638e201c0643a6496276dbe45e86dd92e044b4aea8b29d36a6257e4ebd9"
