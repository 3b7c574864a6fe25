"""Rules about the source that no import contract can state.

The other import rules are checked by import-linter, see `.importlinter`.
"""

import ast
import dataclasses
import importlib
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import lru_cache
from importlib.metadata import packages_distributions
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
    "Carried": SOURCE / "rye_mcp/executor/dependencies.py",
    "Chain": SOURCE / "rye_mcp/executor/chain.py",
    "VerifiedChain": SOURCE / "rye_mcp/executor/integrity_verifier.py",
    "ValidChain": SOURCE / "rye_mcp/executor/chain_validator.py",
    "PinnedChain": SOURCE / "rye_mcp/executor/lockfile_resolver.py",
    "PreparedCall": SOURCE / "rye_mcp/executor/preparation.py",
}

# What the surfaces and the wiring hand over to verbs, without calling anything of it.
PRIVATE_BUT_SHARED = {"rye_mcp.verbs._context"}

# Who runs under trio has it, who wants a keyring asks for it; nobody else needs them.
IMPORTED_WHERE_IN_USE = {"keyring", "trio"}


def process_starts(source: str) -> Iterator[str]:
    """Yield each place of a module's source that can start a process, as `line: what`."""
    for node in ast.walk(ast.parse(source)):
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


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_only_the_supervisor_starts_processes(module: Path) -> None:
    found = list(process_starts(module.read_text(encoding="utf-8")))
    if module != MAY_START_PROCESSES:
        assert not found, f"only lilux/_supervisor.py may start processes; use it instead of {found}"


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
    tree, untyped = _parsed(source)
    yield from _changed_copies(tree, fields_of(stage))
    for node in untyped:
        match node:
            case ast.ImportFrom(names=names):
                yield from (
                    f"{node.lineno}: as {each.asname}" for each in names if each.name == stage and each.asname
                )
            case ast.Name(id=name) | ast.Attribute(attr=name) if name == stage:
                yield f"{node.lineno}: {name}"


@lru_cache(maxsize=1)
def _parsed(source: str) -> tuple[ast.AST, list[ast.AST]]:
    """The tree of a source, and everything in it that no type declares."""
    tree = ast.parse(source)
    typed = {id(each) for node in ast.walk(tree) for each in _annotations(node)}
    return tree, [node for node in ast.walk(tree) if id(node) not in typed]


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


def _changed_copies(tree: ast.AST, names: frozenset[str]) -> Iterator[str]:
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    is_imported = any(_imports_replace(node) for node in ast.walk(tree))
    for node in ast.walk(tree):
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


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_only_its_own_module_makes_a_stage(module: Path) -> None:
    source = module.read_text(encoding="utf-8")
    for stage, home in STAGES.items():
        found = list(constructions(source, stage))
        if module == home:
            assert found
        else:
            assert not found, f"only {home.relative_to(SOURCE)} makes a {stage}; call it instead of {found}"


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
    for node in ast.walk(ast.parse(source)):
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


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_what_is_private_to_a_package_is_imported_in_it_alone(module: Path) -> None:
    name = ".".join(module.relative_to(SOURCE).with_suffix("").parts)
    found = set(private_imports(module.read_text(encoding="utf-8"), name)) - PRIVATE_BUT_SHARED
    assert not found, f"give what others need a module without an underscore, in place of {found}"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from rye_mcp.trust._toml import parse", ["rye_mcp.trust._toml"]),
        ("from rye_mcp.trust import _toml, files", ["rye_mcp.trust._toml"]),
        ("def f():\n    import rye_mcp.trust._toml as t", ["rye_mcp.trust._toml"]),
        ("from rye_mcp.verbs._context import Context", []),
        ("from rye_mcp.trust.files import read_below\nfrom lilux import _files", []),
    ],
)
def test_every_private_import_is_noticed(source: str, found: list[str]) -> None:
    assert list(private_imports(source, "rye_mcp.verbs.load")) == found


def test_every_imported_package_is_a_declared_dependency() -> None:
    """What is imported but not declared works here, thanks to the development tools, and fails for users."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {_distribution(requirement) for requirement in project["dependencies"]}
    own = {path.name for path in SOURCE.iterdir()}
    foreign = {name for module in MODULES for name in _imported(module)} - own - sys.stdlib_module_names
    providers = packages_distributions()
    assert {_distribution(providers[name][0]) for name in foreign - IMPORTED_WHERE_IN_USE} <= declared


@pytest.mark.parametrize("name", sorted(IMPORTED_WHERE_IN_USE))
def test_a_package_that_not_everybody_has_is_no_condition_for_importing_ours(name: str) -> None:
    missing = f"import sys; sys.modules[{name!r}] = None"
    ours = "import lilux.primitives.subprocess, lilux.runtime.auth, rye_mcp.cli"
    subprocess.run([sys.executable, "-c", f"{missing}; {ours}"], check=True)


def _distribution(requirement: str) -> str:
    return canonicalize_name(Requirement(requirement).name)


def _imported(module: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                yield from (alias.name.split(".")[0] for alias in names)
            case ast.ImportFrom(module=str(name), level=0):
                yield name.split(".")[0]
