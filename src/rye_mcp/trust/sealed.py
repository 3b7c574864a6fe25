"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "c7a4d9da468715c50f550f4f7243b1476e6b9067e78bd110fbb5572174afefe2"
