"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "e8fcc6487217cb9fc4e68b225079e5e956d9b8ac9c49455f62bbc0ec9fe4f57b"
