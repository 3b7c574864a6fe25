"""The pin of the system space's manifest. Written by `make docs`, not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "c58e90c206b9688448a5f12794323de2d5b5b19e59ae1a2aa71a87953239f89d"
