"""The pin of the system space's manifest. Written by `make docs`, not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "ec9210f148892cc48be3fe9d4adef542577da4167dcb1dc14c0df336d968ce06"
