"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "decd7c9930987d58c6db8452891bcb9fe74ebdf0e8ad510b3001f47234a4d83e"
