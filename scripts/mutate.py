"""`python scripts/mutate.py`: take away one guard at a time, and see that the named tests go red without it.

Rules:

- `tests/attacks/mutations.toml` says which text to replace by which, and which tests have to fail then. Each
  text that is replaced occurs exactly once in its file.
- It works in place, in a clean clone only, and restores every file, also after Ctrl-C or SIGTERM.
- `make test` has the first try; what it does not notice, `make test-all` has to. Each line says which of the
  two was red.
- Only a failed test is red. A failing import, a missing test and a broken fixture are errors of the entry.
- Each file that is written gets a time of its own, so that no compiled module of an earlier version is used.
- A mutation of the system space (`seal`) is sealed before the tests run, one of the Rust crates (`build`) is
  built.

Exit codes: 0 all red, 1 not all, 2 refused to start or stopped.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

__all__ = ["ROOT", "TABLE", "Edit", "Mutation", "MutationError", "load", "main"]

ROOT: Final = Path(__file__).resolve().parents[1]
TABLE: Final = ROOT / "tests/attacks/mutations.toml"

_SEALED: Final = (".ai/manifest.json", "src/rye_mcp/trust/sealed.py")
_SEAL: Final = (sys.executable, "-m", "scripts.reference.seal")
_BUILD: Final = ("make", "bytecode")
_PYTEST: Final = ("-m", "pytest", "-q", "-x", "-p", "no:randomly", "-p", "no:cacheprovider", "--no-header")
_FAILED: Final = re.compile(r"^[1-9][0-9]* failed\b.* in [0-9.]+s", re.MULTILINE)
_TESTS_FAILED: Final = 1
_NO_TESTS: Final = 5
_LIMIT_S: Final = 600
_KEYS: Final = frozenset({"guards", "without", "file", "old", "new", "edits", "red", "seal", "build"})
_OF_AN_EDIT: Final = frozenset({"file", "old", "new"})


class MutationError(Exception):
    """An entry that cannot be tried as it is, or a command that it needs and that failed."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A text of a file, by its path from the root, and what takes its place."""

    file: str
    old: str
    new: str

    @classmethod
    def parse(cls, table: Mapping[str, Any]) -> Edit:
        """The edit that a table of the TOML describes."""
        if table.keys() != _OF_AN_EDIT:
            raise MutationError(f"expected file, old and new in an edit, found {sorted(table)}")
        return cls(table["file"], table["old"], table["new"])

    def applied_to(self, text: str) -> str:
        """The text of the file after the edit."""
        found = text.count(self.old)
        if found != 1:
            raise MutationError(f"expected {self.old!r} once in {self.file}, found it {found} times")
        return text.replace(self.old, self.new)


@dataclass(frozen=True, slots=True)
class Mutation:
    """One guard: what it protects, what is different without it, and the tests that notice."""

    guards: str
    without: str
    edits: tuple[Edit, ...]
    red: tuple[str, ...]
    seal: bool = False
    build: bool = False

    @classmethod
    def parse(cls, table: Mapping[str, Any]) -> Mutation:
        """The mutation that a table of the TOML describes."""
        if unknown := table.keys() - _KEYS:
            raise MutationError(f"expected no other keys in a mutation, found {sorted(unknown)}")
        of_one = {name: table[name] for name in _OF_AN_EDIT if name in table}
        edits = tuple(map(Edit.parse, table.get("edits", [of_one])))
        return cls(
            table["guards"],
            table["without"],
            edits,
            tuple(table["red"]),
            table.get("seal", False),
            table.get("build", False),
        )

    @property
    def title(self) -> str:
        """The mutation in one line."""
        return f"{self.guards}: {self.without}"

    @property
    def files(self) -> tuple[str, ...]:
        """Every file that is another one while the mutation is tried."""
        edited = tuple(dict.fromkeys(edit.file for edit in self.edits))
        return (*edited, *_SEALED) if self.seal else edited

    def mentions(self, word: str) -> bool:
        """Whether a word occurs in what is said about the mutation."""
        return any(word.lower() in text.lower() for text in (self.title, *self.red))


def load(table: Path = TABLE) -> tuple[Mutation, ...]:
    """Every mutation of the table, in its order."""
    found = tomllib.loads(table.read_text(encoding="utf-8"))
    return tuple(map(Mutation.parse, found["mutation"]))


