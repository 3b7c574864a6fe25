"""Interpreters of real virtual environments, and of version managers or scripts standing in their place."""

from __future__ import annotations

import inspect
import os
import shutil
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from lilux.primitives.errors import ConfigurationError
from lilux.primitives.subprocess import SubprocessPrimitive
from lilux.runtime import env_resolver
from lilux.runtime.env_resolver import EnvResolver

Resolve = Callable[..., Awaitable[dict[str, str]]]

PYENV = {"type": "version_manager", "manager": "pyenv", "var": "FOUND", "fallback": "fallback"}


async def blocking(resolver: EnvResolver, *args: Any, **options: Any) -> dict[str, str]:
    return resolver.resolve(*args, **options)


async def asynchronous(resolver: EnvResolver, *args: Any, **options: Any) -> dict[str, str]:
    return await resolver.resolve_async(*args, **options)


both_faces = pytest.mark.parametrize("resolve", [blocking, asynchronous])


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    path = tmp_path / "a project with $pace"
    path.mkdir()
    return path


def base(tmp_path: Path, **more: str) -> dict[str, str]:
    return {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "HOME": str(tmp_path / "home"), **more}


# --- a real virtual environment -----------------------------------------------------


@both_faces
async def test_the_python_of_a_real_venv_is_found_and_runs_in_it(resolve: Resolve, project: Path) -> None:
    await anyio.run_process([sys.executable, "-m", "venv", "--without-pip", str(project / ".venv")])
    config = {
        "interpreter": {
            "type": "venv_python",
            "venv_path": ".venv",
            "var": "RYE_PYTHON",
            "fallback": "python3",
        },
        "env": {"PYTHONUNBUFFERED": "1", "PROJECT_VENV_PYTHON": "${RYE_PYTHON}"},
    }
    env = await resolve(EnvResolver(project), config)
    assert env["RYE_PYTHON"] == env["PROJECT_VENV_PYTHON"] == str(project / ".venv/bin/python")
    ran = await SubprocessPrimitive().execute(
        {"command": "${RYE_PYTHON}", "args": ["-c", "import sys; print(sys.prefix)"], "env": env}
    )
    assert ran.stdout.strip() == str(project / ".venv")


# --- a version manager that is asked --------------------------------------------------


@both_faces
async def test_pyenv_selects_the_version_of_the_project(
    resolve: Resolve, tmp_path: Path, project: Path
) -> None:
    """The real pyenv when there is one, else a script that answers as it does."""
    python = script(tmp_path / "root/versions/3.99.1/bin/python", "true")
    (project / ".python-version").write_text("3.99.1\n")
    real = shutil.which("pyenv")
    if real is None:
        answer = 'echo "$PYENV_ROOT/versions/$(cat .python-version)/bin/python"'
        real = str(script(tmp_path / "bin/pyenv", f'test "$1" = which && {answer}'))
    env = base(tmp_path, PYENV_ROOT=str(tmp_path / "root"))
    env["PATH"] = f"{Path(real).parent}:{env['PATH']}"
    found = await resolve(EnvResolver(project), {"interpreter": PYENV}, base_env=env)
    assert found["FOUND"] == str(python)


