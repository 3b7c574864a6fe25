"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "921f0a4d85cd4cb36180a390e5e5aeb54ed834f31e3e79d9ffaf7663ca6c9f77"
