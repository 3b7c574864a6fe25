"""Debian's Chromium, driven by playwright; tests that need it are skipped where it is not there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["chromium", "why_not"]


def why_not() -> str | None:
    """Why no browser can be driven here; None where one can."""
    if shutil.which("chromium") is None:
        return "chromium is not there: apt-get install chromium"
    try:
        import playwright  # noqa: F401
    except ImportError:
        return "playwright is not installed: pip install --group dev"
    return None


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser, until the end of the block."""
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    # Its sandbox needs user namespaces, which root and containers often have not.
    arguments = ["--no-sandbox"] if os.getuid() == 0 or "CI" in os.environ else []
    with sync_playwright() as drivers:
        browser = drivers.chromium.launch(executable_path=str(shutil.which("chromium")), args=arguments)
        try:
            yield browser
        finally:
            browser.close()
