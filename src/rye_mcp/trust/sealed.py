"""The pin of the system space's manifest. Written by `make docs`, not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "8cb3668950e936778c753627b1a01f45f54f0ca3fb9342d5f542d012386ab943"
