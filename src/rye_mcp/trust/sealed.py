"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "793b76ba89699873a447d3f33410ec3d9656568c72b3b96b6c24745433d7fb93"
