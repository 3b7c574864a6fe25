"""Rules about the source that no import contract can state.

The other import rules are checked by import-linter, see `.importlinter`.
"""

import ast
import dataclasses
import importlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from importlib.metadata import files
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
MODULES = sorted(path for path in SOURCE.rglob("*.py") if ".ai" not in path.parts)

MAY_START_PROCESSES = SOURCE / "lilux" / "_supervisor.py"

# Modules that exist to start processes, and the functions that do so in modules with other purposes too.
PROCESS_MODULES = {"subprocess", "multiprocessing", "pty", "popen2", "commands", "pexpect", "sh"}
PROCESS_FUNCTIONS = {
    "create_subprocess_exec",
    "create_subprocess_shell",
    "fork",
    "forkpty",
    "open_process",
    "popen",
    "posix_spawn",
    "posix_spawnp",
    "ProcessPoolExecutor",
    "run_process",
    "startfile",
    "subprocess_exec",
    "subprocess_shell",
    *(f"exec{form}" for form in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")),
    *(f"spawn{form}" for form in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")),
}
# `system` is a common word, so it counts only as a member of `os`.
PROCESS_MEMBERS = {("os", "system")}

# What is what it is since a check has passed, and the only module that may say so.
STAGES = {
    "VerifiedItem": SOURCE / "rye_mcp/trust/verify.py",
    "DependencyManifest": SOURCE / "rye_mcp/trust/dependency_manifest.py",
    "BundledFiles": SOURCE / "rye_mcp/executor/chain/files.py",
    "Chain": SOURCE / "rye_mcp/executor/chain/builder.py",
    "VerifiedChain": SOURCE / "rye_mcp/executor/chain/verifier.py",
    "ValidChain": SOURCE / "rye_mcp/executor/chain/validator.py",
    "PinnedChain": SOURCE / "rye_mcp/executor/lock/resolver.py",
    "DecidedCall": SOURCE / "rye_mcp/executor/decider.py",
    "PreparedCall": SOURCE / "rye_mcp/executor/preparation.py",
}

# Tests go through what is public. These private modules they reach, and this is what nothing else shows.
MAY_BE_REACHED = {
    "lilux._dataclasses": "values that behave as those of the standard library, made later",
    "lilux._files": "files are written whole or not at all, on a full disk and by several processes at once",
    "lilux._footprints": "files that change at any moment, and whatever a call looks at",
    "lilux._frames": "bytes that are cut anywhere, against fixtures that the supervisor reads too",
    "lilux._http.address": "a table of addresses, public and not",
    "lilux._http.body": "every way to cut, pack and spoil a body",
    "lilux._http.events": "a stream of events that is cut anywhere",
    "lilux._http.retry": "how long all attempts of a call may take, without waiting for them",
    "lilux._http.url": "tables of templates, origins, and what values may not change in an address",
    "lilux._json": "values of JSON that is cut anywhere, without a message of many megabytes",
    "lilux._process": "what of a configuration reaches the supervisor, without a process for each case",
    "lilux._protocol": "the messages, against fixtures that the supervisor reads too",
    "lilux._results": "the parts of a message's result, compared with the same fixtures",
    "lilux._supervisor": "supervisors that lie, hang or are killed, and their pids",
    "lilux._stamps": "a change that no clock can tell from the one before it",
    "lilux._templates": "a table of templates, and texts that must not be taken for one",
    "lilux._threads": "what a thread that has no work leaves, and the child of a fork",
    "lilux._trees": "links and odd files at every place of a path, under any race",
    "lilux.runtime._dotenv": "a table of lines, and any bytes at all",
    "lilux.runtime._env_config": "which interpreter a configuration names, whether it is there or not",
    "lilux.schemas._compiled": "how many schemas are kept, and that an equal one is not read again",
    "lilux.schemas._keywords": "schemas and patterns that take for ever, within a second",
    "lilux.schemas._formats": "a table of texts for each format",
    "lilux.schemas._patterns": "a table of patterns, and what JavaScript makes of them",
    "lilux.schemas._plain": "what is decided early is decided alike, of any schema and value",
    "rye_mcp.catalog._document": "what a document says in each field, for an evaluation that uses no index",
    "rye_mcp.catalog._ranking": "a table of sentences, and what any words of a document are worth",
    "rye_mcp.catalog._space_index": "the limits of an index, without a clone of as many gigabytes",
    "rye_mcp.cli._printing": "what terminals and pipes are shown of any refusal and any rows, at each width",
    "rye_mcp.cli._client_files": "a table of documents, of which one member changes",
    "rye_mcp.cli._signers": "a table of scopes, told in words",
    "rye_mcp.cli._log_lines": "loggers, warnings and threads of libraries, which no command has at will",
    "rye_mcp.cli._parameters": "a table of command lines, by what a schema says",
    "rye_mcp.cli._terminal": "a table of answers, and what they choose",
    "rye_mcp.primitives._markdown": "a table of pages, and what a reader gets of them",
    "rye_mcp.primitives._process_files": "logs of a few bytes, so that their parts change often",
    "rye_mcp.runs._pieces": "pieces of any bytes, one after the other",
    "rye_mcp.spaces._directories": "what is known of a directory spares a look into it",
    "rye_mcp.trust._toml": "any text is quoted so that reading gives it back",
    "rye_mcp.verbs._selection": "a table of patterns, and any others compared with those of a shell",
    "rye_mcp.executor.environment.variables._OWN_PROGRAMS": "a project whose own environment holds rye-mcp",
    "rye_mcp.__main__": "the module as an interpreter is told to run it",
}

# A program under trio has trio, an installation with the extra `onnx` has the others; nobody else needs them.
IMPORTED_WHERE_IN_USE = {"numpy", "onnxruntime", "tokenizers", "trio"}


@cache
def parsed(source: str) -> ast.Module:
    """The tree of a source: several rules look at each module."""
    return ast.parse(source)


def process_starts(source: str) -> Iterator[str]:
    """Yield each place of a module's source that can start a process, as `line: what`."""
    for node in ast.walk(parsed(source)):
        for name in _process_names(node):
            yield f"{getattr(node, 'lineno', 0)}: {name}"


def _process_names(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names if alias.name.split(".")[0] in PROCESS_MODULES)
        case ast.ImportFrom(module=str(module), names=names, level=0):
            if module.split(".")[0] in PROCESS_MODULES:
                yield module
            yield from (alias.name for alias in names if _starts(module, alias.name))
        case ast.Attribute(value=ast.Name(id=owner), attr=name) if _starts(owner, name):
            yield name
        case ast.Attribute(attr=name) if name in PROCESS_FUNCTIONS:
            yield name


def _starts(owner: str, name: str) -> bool:
    return name in PROCESS_FUNCTIONS or (owner, name) in PROCESS_MEMBERS


def everywhere(find: Callable[[Path], Iterable[str]]) -> dict[str, list[str]]:
    """What is found in the modules of both packages, by their paths."""
    return {str(path.relative_to(SOURCE)): found for path in MODULES if (found := list(find(path)))}


def test_only_the_supervisor_starts_processes() -> None:
    found = everywhere(lambda module: process_starts(module.read_text(encoding="utf-8")))
    become = found.pop("rye_mcp/inspector.py")
    assert [each.rpartition(" ")[2] for each in become] == ["execv"], "it becomes the server, no more"
    forks = found.pop("lilux/_waiter.py")
    assert [each.rpartition(" ")[2] for each in forks] == ["fork"], (
        "a text for interpreters that have a keeper"
    )
    workers = found.pop("rye_mcp/nodes/sidecar.py")
    assert [each.rpartition(" ")[2] for each in workers] == ["create_subprocess_exec"], (
        "in the process of another program, on another machine: a worker"
    )
    assert found.keys() == {"lilux/_supervisor.py"}, "nothing else may start processes"


@pytest.mark.parametrize(
    "source",
    [
        "import subprocess",
        "import subprocess as s",
        "from subprocess import run",
        "import multiprocessing.pool",
        "def f():\n    from multiprocessing import Process",
        "import os\nos.system('ls')",
        "import os\nos.fork()",
        "from os import execv",
        "from os import system",
        "import os\nos.posix_spawn('/bin/true', [], {})",
        "import asyncio\nasyncio.create_subprocess_exec('ls')",
        "from anyio import run_process",
        "loop.subprocess_exec(f)",
        "from concurrent.futures import ProcessPoolExecutor",
    ],
)
def test_every_way_to_start_a_process_is_noticed(source: str) -> None:
    assert list(process_starts(source))


@pytest.mark.parametrize(
    "source",
    [
        "from lilux.primitives.subprocess import SubprocessPrimitive",
        "import lilux.primitives.subprocess",
        "import platform\nplatform.system()",
        "primitive.spawn('ls', [])",
        "import os\nos.environ",
    ],
)
def test_harmless_names_are_left_alone(source: str) -> None:
    assert not list(process_starts(source))


def constructions(source: str, stage: str) -> Iterator[str]:
    """Yield each place of a module's source that can make a value of a stage, as `line: what`.

    A changed copy is one too: what that is of, a source does not say, so the fields that change tell it.
    """
    nodes, untyped = _names_and_calls(source)
    yield from _changed_copies(nodes, fields_of(stage))
    for node in untyped:
        match node:
            case ast.ImportFrom(names=names):
                yield from (
                    f"{node.lineno}: as {each.asname}" for each in names if each.name == stage and each.asname
                )
            case ast.Name(id=name) | ast.Attribute(attr=name) if name == stage:
                yield f"{node.lineno}: {name}"


@lru_cache(maxsize=1)
def _names_and_calls(source: str) -> tuple[Sequence[ast.AST], Sequence[ast.AST]]:
    """What a source imports, names and calls; and of that, what no type declares."""
    nodes = list(ast.walk(parsed(source)))
    typed = {id(each) for node in nodes for each in _annotations(node)}
    found = [node for node in nodes if isinstance(node, ast.ImportFrom | ast.Name | ast.Attribute | ast.Call)]
    return found, [node for node in found if id(node) not in typed]


def _annotations(node: ast.AST) -> Iterator[ast.AST]:
    """Everything inside of the types that this node declares: to name a stage there makes none."""
    for name in ("annotation", "returns"):
        if isinstance(annotation := getattr(node, name, None), ast.AST):
            yield from ast.walk(annotation)


def fields_of(stage: str) -> frozenset[str]:
    """What a value of a stage consists of."""
    name = ".".join(STAGES[stage].relative_to(SOURCE).with_suffix("").parts)
    return frozenset(
        field.name for field in dataclasses.fields(getattr(importlib.import_module(name), stage))
    )


def _changed_copies(nodes: Sequence[ast.AST], names: frozenset[str]) -> Iterator[str]:
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    is_imported = any(map(_imports_replace, nodes))
    for node in nodes:
        match node:
            case ast.ImportFrom(names=imported) if _imports_replace(node):
                aliases = [each.asname for each in imported if each.name == "replace" and each.asname]
                yield from (f"{node.lineno}: replace as {alias}" for alias in aliases)
            case ast.Attribute(attr="__replace__"):
                yield f"{node.lineno}: __replace__"
            case ast.Name(id="replace") if is_imported and id(node) not in called:
                yield f"{node.lineno}: replace, not called here"
            case ast.Attribute(value=ast.Name(id="dataclasses" | "copy"), attr="replace") if (
                id(node) not in called
            ):
                yield f"{node.lineno}: {ast.unparse(node)}, not called here"
            case ast.Call(func=ast.Name(id="replace") | ast.Attribute(attr="replace")):
                changed = {keyword.arg for keyword in node.keywords}
                if None in changed or changed & names:
                    yield f"{node.lineno}: {ast.unparse(node)}"


def _imports_replace(node: ast.AST) -> bool:
    match node:
        case ast.ImportFrom(module="dataclasses" | "copy", names=names):
            return any(each.name == "replace" for each in names)
    return False


def test_only_its_own_module_makes_a_stage() -> None:
    def made_in(module: Path) -> list[str]:
        source = module.read_text(encoding="utf-8")
        if not any(word in source for word in (*STAGES, "replace")):
            return []
        return [stage for stage in STAGES if any(constructions(source, stage))]

    homes: dict[str, list[str]] = {}
    for stage, home in STAGES.items():
        homes.setdefault(str(home.relative_to(SOURCE)), []).append(stage)
    assert everywhere(made_in) == homes, "call the module that makes the stage instead"


@pytest.mark.parametrize(
    "source",
    [
        "VerifiedItem(file)",
        "verify.VerifiedItem(file)",
        "make = VerifiedItem",
        "VerifiedItem.__new__(VerifiedItem)",
        "object.__new__(VerifiedItem)",
        "cast(VerifiedItem, item)",
        "from rye_mcp.trust.verify import VerifiedItem as V",
        "class Mine(VerifiedItem): pass",
        "getattr(verify, 'x')(VerifiedItem)",
        "from dataclasses import replace\nreplace(verified, file=other)",
        "import dataclasses\ndataclasses.replace(verified, digest=digest, role=role)",
        "import dataclasses as d\nd.replace(verified, signer=signer)",
        "import copy\ncopy.replace(verified, evidence=evidence)",
        "replace(verified, **changes)",
        "from dataclasses import replace as changed",
        "from copy import replace as changed",
        "from dataclasses import replace\nmake = partial(replace, role=role)",
        "import copy\nmake = copy.replace",
        "verified.__replace__(file=other)",
    ],
)
def test_every_way_to_make_a_stage_is_noticed(source: str) -> None:
    assert list(constructions(source, "VerifiedItem"))


@pytest.mark.parametrize(
    "source",
    [
        "from rye_mcp.trust.verify import VerifiedItem, verify_item",
        "def f(item: VerifiedItem | None = None, *items: list[VerifiedItem]) -> VerifiedItem: ...",
        "class A:\n    item: VerifiedItem",
        "item = verify_item(file, trust)",
        "replace(file, content=content)",
        "'a'.replace('a', 'b')",
        "path = text.replace",
        "def f(*, replace: bool = False): g(replace=replace)",
    ],
)
def test_to_name_a_stage_as_a_type_is_fine(source: str) -> None:
    assert not list(constructions(source, "VerifiedItem"))


def private_imports(source: str, name: str) -> Iterator[str]:
    """Yield each private module of another package of the orchestrator that this module imports."""
    for node in ast.walk(parsed(source)):
        match node:
            case ast.Import(names=names):
                imported = [alias.name for alias in names]
            case ast.ImportFrom(module=str(module), names=names):
                imported = [f"{module}.{alias.name}" for alias in names]
            case _:
                continue
        for each in imported:
            package, mark, private = each.partition("._")
            if mark and package.startswith("rye_mcp.") and not f"{name}.".startswith(f"{package}."):
                yield f"{package}._{private.partition('.')[0]}"


def test_what_is_private_to_a_package_is_imported_in_it_alone() -> None:
    def imported_by(module: Path) -> set[str]:
        name = ".".join(module.relative_to(SOURCE).with_suffix("").parts)
        return set(private_imports(module.read_text(encoding="utf-8"), name))

    assert not everywhere(imported_by), "give what others need a module without an underscore"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from rye_mcp.trust._toml import parse", ["rye_mcp.trust._toml"]),
        ("from rye_mcp.trust import _toml, scope", ["rye_mcp.trust._toml"]),
        ("def f():\n    import rye_mcp.trust._toml as t", ["rye_mcp.trust._toml"]),
        ("from rye_mcp.verbs._chains import Chains", []),
        ("from rye_mcp.files import Tree\nfrom lilux import _files", []),
    ],
)
def test_every_private_import_is_noticed(source: str, found: list[str]) -> None:
    assert list(private_imports(source, "rye_mcp.verbs.load")) == found


