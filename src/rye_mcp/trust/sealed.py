"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "086ea22dd0196fd95cf4187285560a4ffcd012fce6333d293c626cb8b1e907fb"
