"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "f7318b77b5cdfb7c80d53e98f2b19de8d63b71754c34af22e75e63057da89d60"