def reached(source: str) -> Iterator[str]:
    """Yield each private module, and each private name of a public one, that a test reaches.

    It may import it, take or replace it by its name, or do so in a script that it runs.
    """
    nodes = list(ast.walk(ast.parse(source)))
    pairs = [pair for node in nodes for pair in _imports_of(node)]
    yield from filter(None, (_private(path) for _, path in pairs))
    imported = dict(pairs)
    for node in nodes:
        match node:
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner in imported:
                yield from filter(None, [_private(f"{imported[owner]}.{name}")])
            case ast.Call(args=[ast.Name(id=owner), ast.Constant(value=str(name)), *_]) if owner in imported:
                yield from filter(None, [_private(f"{imported[owner]}.{name}")])
            case ast.Constant(value=str(text)):
                yield from _reached_in(text)


def _imports_of(node: ast.AST) -> Iterator[tuple[str, str]]:
    """What is imported: the local name, and the whole path."""
    match node:
        case ast.Import(names=names):
            yield from ((alias.asname or alias.name, alias.name) for alias in names)
        case ast.ImportFrom(module=str(module), names=names, level=0):
            yield from ((alias.asname or alias.name, f"{module}.{alias.name}") for alias in names)


def _reached_in(text: str) -> Iterator[str]:
    """The same, in a text that may be a script, a path, or anything else."""
    paths = re.findall(r"\b(?:lilux|rye_mcp)[.\w]+", text)
    for module, names in re.findall(r"\bfrom (\S+) import ([\w, ]+)", text):
        paths += [f"{module}.{name.strip()}" for name in names.split(",")]
    yield from filter(None, map(_private, paths))


