"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "88e78f05b09e3532e32d83efd86cecb9b78d2c05c117c5bd388d698401c69041"
