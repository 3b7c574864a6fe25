"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "b228ac871781a41024759e93514469f06baf10c6b0dbd6cc5b727773dc984ca7"
