"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

MANIFEST_SHA256: Final = "52a86fb04aaa39be81598197e0f74322e64213de7dc60f9c93dbd1455ae74188"
