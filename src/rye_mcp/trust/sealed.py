"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "1a48312a475e028993e92e1ee82bfb17d85efb2b6741a68310291bad6cb27c7c"
