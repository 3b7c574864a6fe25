"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "47cd8cd33b9c3bbd7167472f2ca382e1ee0c0bc4feff2c06429fdc820f56578d"
