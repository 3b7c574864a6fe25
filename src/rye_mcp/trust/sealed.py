"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "06e7cf58ca30b50092a42f85aee3ab0649e9dc17baba9aa0724e4e95f5f1e9cf"
