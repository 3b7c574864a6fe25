"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "9337ae55b32512e78fef6aa2615a2a1f0008de2ad7612cbd86520b834ea7a761"
