"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "80abd675c5974e78f04dee9bc2cc8c2516cb5124f232151baf8836db5d696296"
