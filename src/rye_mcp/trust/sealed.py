"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "27d4ebe8d7505f4388fd757f10b3eb8799fdbb69da8a930d702629ee22e52442"
