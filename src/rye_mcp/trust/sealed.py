"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "139b25c6cf6a0f8fb78c38994f475de9f2a7e8da7d74718bfd72ac37e3f768d8"
