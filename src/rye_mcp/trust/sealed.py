"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "36d96d154032c58636b61a7edce601ab0d2aa6db61651577de73b7d70bc1ad2f"
