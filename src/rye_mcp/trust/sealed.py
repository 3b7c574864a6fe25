"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "4a0c39fdec9e6142387df627047437192663e69e4db10ea8bb9394512f0f3e93"
