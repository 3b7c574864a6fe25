"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "a1e21d64d5beaf0d765467cec0df4194813fc0ca881d568a215de3e283fad0c0"
