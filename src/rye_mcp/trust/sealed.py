"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "f0501a08d7a7d4342059f4185d51cdd64e1504d4d1c01bb806e15f30b52c3908"
