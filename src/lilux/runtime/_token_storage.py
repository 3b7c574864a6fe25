"""Where tokens are kept: in the keyring of the operating system, else in files that only their user can read.

- A keyring is used through `keyring`, if that is installed and has a backend that it recommends (priority
  1 or more). Lesser ones write plain text, or ask for a password, which a program without a terminal
  cannot answer.
- A keyring that fails, or takes longer than 10 seconds (because it waits for somebody), is left alone for
  a minute; a notice says so, and a file takes its place.
- A file has mode 0600 in directories of mode 0700, and is written whole. That keeps other users out and
  nobody else: every program of the same user can read it, as can root, and whoever gets hold of the disk
  or a backup. It is not encrypted, since the key would lie beside it. Looser permissions than these are
  refused on reading (IntegrityError).
- When both have a record of a service (a keyring failed for a while), the one that was saved later
  counts.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from lilux import _files
from lilux.primitives.errors import ConfigurationError
from lilux.runtime._tokens import Record

__all__ = ["TokenStorage"]

KEYRING_LIMIT_S: Final = 10.0
"""How long a keyring may take for one answer."""

KEYRING_REST_S: Final = 60.0
"""How long a keyring that has failed is left alone."""

RECOMMENDED: Final = 1
"""From which priority on `keyring` recommends a backend."""

WRITE_LIMIT_S: Final = 10.0
"""How long to wait for another process that changes what is kept."""

FILE_NAME: Final = "token.json"
FILE_LIMIT_BYTES: Final = 1024 * 1024

_log = logging.getLogger("lilux.auth")


class KeyringFailed(Exception):  # noqa: N818 - it is dealt with here
    """A keyring did not do what it was asked to; says nothing of what that was."""


class TokenStorage:
    """Reads, writes and removes records. Whoever reads before writing holds the `lock`."""

    def __init__(self, service_name: str, directory: Path | None, backend: Any, use_keyring: bool) -> None:
        self._service_name = service_name
        self._directory = directory
        self._backend = backend
        self._use_keyring = use_keyring
        self._rests_until = 0.0
        self._notices: dict[str, None] = {}

    @property
    def notices(self) -> tuple[str, ...]:
        """What had to be done otherwise than usual, each once."""
        return tuple(self._notices)

    def read(self, service: str) -> Record | None:
        """The record that counts; ConfigurationError when there is something else in its place."""
        records = (self._read_keyring(service), self._read_file(service))
        return max((record for record in records if record), key=lambda record: record.saved_at, default=None)

    def write(self, record: Record) -> None:
        """Keep a record in place of any other."""
        names, text = self._names(record.service), record.to_json()
        if self._ask(lambda keyring: keyring.set_password(*names, text)):
            self._remove_file(record.service)
        else:
            self._write_file(record.service, text)

    def remove(self, service: str, saved_at: int) -> None:
        """Keep nothing any more. Where a keyring cannot be asked, a later record says that there is none."""
        names = self._names(service)

        def forget(keyring: Any) -> None:
            if keyring.get_password(*names) is not None:
                keyring.delete_password(*names)

        if self._ask(forget) or not self._use_keyring:
            self._remove_file(service)
        else:
            self._write_file(service, Record(service=service, saved_at=saved_at).to_json())

    @contextmanager
    def lock(self, service: str | None = None, *, timeout_s: float | None = None) -> Iterator[None]:
        """Keep other users of this lock out, in this process and others: that of a service, or that of all.

        TimeoutError when somebody stays in too long.
        """
        limit = WRITE_LIMIT_S if timeout_s is None else timeout_s
        with self._opened(service, make=True) as directory, _files.lock(directory, timeout_s=limit):
            yield

    @property
    def directory(self) -> Path:
        """Where files and locks are."""
        if self._directory is None:
            import platformdirs

            self._directory = platformdirs.user_state_path(self._service_name, appauthor=False) / "tokens"
        return self._directory

    # --- files ------------------------------------------------------------------

    def _path(self, service: str) -> Path:
        """A service can be called anything, a file cannot."""
        name = hashlib.sha256(f"{self._service_name}\0{service}".encode()).hexdigest()[:40]
        return self.directory / name / FILE_NAME

    @contextmanager
    def _opened(self, service: str | None, *, make: bool = False) -> Iterator[int]:
        """The directory of a service, or the one around all; that may be looser, since it holds no secret."""
        path, mode = (self.directory, 0o755) if service is None else (self._path(service).parent, 0o700)
        with ExitStack() as stack:
            with _explained(path):
                if make:
                    _files.make_directory(self.directory, mode=0o700)
                    _files.make_directory(path, mode=0o700)
                opened = stack.enter_context(_files.open_directory(path, safe_mode=mode))
            yield opened

    def _read_file(self, service: str) -> Record | None:
        path = self._path(service)
        try:
            with self._opened(service) as directory, _explained(path):
                data = _files.read_capped(path, FILE_LIMIT_BYTES, safe_mode=0o600, directory=directory)
        except FileNotFoundError:
            return None
        try:
            return Record.from_json(data, service)
        except ValueError as exc:
            raise ConfigurationError(f"{exc}: {path}", "directory") from exc

    def _write_file(self, service: str, text: str) -> None:
        path = self._path(service)
        with self._opened(service, make=True) as directory, _explained(path):
            _files.write_whole(path, text.encode(), mode=0o600, directory=directory)

    def _remove_file(self, service: str) -> None:
        path = self._path(service)
        with suppress(FileNotFoundError), _explained(path):
            path.unlink()

    # --- keyring ----------------------------------------------------------------

    def _names(self, service: str) -> tuple[str, str]:
        return self._service_name, service

    def _read_keyring(self, service: str) -> Record | None:
        answers: list[Any] = []
        if not self._ask(lambda keyring: answers.append(keyring.get_password(*self._names(service)))):
            return None
        if answers[0] is None:
            return None
        try:
            return Record.from_json(answers[0], service)
        except ValueError as exc:
            raise ConfigurationError(f"{exc} in the keyring", "keyring") from exc

    def _ask(self, question: Callable[[Any], object]) -> bool:
        """Put a question to the keyring; False when there is none, or it cannot answer now."""
        if not self._use_keyring or time.monotonic() < self._rests_until:
            return False
        try:
            _within(KEYRING_LIMIT_S, lambda: question(self._found()))
        except KeyringFailed as exc:
            self._rests_until = time.monotonic() + KEYRING_REST_S
            self._notice(
                f"{exc}; tokens are kept in {self.directory}, where programs of this user can read them"
            )
            return False
        return True

    def _found(self) -> Any:
        if self._backend is None:
            self._backend = _recommended_backend()
        return self._backend

    def _notice(self, text: str) -> None:
        if text not in self._notices:
            self._notices[text] = None
            _log.warning(text)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Errors of the system as ConfigurationErrors, but for the one that something is not there."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as exc:
        raise ConfigurationError(f"cannot keep tokens in {path}: {exc.strerror}", "directory") from exc


def _recommended_backend() -> Any:
    try:
        import keyring
    except ImportError:
        raise KeyringFailed("no keyring is used: the package `keyring` is not installed") from None
    found = keyring.get_keyring()
    for backend in getattr(found, "backends", [found]):
        if backend.priority >= RECOMMENDED:
            return backend
    raise KeyringFailed("no keyring is used: this system has none that works by itself")


def _within(limit_s: float, call: Callable[[], object]) -> None:
    """Call something that may wait for ever; KeyringFailed when it fails, or has not ended in time."""
    failures: list[KeyringFailed] = []

    def run() -> None:
        try:
            call()
        except KeyringFailed as exc:
            failures.append(exc)
        except Exception as exc:  # noqa: BLE001 - backends raise what they like, and their texts may show a token
            failures.append(KeyringFailed(f"the keyring has failed ({type(exc).__name__})"))

    thread = threading.Thread(target=run, name="lilux keyring", daemon=True)
    thread.start()
    thread.join(limit_s)
    if thread.is_alive():
        raise KeyringFailed(f"the keyring has not answered within {limit_s:g} s")
    if failures:
        raise failures[0]
