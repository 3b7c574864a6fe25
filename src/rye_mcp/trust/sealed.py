"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "142508e8ed78557f1f725dad76d5cbe9f0c4ef6af01ce22d64c7abd7a4ccb512"
