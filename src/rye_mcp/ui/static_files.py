"""The style sheet and the script of the page, which stand in each document, and the policy that names both.

A document asks for nothing else before it is painted.
"""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Final

from rye_mcp.ui.markup import inline

__all__ = ["ICON", "POLICY", "SCRIPT", "STYLE"]

_DIRECTORY: Final = Path(__file__).parent / "static"
_STYLE: Final = (_DIRECTORY / "style.css").read_text("utf-8")
_SCRIPT: Final = (_DIRECTORY / "script.js").read_text("utf-8")

STYLE: Final = inline("style", _STYLE)
SCRIPT: Final = inline("script", _SCRIPT)
ICON: Final = (_DIRECTORY / "icon.svg").read_bytes()


def _hash_of(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


POLICY: Final = (
    f"default-src 'none'; script-src {_hash_of(_SCRIPT)}; style-src {_hash_of(_STYLE)}; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
"""The content security policy: whatever else is a script or a style in a document is not run."""
