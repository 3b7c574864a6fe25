"""The pin of the system space's manifest. Written by `make docs`, not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "8dbfc98ba2036bf654e91df5b76c99e673f56c18af0728148df45b7ea4c5530d"
