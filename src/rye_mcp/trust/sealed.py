"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "f4c646a54950852bd6c47ee434d3f9f03e28f8fb1b51b8cb54adca62600d7bb0"
