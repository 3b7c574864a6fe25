"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "7e48275dd6f34b2b251057309ec1b1fa6b5b65e760c19f58851c29161115cacc"
