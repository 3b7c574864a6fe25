"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "59034caa020bc06d985fe6df5fd95cba058593a15b32ff140a5a4994a9e92124"
