"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "4256513f4b5c38a2a7ef68dfac74969ff9210071226e1f75c5a8f2757de12382"
