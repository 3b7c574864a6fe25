"""What a tool seems to need from beside it: guesses that name what is there, and nothing else."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from rye_mcp.executor.chain.companions import mentioned_companions, missing_companion, placeholders_in_shell
from rye_mcp.executor.chain.files import BundledFile, BundledFiles
from rye_mcp.spaces.source_tree import SourceTree

DIRECTORY = "tools/demo"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    names = (
        "report.py",
        "data.json",
        "helper.py",
        "pack/__init__.py",
        "pack/part.py",
        "pack/deep/__init__.py",
        "pack/deep/more.py",
        "bare/part.py",
        "sub/more.csv",
        "lib.js",
    )
    for name in names:
        path = tmp_path / DIRECTORY / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    (tmp_path / "tools/above.json").write_bytes(b"")
    (tmp_path / DIRECTORY / "link.json").symlink_to(tmp_path / "tools/above.json")
    return tmp_path


def mentioned(root: Path, code: str, extension: str = ".py") -> list[str]:
    with SourceTree(root) as tree:
        found = mentioned_companions(code.encode(), extension, DIRECTORY, tree)
    return [name.removeprefix(f"{DIRECTORY}/") for name in found]


@pytest.mark.parametrize(
    ("extension", "code", "found"),
    [
        (".py", "open('data.json')", ["data.json"]),
        (".py", "open(f'{here}/data.json')", ["data.json"]),
        (".py", "path / 'sub/more.csv'", ["sub/more.csv"]),
        (".py", "open('./data.json')", ["data.json"]),
        (".py", "import helper", ["helper.py"]),
        (".py", "from helper import x", ["helper.py"]),
        (".py", "from . import helper", ["helper.py"]),
        (".py", "import os, helper as h", ["helper.py"]),
        (".py", "from pack import part", ["pack/__init__.py", "pack/part.py"]),
        (".py", "import pack.part", ["pack/__init__.py", "pack/part.py"]),
        (
            ".py",
            "from pack.deep.more import x",
            ["pack/__init__.py", "pack/deep/__init__.py", "pack/deep/more.py"],
        ),
        (".py", "# open('data.json')", []),
        (".py", "open('nothing.json')", []),
        (".py", "open('../above.json')", []),
        (".py", "open('/etc/hostname')", []),
        (".py", "open('link.json')", []),
        (".py", "this is no Python: 'data.json'", []),
        (".py", "x = 'data'", []),
        (".sh", 'cat "$(dirname "$0")/data.json"', ["data.json"]),
        (".sh", "cat data.json", ["data.json"]),
        (".sh", "cat ./sub/more.csv.", ["sub/more.csv"]),
        (".js", "const x = require('./lib')", ["lib.js"]),
        (".js", 'import x from "./lib.js"', ["lib.js"]),
        (".sh", "echo helper", []),
    ],
)
def test_what_a_tools_code_names_and_what_is_there(
    root: Path, extension: str, code: str, found: list[str]
) -> None:
    assert mentioned(root, code, extension) == found


@pytest.mark.parametrize("text", ["a" * (1 << 20), "a/" * (1 << 19), "import " * (1 << 17), ". " * (1 << 19)])
@pytest.mark.parametrize("extension", [".js", ".sh"])
def test_a_long_text_is_looked_at_in_little_time(root: Path, text: str, extension: str) -> None:
    begin = time.monotonic()
    assert mentioned(root, text, extension) == []
    assert time.monotonic() - begin < 5


def carried(root: Path, *names: str) -> BundledFiles:
    files = tuple(BundledFile(f"{DIRECTORY}/{name}", b"", "") for name in ("report.py", *names))
    return BundledFiles(files, (), None, root)


@pytest.mark.parametrize(
    ("stderr", "missing"),
    [
        (
            "FileNotFoundError: [Errno 2] No such file or directory: '/run/rye/x/tools/demo/data.json'",
            "data.json",
        ),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'sub/more.csv'", "sub/more.csv"),
        ("ModuleNotFoundError: No module named 'helper'", "helper.py"),
        ("Error: Cannot find module './lib'", "lib.js"),
        ("report.sh: line 1: data.json: No such file or directory", "data.json"),
        ("No such file or directory: 'nothing.json'", None),
        ("No such file or directory: '../above.json'", None),
        ("No such file or directory: 'link.json'", None),
        ("something else went wrong in report.py", None),
        ("", None),
        ("data.json " + "x" * (1 << 20), None),
    ],
)
def test_a_failure_for_want_of_a_file_beside_the_tool_says_what_to_do(
    root: Path, stderr: str, missing: str | None
) -> None:
    hint = missing_companion(stderr, carried(root), root / DIRECTORY)
    if missing is None:
        assert hint is None
    else:
        assert hint == (
            f"demo/report needs {missing}, which stands beside it but was not signed with it: "
            f"rye sign demo/report --with {missing}"
        )


@pytest.mark.parametrize(
    ("module", "code", "missing"),
    [
        ("pack", "import pack.part", ["pack/__init__.py", "pack/part.py"]),
        ("pack.part", "", ["pack/__init__.py", "pack/part.py"]),
        ("pack.deep.more", "", ["pack/__init__.py", "pack/deep/__init__.py", "pack/deep/more.py"]),
        ("bare", "from bare import part", ["bare/part.py"]),
        ("bare.part", "", ["bare/part.py"]),
    ],
)
def test_a_package_beside_the_tool_is_named_with_all_its_files(
    root: Path, module: str, code: str, missing: list[str]
) -> None:
    tool = BundledFile(f"{DIRECTORY}/report.py", code.encode(), "")
    stderr = f"ModuleNotFoundError: No module named '{module}'"
    hint = missing_companion(stderr, BundledFiles((tool,), (), None, root), root / DIRECTORY)
    assert hint is not None
    assert hint.endswith(f": rye sign demo/report {' '.join(f'--with {each}' for each in missing)}")


def test_a_module_that_python_found_elsewhere_is_not_missing_beside_the_tool(root: Path) -> None:
    (root / DIRECTORY / "subprocess.py").write_bytes(b"")
    stderr = 'File "{}/subprocess.py", line 1, in run'
    assert missing_companion(stderr.format("/usr/lib/python3.11"), carried(root), root / DIRECTORY) is None
    assert missing_companion(stderr.format(root / DIRECTORY), carried(root), root / DIRECTORY) is not None


def test_what_was_carried_is_not_what_is_missing(root: Path) -> None:
    assert missing_companion("data.json: bad", carried(root, "data.json"), root / DIRECTORY) is None
    assert missing_companion("data.json: bad", carried(root), root / "gone") is None


@pytest.mark.parametrize(
    ("config", "found"),
    [
        ({"command": "bash", "args": ["-c", "echo {name}"]}, ["name"]),
        ({"command": "/bin/sh", "args": ["-lc", "echo {params.other} {name}"]}, ["name", "params.other"]),
        ({"command": "bash", "args": ["-e", "-c", "echo '{params_json}'"]}, ["params_json"]),
        ({"command": "bash", "args": ["-c", "echo {name}"], "shell": True}, []),
        ({"command": "bash", "args": ["-c", "echo $1", "--", "{name}"]}, []),
        ({"command": "bash", "args": ["{tool_path}", "{name}"]}, []),
        ({"command": "bash", "args": ["-c", "{tool_path} ${name} {undeclared}"]}, []),
        ({"command": "python3", "args": ["-c", "print({name})"]}, []),
        ({"command": "bash", "args": ["-c"]}, []),
        ({"command": "bash", "args": "-c {name}"}, []),
        ({"command": 1, "args": []}, []),
        ({}, []),
    ],
)
def test_a_callers_text_inside_of_a_shells_command_is_noticed(
    config: dict[str, Any], found: list[str]
) -> None:
    assert placeholders_in_shell(config, ["name", "params_of"]) == found
