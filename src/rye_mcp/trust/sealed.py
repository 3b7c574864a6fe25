"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "65538ce3ff9ffe32f11afaffcfae7ce5288e82689946b3faae6b762550da4c66"
