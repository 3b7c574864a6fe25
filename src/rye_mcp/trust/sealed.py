"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "0de611e2a2e338e6b9c9e19b21fc9f74de4a870829ff7c403a82f66ed889c8e8"
