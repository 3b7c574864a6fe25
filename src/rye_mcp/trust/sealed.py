"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "badffa7f3c65d70ede0b0152f1f8158416e718384407788a7f1315e14f0cbfea"
