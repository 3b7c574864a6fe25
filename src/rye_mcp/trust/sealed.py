"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "4484a5a0651584377d89441a9866b5abcc11915f81b828f7e1eba018ccce369d"
