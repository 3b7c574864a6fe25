"""Reads `.env` files: one `KEY=value` a line, without escapes, expansion or `${…}`.

Other lines are skipped, and the last of several equal names counts. A file that is there and cannot be read
is a ConfigurationError: leaving its variables out would silently change what runs. No message holds a value.

    >>> parse(b"# who\\nNAME='Ada L'\\nexport NO=1\\n")
    {'NAME': 'Ada L'}
"""

from __future__ import annotations

import errno
import re
from pathlib import Path
from typing import Final

from lilux import _files
from lilux.primitives.errors import ConfigurationError

__all__ = ["FILE_NAME", "LIMIT_BYTES", "parse", "read"]

FILE_NAME: Final = ".env"

LIMIT_BYTES: Final = 1024 * 1024
"""How large a `.env` may be."""

_BLANK: Final = " \t\r"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_ABSENT: Final = frozenset([errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EINVAL, errno.ENXIO])
"""Errors of reading when there is no such file, or when it is not a regular file."""


def read(project: Path) -> dict[str, str]:
    """The variables of a project's `.env`."""
    path = project / FILE_NAME
    try:
        return parse(_files.read_capped(path, LIMIT_BYTES))
    except OSError as exc:
        if exc.errno in _ABSENT:
            return {}
        raise ConfigurationError(f"cannot read {path}: {exc.strerror}", field=FILE_NAME) from exc
    except ValueError as exc:
        raise ConfigurationError(f"cannot use {path}: {exc}", field=FILE_NAME) from exc


def parse(data: bytes) -> dict[str, str]:
    """The variables in the bytes of a `.env`; ValueError when they are no text."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        raise ValueError(f"expected UTF-8, found other bytes in line {line}") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise ValueError(f"expected text, found a NUL in line {line}")
    return dict(pair for line in text.split("\n") if (pair := _pair(line)) is not None)


def _pair(line: str) -> tuple[str, str] | None:
    line = line.strip(_BLANK)
    name, equals, value = line.partition("=")
    name = name.rstrip(_BLANK)
    if not equals or not _NAME.fullmatch(name):
        return None  # comments and exports too: `#…` and `export …` are no names
    value = value.lstrip(_BLANK)
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        value = value[1:-1]
    return name, value
