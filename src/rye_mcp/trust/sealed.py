"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "965c7491b982b775b4ba6f23006734ee3c21065a66adf65b9c00c83cdc9be4da"
