"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "c26cd9e0c461ffaec648bc3e130e5f8a8d7662e5e390a60c87ecba32cbb8532b"
