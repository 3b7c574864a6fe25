"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "83e439d4c01a4dff82638835580e0930d573b9d6b82710986fc864b383c89bf1"