@cache
def _private(path: str) -> str | None:
    """The private module that a path leads into, or the private name of a public one; None for all others."""
    parts = path.split(".")
    depth = next((depth for depth in range(len(parts), 0, -1) if _is_module(parts[:depth])), 0)
    if any(part.startswith("_") for part in parts[:depth]):
        return ".".join(parts[:depth])
    if depth:
        for end, name in enumerate(parts[depth:], start=depth + 1):
            if name.startswith("_") and not name.endswith("__"):
                return ".".join(parts[:end])
    return None


def _is_module(parts: list[str]) -> bool:
    place = SOURCE.joinpath(*parts)
    return place.is_dir() or place.with_suffix(".py").is_file()


@cache
def reached_by_tests() -> dict[str, list[str]]:
    """Each private module or name that tests reach, and the files that do."""
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("*.py")):
        if path != Path(__file__):
            for name in set(reached(path.read_text(encoding="utf-8"))):
                found.setdefault(name, []).append(str(path.relative_to(ROOT)))
    return found


def test_tests_reach_private_names_only_where_nothing_else_shows_the_behaviour() -> None:
    found = {name: files for name, files in reached_by_tests().items() if name not in MAY_BE_REACHED}
    assert not found, f"go through what is public, or say in MAY_BE_REACHED why that shows nothing: {found}"


