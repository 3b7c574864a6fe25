"""The pin of the system space's manifest. Written by `make docs`, not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "3ee4c4b5c4fe01cfd40f9456458885160f6616837fb0c2c051fb6ff822c9c552"
