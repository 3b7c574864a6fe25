"""The `rye-mcp` command loads the server quickly, and what it has loaded holds up nobody later."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import pytest

from tests.people import SCRIPTS


@pytest.mark.thorough
def test_nothing_looks_for_garbage_while_the_server_is_loaded_nor_through_it_later() -> None:
    script = """
import gc, sys

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "mcp.server":
            print("loading", gc.isenabled())

sys.meta_path.insert(0, Watch())
from rye_mcp.start import main
sys.argv = ["rye-mcp", "--version"]
try:
    main()
finally:
    print("loaded", gc.isenabled(), gc.get_freeze_count() > 50_000)
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ran.stdout.splitlines()[:1] == ["loading False"], ran.stderr
    assert ran.stdout.splitlines()[-1] == "loaded True True"


@pytest.mark.thorough
@pytest.mark.parametrize("module", ["rye_mcp", "rye_mcp.__main__"])
def test_the_module_is_the_server_for_callers_that_know_an_interpreter_only(module: str) -> None:
    ran = subprocess.run([sys.executable, "-m", module, "--help"], capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("usage: rye-mcp ")


@pytest.mark.parametrize("start", [["rye-mcp"], [sys.executable, "-m", "rye_mcp"]])
def test_the_server_says_its_version(start: list[str]) -> None:
    words = [str(SCRIPTS / start[0]), *start[1:]] if len(start) == 1 else start
    done = subprocess.run([*words, "--version"], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == f"rye-mcp {version('rye-mcp')}\n"