@pytest.mark.parametrize(
    ("manager", "fields", "expects", "answers", "interpreter"),
    [
        ("pyenv", {"version": "3.11"}, "prefix 3.11", "{0}", "bin/python"),
        ("pyenv", {}, "which python", "{0}/bin/python", "bin/python"),
        ("rbenv", {"version": "3.3.0"}, "prefix 3.3.0", "{0}", "bin/ruby"),
        ("asdf", {"tool": "nodejs", "version": "20.1"}, "where nodejs 20.1", "{0}", "bin/node"),
        ("asdf", {"tool": "nodejs"}, "which node", "{0}/bin/node", "bin/node"),
        ("mise", {"tool": "node", "version": "20"}, "where node@20", "{0}", "bin/node"),
        ("mise", {"tool": "node"}, "which node", "{0}/bin/node", "bin/node"),
    ],
)
@both_faces
async def test_a_manager_is_asked_as_it_documents_it(
    resolve: Resolve,
    tmp_path: Path,
    project: Path,
    manager: str,
    fields: dict[str, str],
    expects: str,
    answers: str,
    interpreter: str,
) -> None:
    prefix = tmp_path / "some where"
    expected = script(prefix / interpreter, "true")
    asked = f'test "$*" = "{expects}" && test "$(pwd)" = "$PROJECT" && test "$CALLER" = me'
    script(tmp_path / "bin" / manager, f"{asked} && printf '%s\\n' '{answers.format(prefix)}'")
    config = {"interpreter": {**PYENV, "manager": manager, **fields}}
    env = base(tmp_path, CALLER="me", PROJECT=str(project))
    found = await resolve(EnvResolver(project), config, base_env=env)
    assert found["FOUND"] == str(expected)


@pytest.mark.parametrize(
    "behaviour",
    [
        "exit 1",
        'echo "$0"; exit 3',
        "kill -9 $$",
        "echo bin/python",
        "echo /nowhere/python",
        "echo '  '",
        "printf '\\377\\000\\n'",
        "yes / | head -c 10000000",
        "echo 'pyenv: version `3.11` is not installed' >&2; exit 1",
    ],
)
@both_faces
async def test_a_manager_that_fails_or_speaks_nonsense_leaves_the_fallback(
    resolve: Resolve, tmp_path: Path, project: Path, behaviour: str
) -> None:
    script(tmp_path / "bin/pyenv", behaviour)
    found = await resolve(EnvResolver(project), {"interpreter": PYENV}, base_env=base(tmp_path))
    assert found["FOUND"] == "fallback"


@pytest.mark.parametrize("text", ["#!/nowhere/sh\n", "", "\x7fELF"])
@both_faces
async def test_a_manager_that_cannot_be_started_leaves_the_fallback(
    resolve: Resolve, tmp_path: Path, project: Path, text: str
) -> None:
    script(tmp_path / "bin/pyenv", "").write_text(text)
    found = await resolve(EnvResolver(project), {"interpreter": PYENV}, base_env=base(tmp_path))
    assert found["FOUND"] == "fallback"


