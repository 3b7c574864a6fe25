"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "d9cb477e09de9be1935926d47c4c48c9c30e449ba654b527e2b53ab1eebf9d7d"
