"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "b4e9fb63763de5391258a3db6e22030850f1c4eb1ce0d3c9128b23c88d5a213c"
