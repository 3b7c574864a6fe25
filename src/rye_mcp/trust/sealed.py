"""The pin of the system space's manifest. Written by `make docs`, not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "c51f32339e983e4cc8be5549a82e2829d9a5965673b25d30d42936a9d0d28277"
