"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "c0ea42f557533474bbf874b98c8d801e01f5aefcd1706d508a3bd51b9d4a7ce5"
