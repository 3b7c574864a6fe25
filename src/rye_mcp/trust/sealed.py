"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "b97b701cbfe0d936f525e20503ac77bdcec5bffd0c1375893b8f93c12154ba57"
