"""Somebody else: the user who may do nothing. Only root can become him."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.containment.client import Client
from tests.containment.command_line import CommandLine

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

ID = 65534
PREFIX = ("setpriv", f"--reuid={ID}", f"--regid={ID}", "--clear-groups")


class Nobody:
    """A directory that everybody may enter, with a supervisor in it, and ways to use that as nobody."""

    def __init__(self, directory: Path, binary: Path) -> None:
        self.directory = directory
        self.binary = Path(shutil.copy(binary, directory / "lilux-proc"))
        self.command_line = CommandLine(self.binary, before=PREFIX)

    @classmethod
    @contextmanager
    def enter(cls, binary: Path) -> Iterator[Nobody]:
        with TemporaryDirectory(prefix="nobody-") as directory:
            Path(directory).chmod(0o755)
            yield cls(Path(directory), binary)

    def client(self) -> AbstractContextManager[Client]:
        return Client.start(self.binary, before=PREFIX)
