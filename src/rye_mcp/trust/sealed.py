"""The pin of the system space's manifest. Written by `make docs`, not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "494b09966ece470b5aa74e0d082950e46e8d57092cd8b43de894fad2357cf9d3"