class _Tree:
    """The files of the clone, and what they were before."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._last = 0

    @contextmanager
    def mutated(self, mutation: Mutation) -> Iterator[None]:
        """The tree without the guard, until the block ends."""
        before = {name: self._read(name) for name in mutation.files}
        try:
            for edit in mutation.edits:
                text = edit.applied_to((self._root / edit.file).read_text(encoding="utf-8"))
                if edit.file.endswith(".py"):
                    _require_python(text, edit.file)
                self._write(edit.file, text.encode())
            if mutation.seal:
                self._run(_SEAL)
                self._touch(_SEALED[1])
            if mutation.build:
                self._run(_BUILD)
            yield
        finally:
            for name, (content, time_ns) in before.items():
                self._write(name, content)
                if not mutation.build:  # which Cargo would not notice
                    os.utime(self._root / name, ns=(time_ns, time_ns))
            if mutation.build:
                self._run(_BUILD)

    def _read(self, name: str) -> tuple[bytes, int]:
        path = self._root / name
        return path.read_bytes(), path.stat().st_mtime_ns

    def _write(self, name: str, content: bytes) -> None:
        (self._root / name).write_bytes(content)
        self._touch(name)

    def _touch(self, name: str) -> None:
        """Give a file a whole second of its own: by seconds and size, Python knows what it has compiled.

        It is the next one, as Cargo builds only what is newer than its last build.
        """
        self._last = max(int(time.time()), self._last) + 1
        os.utime(self._root / name, (self._last, self._last))

    def _run(self, command: Sequence[str]) -> None:
        done = subprocess.run(command, cwd=self._root, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode:
            raise MutationError(f"expected {command[-1]} to succeed, found: {done.stderr.strip()[-500:]}")


def _require_python(text: str, file: str) -> None:
    try:
        compile(text, file, "exec")
    except SyntaxError as exc:
        raise MutationError(f"expected Python in {file} after the edit, found: {exc}") from exc


def _verdict(mutation: Mutation, tree: _Tree) -> tuple[str, str, str]:
    """How a mutation ends, `red`, `GREEN` or `error`; in which tier, and what was said."""
    try:
        with tree.mutated(mutation):
            noticed = [_noticed(test) for test in mutation.red]
    except (MutationError, OSError, subprocess.TimeoutExpired) as exc:
        return "error", "", str(exc)
    return next((each for each in noticed if each[0] != "red"), max(noticed, key=lambda each: each[1]))


def _noticed(test: str) -> tuple[str, str, str]:
    """The same of one test: each has to fail by itself, whatever the others do."""
    verdict, said = _tested(test, "quick")
    if verdict != "GREEN":
        return verdict, "make test", said
    verdict, said = _tested(test, "rest")
    return verdict, "make test-all", f"{test}\n{said}"


def _tested(test: str, tier: str) -> tuple[str, str]:
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(  # noqa: S603
        [sys.executable, *_PYTEST, "--tier", tier, test],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=_LIMIT_S,
        check=False,
    )
    if done.returncode in (0, _NO_TESTS):
        return "GREEN", done.stdout
    is_red = done.returncode == _TESTS_FAILED and _FAILED.search(done.stdout)
    return ("red" if is_red else "error"), done.stdout


def _require_clean() -> None:
    command = ["git", "status", "--porcelain", "--untracked-files=no"]
    changed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout  # noqa: S603
    if changed:
        raise MutationError(
            f"expected a clean clone, found changes:\n{changed}Commit them, or use a new clone."
        )


def _try_all(mutations: Sequence[Mutation], *, show: bool) -> Counter[str]:
    counts: Counter[str] = Counter()
    tree = _Tree(ROOT)
    for mutation in mutations:
        begun = time.monotonic()
        verdict, tier, said = _verdict(mutation, tree)
        counts[verdict] += 1
        print(f"{verdict:<5} {time.monotonic() - begun:6.1f} s  {tier:<13}  {mutation.title}", flush=True)
        if show or verdict == "error":
            print(said, flush=True)
    return counts


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the mutations; exit code 0 when all are red."""
    parser = argparse.ArgumentParser(description="Remove guards, and see that the named tests go red.")
    parser.add_argument("--only", metavar="WORD", default="", help="those that mention the word")
    parser.add_argument("--list", action="store_true", help="list them, and try none")
    parser.add_argument("--show", action="store_true", help="print what pytest says of each")
    options = parser.parse_args(arguments)
    mutations = [each for each in load() if each.mentions(options.only)]
    if not mutations:
        parser.error(f"expected a word that some mutation mentions, found {options.only!r}")
    if options.list:
        for each in mutations:
            print(f"{each.title} ({', '.join(each.red)})")
        return 0
    try:
        _require_clean()
    except MutationError as exc:
        print(exc, file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))
    try:
        counts = _try_all(mutations, show=options.show)
    except KeyboardInterrupt:
        print("stopped; every file is as it was", file=sys.stderr)
        return 2
    print(f"{counts['red']} red, {counts['GREEN']} green, {counts['error']} errors")
    return 0 if counts.total() == counts["red"] else 1


if __name__ == "__main__":
    sys.exit(main())
