"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "cd6ba3a8c6521d6e45abd7015c30832bc6e852ade6a312bcec653b9992d4b83c"
