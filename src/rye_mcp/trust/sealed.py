"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "41a3318d53ba479e633976204d14561c5e0a0ff6181e417dd5120d5148b15679"
