"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "e11e2aea98d14ca285ee45633ca73951a677c48d7db7acd825ab408434043515"
