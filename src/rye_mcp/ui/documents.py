"""What all documents of the page have: the style sheet, the script, and the headers of their answers.

The style sheet and the script stand in each document, so that it asks for nothing else before it is painted.
The policy among the headers names both: the browser runs nothing else, and frames and keeps no answer.
"""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Final

from rye_mcp.ui.markup import Content, inline, page_of, tag

__all__ = ["HEADERS", "ICON", "document_of"]

_DIRECTORY: Final = Path(__file__).parent / "static"
_STYLE: Final = (_DIRECTORY / "style.css").read_text("utf-8")
_SCRIPT: Final = (_DIRECTORY / "script.js").read_text("utf-8")

_STYLE_ELEMENT: Final = inline("style", _STYLE)
_SCRIPT_ELEMENT: Final = inline("script", _SCRIPT)
ICON: Final = (_DIRECTORY / "icon.svg").read_bytes()


def _hash_of(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


_POLICY: Final = (
    f"default-src 'none'; script-src {_hash_of(_SCRIPT)}; style-src {_hash_of(_STYLE)}; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
"""The content security policy: whatever else is a script or a style in a document is not run."""

HEADERS: Final = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # without one, browsers send forms with the origin "null"
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""The headers of every answer."""


def document_of(title: str, *body: Content) -> str:
    """A document with the style sheet and the script of the page."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("link", rel="icon", href="/icon.svg"),
        _STYLE_ELEMENT,
    )
    return page_of(tag("html", head, tag("body", *body, _SCRIPT_ELEMENT), lang="en"))
