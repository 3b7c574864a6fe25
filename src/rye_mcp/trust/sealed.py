"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "caa67ed407a1ec6b669ba6f34c67274c449e5e153ca0d5451e352f10b38629c8"
