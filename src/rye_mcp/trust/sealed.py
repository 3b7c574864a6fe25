"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "c25d603f6303dbb48784f173b6045ee27d2530c6a7de5f78c62ed41eb278785f"
