"""The pin of the system space's manifest. Written by `make docs`, not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "0b392333facfba84a32faca1e2e1507a850136a3148c4311ba4d8cafc19b52b1"
