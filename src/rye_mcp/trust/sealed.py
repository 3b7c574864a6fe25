"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "53b52c48ebf84a813069a81e3ab390366469c2d1d03b502199ce46c040fb537e"
