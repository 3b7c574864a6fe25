"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "7b22e002456dbfb2b61b40a23722e090bccda481f8b70de55576119e22b14f38"
