"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "2fe723b18875322ad63f19ff7fc7262981de3ecbb83db62bf153e52c8bfcaf5e"
