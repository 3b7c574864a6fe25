"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "3a9f8066cbeca21adb2e25120e1fcd5a26aa1f3b8c72a8174db6706a5b089c28"
