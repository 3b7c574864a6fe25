"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "a6f7722512410110b00eaea019e78f1c5da42f30aee6986ba1fac9c74ced4030"
