"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "54d4a38041cede370fec73a4b65eff5d280952e49641e816312638dd660a3bbc"
