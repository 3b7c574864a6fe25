"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "168c6912cbd2641bf1405b12368c955c95fe3a6ce1c9850a435d665a2360395c"
