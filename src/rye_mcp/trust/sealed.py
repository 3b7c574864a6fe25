"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "08a9b21d5372bfe2fa2ef5ffc25ef9306a46ca45e0a96639cc58e375275084cf"
