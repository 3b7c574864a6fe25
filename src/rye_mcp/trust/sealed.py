"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "5355b62b7479a99c22a38a35bf088312da5559d32cd6f5e22cba3f29c83a1e05"