@pytest.mark.thorough
def test_every_private_module_that_may_be_reached_is_reached() -> None:
    unused = MAY_BE_REACHED.keys() - reached_by_tests().keys()
    assert not unused, f"take these out of MAY_BE_REACHED, no test needs them: {sorted(unused)}"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from lilux import _files", "lilux._files"),
        ("from lilux._files import lock as held", "lilux._files"),
        ("def f():\n    import lilux._http.address as a", "lilux._http.address"),
        ("from lilux._http import address", "lilux._http.address"),
        ("from rye_mcp.runs.log import _INSERT", "rye_mcp.runs.log._INSERT"),
        ("from rye_mcp.runs import log\nlog._INSERT", "rye_mcp.runs.log._INSERT"),
        ("from rye_mcp.runs import log as l\nset(l, '_INSERT', 1)", "rye_mcp.runs.log._INSERT"),
        ("from rye_mcp.runs.log import RunLog\nRunLog._page", "rye_mcp.runs.log.RunLog._page"),
        ("patch.setattr('lilux.schemas._keywords.TIME_LIMIT_S', 1)", "lilux.schemas._keywords"),
        ("patch.setattr('rye_mcp.runs.log._INSERT', 1)", "rye_mcp.runs.log._INSERT"),
        ("SCRIPT = 'import sys\\nfrom lilux import _files\\n'", "lilux._files"),
        ("SCRIPT = f'from lilux import files, _files; {x}'", "lilux._files"),
        ("SCRIPT = 'import rye_mcp.verbs._chains'", "rye_mcp.verbs._chains"),
    ],
)
def test_every_way_to_reach_a_private_name_is_noticed(source: str, found: str) -> None:
    assert set(reached(source)) == {found}