@both_faces
async def test_a_manager_that_hangs_is_ended_with_all_it_started(
    resolve: Resolve, tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(env_resolver, "ASK_LIMIT_MS", 700)
    script(tmp_path / "bin/pyenv", 'sleep 60 & echo $! > "$MARK"; sleep 60')
    mark = tmp_path / "pid"
    started = time.monotonic()
    env = base(tmp_path, MARK=str(mark))
    found = await resolve(EnvResolver(project), {"interpreter": PYENV}, base_env=env)
    assert found["FOUND"] == "fallback"
    assert time.monotonic() - started < 10
    with pytest.raises(ProcessLookupError):
        os.kill(int(mark.read_text()), 0)


async def test_the_event_loop_goes_on_while_a_manager_is_asked(tmp_path: Path, project: Path) -> None:
    """The manager waits for something that only another task can do."""
    go = tmp_path / "go"
    python = script(tmp_path / "x/bin/python", "true")
    script(tmp_path / "bin/pyenv", f'until test -e "{go}"; do sleep 0.01; done; echo "{python}"')
    results: list[str] = []

    async def ask() -> None:
        env = await EnvResolver(project).resolve_async({"interpreter": PYENV}, base_env=base(tmp_path))
        results.append(env["FOUND"])

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await anyio.sleep(0.1)
            assert results == []
            await anyio.Path(go).touch()
    assert results == [str(python)]


async def test_cancelling_ends_the_manager_too(tmp_path: Path, project: Path) -> None:
    mark = tmp_path / "pid"
    script(tmp_path / "bin/pyenv", f'echo $$ > "{mark}.new"; mv "{mark}.new" "{mark}"; exec sleep 60')
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(
                lambda: EnvResolver(project).resolve_async({"interpreter": PYENV}, base_env=base(tmp_path))
            )
            while not mark.exists():  # noqa: ASYNC110 - another process makes it
                await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()
    with pytest.raises(ProcessLookupError):
        os.kill(int(mark.read_text()), 0)


@both_faces
async def test_a_version_that_is_there_is_not_asked_for(
    resolve: Resolve, tmp_path: Path, project: Path
) -> None:
    python = script(tmp_path / "home/.pyenv/versions/3.11.7/bin/python", "true")
    script(tmp_path / "bin/pyenv", f'touch "{tmp_path}/asked"')
    config = {"interpreter": {**PYENV, "version": "3.11"}}
    found = await resolve(EnvResolver(project), config, base_env=base(tmp_path))
    assert found["FOUND"] == str(python)
    assert not (tmp_path / "asked").exists()


@both_faces
async def test_nobody_is_asked_for_a_malformed_config(
    resolve: Resolve, tmp_path: Path, project: Path
) -> None:
    script(tmp_path / "bin/pyenv", f'touch "{tmp_path}/asked"')
    with pytest.raises(ConfigurationError):
        await resolve(EnvResolver(project), {"interpreter": PYENV, "env": []}, base_env=base(tmp_path))
    assert not (tmp_path / "asked").exists()


@both_faces
async def test_nothing_of_the_env_file_is_executed(resolve: Resolve, tmp_path: Path, project: Path) -> None:
    (project / ".env").write_text(f"A=$(touch {tmp_path}/ran)\nB=`touch {tmp_path}/ran`\n")
    env = await resolve(EnvResolver(project), {"env": {"C": "${A}${B}"}}, base_env=base(tmp_path))
    assert "touch" in env["C"]
    assert not (tmp_path / "ran").exists()


@both_faces
@pytest.mark.parametrize(
    "line", ["PATH={0}/bin", "PYENV_ROOT={0}", "HOME={0}", "PATH={0}/bin:/usr/bin:/bin\nHOME={0}"]
)
async def test_no_env_file_brings_the_manager_that_is_asked(
    resolve: Resolve, tmp_path: Path, project: Path, line: str
) -> None:
    for place in ("bin", ".local/bin", ".pyenv/bin"):
        script(project / place / "pyenv", f'touch "{tmp_path}/ran"; echo /bin/sh')
    (project / ".env").write_text(line.format(project) + "\n")
    env = await resolve(EnvResolver(project), {"interpreter": PYENV}, base_env=base(tmp_path))
    assert env["FOUND"] == "fallback"
    assert not (tmp_path / "ran").exists()


@both_faces
async def test_the_manager_runs_with_nothing_of_an_env_file(
    resolve: Resolve, tmp_path: Path, project: Path
) -> None:
    script(tmp_path / "bin/pyenv", 'test "$OWN" = yes && test -z "$FROM_FILE" && echo /bin/sh')
    (project / ".env").write_text("FROM_FILE=1\nOWN=no\n")
    env = await resolve(EnvResolver(project), {"interpreter": PYENV}, base_env=base(tmp_path, OWN="yes"))
    assert (env["FOUND"], env["FROM_FILE"], env["OWN"]) == ("/bin/sh", "1", "no")


def test_both_faces_take_the_same_arguments() -> None:
    faces = [inspect.signature(face) for face in (EnvResolver.resolve, EnvResolver.resolve_async)]
    assert faces[0].parameters == faces[1].parameters
    names = list(faces[0].parameters)
    assert names[1:5] == ["env_config", "tool_env", "include_dotenv", "context"]
    assert [faces[0].parameters[name].kind.name for name in names[5:]] == ["KEYWORD_ONLY"] * 2
