"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "adeee29b8b2e773457f07913c031ece74141e35df43f4c14fa20d7d01e0bc6cd"
