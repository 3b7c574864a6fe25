"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "0a62c242ca8eaac65c4a64dbe656cf86d6ece854fe8d9db8d56439cc17f85e11"
