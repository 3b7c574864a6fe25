"""The pin of the system space's manifest. Written by `make docs`, not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "134b36003b9059dff4d8ac2a56b103c1da31af847488e2a003b2953c4b204362"
