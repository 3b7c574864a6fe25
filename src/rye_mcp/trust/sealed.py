"""The pin of the system space's manifest. Written by `make docs`, not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "d7f8c80357b6d91e4097eada58028972767171ee747e2890c41d65ec5aa6c5e6"
