"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "700f471c07b19a72eef5e5b1d82c3ddbb3955631fe23a14459e8014d01ec86b5"
