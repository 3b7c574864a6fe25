"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "0785d09375f4d8cdbaf9928bdfe61f9a42a198f6f875074b601406af5d6e85b1"
