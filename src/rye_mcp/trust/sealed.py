"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "236b52b802f143d2bc8b794c4d2f6678d473b43863c066f275e36b7a05812997"
