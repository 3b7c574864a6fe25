"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "83a9fe4cabbd16283760441a23d416d74398e1935f620f5fdca1c131d4e21496"
