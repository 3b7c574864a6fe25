"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "910bf37514fd8fd43cd19ccebc143beb7255e90db3ee7d2bbf8e978e93b1ecb1"
