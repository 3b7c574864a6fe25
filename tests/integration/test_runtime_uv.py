"""Scripts that name the packages they need: what uv installs for them, and what it must not use."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path

import pytest

from tests.runtime_workshop import Workshop, needs
from tests.trust_world import World

RUNTIME = "rye/core/runtimes/uv_script_runtime"
PACKAGE = "rye_test_package"


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    """A workshop where uv keeps its files beside it, and asks nobody on the network."""
    needs("uv", monkeypatch)
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    monkeypatch.setenv("UV_OFFLINE", "1")
    workshop = Workshop(World(tmp_path))
    (workshop.project / ".ai").mkdir(parents=True)
    return workshop


def script(body: str, *, dependencies: str = "[]") -> str:
    block = f"# /// script\n# dependencies = {dependencies}\n# ///\n"
    return f'{block}__version__ = "1.0.0"\n__executor_id__ = "{RUNTIME}"\n{body}'


def build_wheel(directory: Path) -> str:
    """A package on the disk, of one module; the requirement that names it."""
    content = f"ANSWER = 'from {PACKAGE}'\n"
    info = f"{PACKAGE}-1.0.dist-info"
    files = {
        f"{PACKAGE}.py": content,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: a test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},{_digest(text)},{len(text.encode())}\n" for name, text in files.items())
    wheel = directory / f"{PACKAGE}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in {**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            archive.writestr(name, text)
    return f"{PACKAGE} @ {wheel.as_uri()}"


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256={base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"


async def test_a_script_imports_what_it_asked_for(workshop: Workshop, tmp_path: Path) -> None:
    dependencies = f'["{build_wheel(tmp_path)}"]'
    body = f"import {PACKAGE}\nprint({PACKAGE}.ANSWER)\n"
    item_id = workshop.sign("demo/tool.py", script(body, dependencies=dependencies))
    assert await workshop.data(item_id) == f"from {PACKAGE}\n"
    environments = list((tmp_path / "uv").glob("environments-*/*"))
    assert await workshop.data(item_id) == f"from {PACKAGE}\n"
    assert list((tmp_path / "uv").glob("environments-*/*")) == environments


async def test_a_package_that_cannot_be_had_is_a_failure_that_names_it(workshop: Workshop) -> None:
    item_id = workshop.sign("demo/tool.py", script("print(1)\n", dependencies='["no-such-package-here"]'))
    result = await workshop.run(item_id)
    assert (result.success, result.code) == (False, "tool_failed")
    assert "no-such-package-here" in (result.stderr or "")


async def test_a_script_stands_where_it_was_called(workshop: Workshop) -> None:
    body = "import json, os, sys\nprint(json.dumps([os.getcwd(), sys.argv, __name__, sys.path[0]]))\n"
    found = await workshop.data(workshop.sign("demo/tool.py", script(body)), {"x": "{y} 'z'"})
    directory = str(workshop.project / ".ai/tools/demo")
    assert found[0] == str(workshop.project)
    assert found[1][0] == f"{directory}/tool.py"
    assert found[1][1:] == ["--params", '{"x":"{y} \'z\'"}', "--project-path", str(workshop.project)]
    assert found[2] == "__main__"
    assert found[3] == directory


async def test_a_script_without_a_block_is_refused(workshop: Workshop) -> None:
    """uv would look for settings of its own then."""
    text = f'__version__ = "1.0.0"\n__executor_id__ = "{RUNTIME}"\n'
    result = await workshop.run(workshop.sign("demo/tool.py", text))
    assert (result.success, result.code) == (False, "tool_failed")
    assert "expected a block '# /// script' in " in (result.stderr or "")
    assert f"{workshop.project}/.ai/tools/demo/tool.py" in (result.stderr or "")


async def test_nothing_of_a_project_that_nobody_approved_is_run(
    workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """uv by itself would start the Python of a `.venv`, and follow settings, where it stands."""
    canary = tmp_path / "canary"
    venv = workshop.project / ".venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.11.2\n", encoding="utf-8")
    for name in ("python", "python3"):
        (venv / "bin" / name).write_text(f'#!/bin/sh\ntouch {canary}\nexec python3 "$@"\n', encoding="utf-8")
        (venv / "bin" / name).chmod(0o755)
    (workshop.project / "uv.toml").write_text("no such setting", encoding="utf-8")
    (workshop.project / "pyproject.toml").write_text("no project", encoding="utf-8")
    monkeypatch.setenv("VIRTUAL_ENV", str(venv))
    assert await workshop.data(workshop.sign("demo/tool.py", script("print(42)\n"))) == 42
    assert not canary.exists()
