"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "9e9432e286c15629c0e5cd5a7b9c4f1e5bfb8896e18c49288abc0b39892f382a"