@pytest.mark.parametrize(
    "source",
    [
        "from lilux.schemas import validate_parameters",
        "import rye_mcp\nrye_mcp.__file__",
        "from tests.people import _own\nimport _thread",
        "from rye_mcp.executor.job.jobs import run_job",
        "SCRIPT = 'from rye_mcp import __version__'",
    ],
)
def test_what_is_public_is_reached_freely(source: str) -> None:
    assert not list(reached(source))


def test_every_imported_package_is_a_declared_dependency() -> None:
    """What is imported but not declared works here, thanks to the development tools, and fails for users."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {_distribution(requirement) for requirement in project["dependencies"]}
    own = {path.name for path in SOURCE.iterdir()}
    foreign = {name for module in MODULES for name in _imported(module)} - own - sys.stdlib_module_names
    # Several distributions share a namespace package; of those, what is not declared belongs to an extra.
    provided = {path.parts[0].removesuffix(".py") for each in declared for path in files(each) or ()}
    assert foreign - IMPORTED_WHERE_IN_USE - provided == set()


@pytest.mark.parametrize("name", sorted(IMPORTED_WHERE_IN_USE))
def test_a_package_that_not_everybody_has_is_no_condition_for_importing_ours(name: str) -> None:
    missing = f"import sys; sys.modules[{name!r}] = None"
    ours = "import lilux.primitives.subprocess, lilux.runtime.auth, rye_mcp.cli.commands"
    subprocess.run([sys.executable, "-c", f"{missing}; {ours}"], check=True)


def _distribution(requirement: str) -> str:
    return canonicalize_name(Requirement(requirement).name)


def _imported(module: Path) -> Iterator[str]:
    for node in ast.walk(parsed(module.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                yield from (alias.name.split(".")[0] for alias in names)
            case ast.ImportFrom(module=str(name), level=0):
                yield name.split(".")[0]
