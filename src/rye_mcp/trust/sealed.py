"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "c3d60963a46f688290db1e9e4e8a1fc5a90b4cb51794c270661dae0414b9528d"
