"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "e4a0f4429a4a5bcbe7873cb74e58882342e10bc2e5f7f86f0d9777801fd80149"
