"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "4cdbf14d70ee86ddda5c0f45a8deb7279fb22d04a23937fe03ebb152320bee8e"
