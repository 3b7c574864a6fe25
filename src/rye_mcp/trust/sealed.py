"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "55e34852a26f2f7f84e27565652f74e4a081d9b424fcc1c6b7ddf5c0b07c8ce8"
