"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "3963b43b233c4a59cf6102e7f5cb4f1ce594333a14f294a6e32bbea9080ce061"
