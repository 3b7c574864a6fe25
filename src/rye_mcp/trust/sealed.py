"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "bbeea2548a6337adb96446939a2760675e99df01600aab0097e3c9eb226ade54"
