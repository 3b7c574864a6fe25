"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "6bdc2f0d3155372e5056d24928125ac32dcc2c0b3578f3579d86f61298275bde"
