"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "89bc5048fea2ac888dabbfc9a5c6909f95b5ed06fc66c9e485b59db17d380248"
