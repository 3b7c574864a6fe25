"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "cc877e0356d227880d59678c82672776b8884eb51df1b1f321c2abd1bce04209"
