"""The media type of a file: by its name, or else by how it begins. Nothing of the machine is asked.

>>> media_type_of("report.csv", b"a,b")
'text/csv'
"""

from __future__ import annotations

import codecs
from pathlib import PurePath
from types import MappingProxyType
from typing import Final

__all__ = ["media_type_of", "text_of"]

_BY_SUFFIX: Final = MappingProxyType(
    {
        ".css": "text/css",
        ".csv": "text/csv",
        ".gif": "image/gif",
        ".gz": "application/gzip",
        ".html": "text/html",
        ".jpeg": "image/jpeg",
        ".jpg": "image/jpeg",
        ".json": "application/json",
        ".jsonl": "application/jsonl",
        ".md": "text/markdown",
        ".mp3": "audio/mpeg",
        ".pdf": "application/pdf",
        ".png": "image/png",
        ".svg": "image/svg+xml",
        ".tsv": "text/tab-separated-values",
        ".txt": "text/plain",
        ".wav": "audio/wav",
        ".webp": "image/webp",
        ".xml": "application/xml",
        ".yaml": "application/yaml",
        ".yml": "application/yaml",
        ".zip": "application/zip",
    }
)

_BY_BEGINNING: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
)


def media_type_of(name: str, beginning: bytes) -> str:
    """The media type of a file with this name that begins like this."""
    known = _BY_SUFFIX.get(PurePath(name).suffix.lower())
    found = next((kind for start, kind in _BY_BEGINNING if beginning.startswith(start)), None)
    return known or found or _of_text(beginning)


def text_of(beginning: bytes, *, is_whole: bool = False) -> str | None:
    """The beginning of a file as text, without the half of a character at its end; None if it isn't text."""
    try:
        return None if b"\0" in beginning else codecs.utf_8_decode(beginning, "strict", is_whole)[0]
    except UnicodeDecodeError:
        return None


def _of_text(beginning: bytes) -> str:
    if text_of(beginning) is None:
        return "application/octet-stream"
    return "application/json" if beginning.lstrip()[:1] in (b"{", b"[") else "text/plain"
