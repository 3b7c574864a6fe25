"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "84438b7bc87deed1af48cc155a0662680cc38823689de7f7e05da0adbcedd617"
