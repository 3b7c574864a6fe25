"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "f89cb607f38d73258f90718ad867f44485cfb7406384481d9ca7f515bacd3c48"
