"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "c3a5e2f8864723082499372c517fd411f53151e96394ea20382ac46c5f29b91b"
