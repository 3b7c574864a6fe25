"""The pin of the system space's manifest. Written by `python -m rye_mcp.trust.seal`; not by hand."""

from typing import Final

__all__ = ["MANIFEST_SHA256"]

<<<<<<< HEAD
MANIFEST_SHA256: Final = "adeee29b8b2e773457f07913c031ece74141e35df43f4c14fa20d7d01e0bc6cd"
=======
MANIFEST_SHA256: Final = "1cb12fc6f289ea4854d119e21d2ffa4f6571bbf5314f69834914f5f6ed643974"
>>>>>>> main
