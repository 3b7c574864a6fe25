"""Run the tests of what a change touches: those that import a changed module, directly or through others.

    python scripts/changed_tests.py [--base REV] [--list] [arguments of pytest]

Rules:

- A change is what differs from `--base` (HEAD), committed or not, and each new file that git does not ignore.
- An import counts wherever it stands, also inside a function. A text that is the name of a module counts too,
  and so does an entry point: the commands of `rye` and the primitives are loaded by name. A text that is the
  name of a file counts as an import of that file. Whoever imports a module imports its packages.
- A change of a file that is not Python counts as a change of the module that uses it (`STANDS_FOR`). A change
  of any other file, of a `conftest.py`, or of a file that is gone, selects all tests of `make test`.
- `--list` names the tests first whose way to the change is shortest.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCES: Final = ("src", "tests", "benchmarks", "scripts")
NOTHING_SELECTED: Final = 5

STANDS_FOR: Final[Mapping[str, str]] = {
    "crates/": "src/lilux/_supervisor.py",
    "Cargo.": "src/lilux/_supervisor.py",
    ".ai/": "src/rye_mcp/trust/sealed.py",
    "src/rye_mcp/templates/": "src/rye_mcp/verbs/new.py",
    "tests/attacks/mutations.": "scripts/mutate.py",
    "tests/assets/protocol/": "src/lilux/_protocol.py",
    "tests/containment/misbehave.c": "tests/containment/scene.py",
    "tests/conformance/": "tests/node_world.py",
    "benchmarks/native/": "benchmarks/harness/native.py",
    "docs/": "tests/document_pages.py",
    "examples/": "tests/document_pages.py",
    "README.md": "tests/document_pages.py",
}
"""What a path begins with that is not Python, and the file that changes with it."""

LOADS_ENTRY_POINTS: Final = "src/rye_mcp/executor/job/primitives.py"

NOTHING: Final = (
    "LICENSE",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    ".gitignore",
    ".gitattributes",
    ".editorconfig",
)
"""No test of `make test` looks at these."""


def main(arguments: list[str]) -> int:
    """Run them, and return the exit code."""
    parser = argparse.ArgumentParser(description="Run the tests of what a change touches.", add_help=True)
    parser.add_argument("--base", default="HEAD", help="what to compare with (%(default)s)")
    parser.add_argument("--list", action="store_true", help="print the files instead of running them")
    options, others = parser.parse_known_args(arguments)
    changed = changed_files(options.base)
    chosen = tests_of(changed)
    if chosen is None:
        print("A file that every test may depend on has changed, so all of them run.", flush=True)
    elif not chosen:
        print(f"No test depends on what differs from {options.base} ({len(changed)} files).")
        return 0
    else:
        print(f"{len(chosen)} files of tests depend on what differs from {options.base}.", flush=True)
    if options.list:
        print(*(chosen or ["tests"]), sep="\n")
        return 0
    command = [sys.executable, "scripts/run_tests.py", "quick", *others, *(chosen or [])]
    code = subprocess.run(command, cwd=ROOT, check=False).returncode  # noqa: S603 - this program
    return 0 if code == NOTHING_SELECTED else code


def changed_files(base: str) -> list[str]:
    """The paths of all files that differ from a revision."""
    differs = _git("diff", "--name-only", "--no-renames", base)
    return sorted({*differs, *_git("ls-files", "--others", "--exclude-standard")})


def tests_of(changed: Iterable[str]) -> list[str] | None:
    """The files of tests that depend on changed files, the nearest first; None for all."""
    beginnings: set[str] = set()
    for path in changed:
        if path in NOTHING:
            continue
        stand_in = path if path.endswith(".py") and path.startswith(SOURCES) else _stand_in(path)
        if stand_in not in _sources() or Path(stand_in).name == "conftest.py":
            return None
        beginnings.add(stand_in)
    return [path for path in reached_from(beginnings, importers()) if _is_a_test(path)]


def reached_from(beginnings: Collection[str], importers_of: Mapping[str, Collection[str]]) -> list[str]:
    """The files, and all that import them, directly or through others; the nearest first."""
    found = dict.fromkeys(sorted(beginnings))
    waiting = list(found)
    for path in waiting:
        new = [each for each in sorted(importers_of.get(path, ())) if each not in found]
        found.update(dict.fromkeys(new))
        waiting += new
    return list(found)


@cache
def importers() -> dict[str, set[str]]:
    """For each file the files that import it."""
    modules = {_name(path): path for path in _sources()}
    found: dict[str, set[str]] = {}
    for path in _sources():
        names = imported_names((ROOT / path).read_text(encoding="utf-8"))
        for name in (*names, *(_entry_points() if path == LOADS_ENTRY_POINTS else ())):
            for target in _meant(name, path, modules):
                found.setdefault(target, set()).add(path)
    return found


def imported_names(source: str) -> Iterator[str]:
    """Every name that a source imports, or that may be the name of a module or of a file."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names):
                yield from (f"{module}.{alias.name}" for alias in names)
            case ast.Constant(value=str(text)) if "." in text and text.replace(".", "").isidentifier():
                yield text


def _meant(name: str, path: str, modules: Mapping[str, str]) -> Iterator[str]:
    """The files that a name means in a file: a file beside it, or a module and its packages."""
    beside = (Path(path).parent / name).as_posix()
    if beside in _sources():
        yield beside
    while name:
        if modules.get(name, path) != path:
            yield modules[name]
        name = name.rpartition(".")[0]


def _entry_points() -> Iterator[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for group in (project["scripts"], *project["entry-points"].values()):
        yield from (place.partition(":")[0] for place in group.values())


def _stand_in(path: str) -> str:
    return next((there for start, there in STANDS_FOR.items() if path.startswith(start)), path)


def _name(path: str) -> str:
    """What a file is imported as."""
    parts = Path(path).with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    is_script = parts[0] == "benchmarks" and len(parts) == len(("benchmarks", "script"))
    return ".".join(parts[1:] if parts[0] in ("src", "benchmarks") and not is_script else parts)


@cache
def _sources() -> Collection[str]:
    patterns = [f"{each}/*.py" for each in SOURCES]
    listed = _git("ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns)
    return dict.fromkeys(path for path in listed if (ROOT / path).is_file())


def _is_a_test(path: str) -> bool:
    return path.startswith("tests/") and Path(path).name.startswith("test_")


def _git(command: str, *arguments: str) -> list[str]:
    """What a command of git lists."""
    done = subprocess.run(  # noqa: S603 - git, in this repository
        ["git", command, "-z", *arguments],  # noqa: S607
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return [path for path in done.stdout.split("\0") if path]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
