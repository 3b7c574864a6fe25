"""The pin of the system space's manifest. Written by `make docs`, not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "9ffc3bb41c9b83ac61bfe5957b3b1da6cf1131dfebe9f7a2bef15b3179dda44d"
