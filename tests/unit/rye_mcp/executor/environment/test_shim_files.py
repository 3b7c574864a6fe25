"""What a shim stands for is read in the files of its manager; where these leave a doubt, it is asked."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rye_mcp.executor.environment.shims import meant
from rye_mcp.trust.directories import Directories

Change = Callable[[Path], object]


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def manager_at(path: Path, home: Path) -> Path:
    """A manager that says when it is asked, and means another version than its files."""
    return script(path, f'#!/bin/sh\n: > "{home}/asked"\necho "{home}/by_manager/bin/python3"\n')


def installed(directory: Path) -> Path:
    return script(directory / "bin/python3", "#!/bin/sh\n")


def pyenv(home: Path) -> Path:
    root = home / ".pyenv"
    manager_at(root / "bin/pyenv", home)
    installed(root / "versions/3.11.7")
    installed(root / "versions/3.12.1")
    (root / "version").write_text("# the global one\n3.11.7\n", encoding="ascii")
    return script(root / "shims/python3", f'#!/bin/sh\nexec "{root}/bin/pyenv" exec "python3" "$@"\n')


def asdf(home: Path) -> Path:
    root = home / ".asdf"
    manager_at(root / "bin/asdf", home)
    installed(root / "installs/python/3.11.7")
    (home / ".tool-versions").write_text("nodejs 20.1.0\npython 3.11.7\n", encoding="ascii")
    head = "#!/bin/sh\n# asdf-plugin: python 3.11.7\n"
    return script(root / "shims/python3", f'{head}exec "{root}/bin/asdf" exec "python3" "$@"\n')


def mise(home: Path) -> Path:
    manager = manager_at(home / ".local/bin/mise", home)
    installs = home / ".local/share/mise/installs/python"
    installed(installs / "3.11.7")
    (installs / "3.11").symlink_to("3.11.7")
    config = home / ".config/mise/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[tools]\npython = "3.11"\n', encoding="ascii")
    shim = home / ".local/share/mise/shims/python3"
    shim.parent.mkdir(parents=True)
    shim.symlink_to(manager)
    return shim


@pytest.fixture
def home(own_place: Path) -> Path:
    place = own_place / "home"
    installed(place / "by_manager")
    return place


def variables(home: Path, **more: str) -> dict[str, str]:
    return {"HOME": str(home), "PATH": f"{home}/.local/bin:/usr/bin:/bin", **more}


def around(home: Path, environment: dict[str, str]) -> Directories:
    return Directories(user=home, state=lambda: home / "state", environment=environment)


async def behind(shim: Path, home: Path, **more: str) -> tuple[str, bool]:
    """The program that is meant, below the home; and whether the manager was asked."""
    found = await meant(str(shim), variables(home, **more), around(home, variables(home, **more)))
    assert found is not None
    return below(found, home), was_asked(home)


def below(found: str, home: Path) -> str:
    return str(Path(found).resolve().relative_to(home.resolve()))


def was_asked(home: Path) -> bool:
    return (home / "asked").exists()


@pytest.mark.parametrize(
    ("manager", "expected"),
    [
        (pyenv, ".pyenv/versions/3.11.7/bin/python3"),
        (asdf, ".asdf/installs/python/3.11.7/bin/python3"),
        (mise, ".local/share/mise/installs/python/3.11.7/bin/python3"),
    ],
)
async def test_the_files_tell_and_nothing_is_started(
    home: Path, manager: Callable[[Path], Path], expected: str
) -> None:
    assert await behind(manager(home), home) == (expected, False)


async def test_a_variable_of_pyenv_counts_before_its_file(home: Path) -> None:
    shim = pyenv(home)
    assert await behind(shim, home, PYENV_VERSION="3.12.1") == (".pyenv/versions/3.12.1/bin/python3", False)


DOUBTS: dict[str, tuple[Callable[[Path], Path], Change]] = {
    "pyenv: the system": (pyenv, lambda home: (home / ".pyenv/version").write_text("system\n")),
    "pyenv: a prefix": (pyenv, lambda home: (home / ".pyenv/version").write_text("3.11\n")),
    "pyenv: a way out": (pyenv, lambda home: (home / ".pyenv/version").write_text("../../by_manager\n")),
    "pyenv: empty": (pyenv, lambda home: (home / ".pyenv/version").write_text("")),
    "pyenv: gone": (pyenv, lambda home: shutil.rmtree(home / ".pyenv/versions/3.11.7")),
    "pyenv: a hook": (pyenv, lambda home: script(home / ".pyenv/pyenv.d/which/x.bash", "")),
    "pyenv: a plugin": (pyenv, lambda home: script(home / ".pyenv/plugins/x/etc/pyenv.d/which/x.bash", "")),
    "asdf: the system": (asdf, lambda home: (home / ".tool-versions").write_text("python system\n")),
    "asdf: two": (asdf, lambda home: (home / ".tool-versions").write_text("python 3.11.7 system\n")),
    "asdf: not offered": (asdf, lambda home: (home / ".tool-versions").write_text("python 3.12.1\n")),
    "asdf: a plugin": (asdf, lambda home: script(home / ".asdf/plugins/python/bin/exec-path", "")),
    "mise: more": (mise, lambda home: (home / ".config/mise/config.toml").write_text("[env]\nA = '1'\n")),
    "mise: a file beside it": (mise, lambda home: (home / ".config/mise/conf.d").mkdir()),
    "mise: an option": (
        mise,
        lambda home: (home / ".config/mise/config.toml").write_text("[tools]\npython = {version = '3.11'}\n"),
    ),
}


@pytest.mark.parametrize(("manager", "change"), DOUBTS.values(), ids=list(DOUBTS))
async def test_a_manager_is_asked_where_its_files_leave_a_doubt(
    home: Path, manager: Callable[[Path], Path], change: Change
) -> None:
    shim = manager(home)
    change(home)
    assert await behind(shim, home) == ("by_manager/bin/python3", True)


@pytest.mark.parametrize(
    ("manager", "variable"), [(pyenv, "PYENV_DIR"), (asdf, "ASDF_PYTHON_VERSION"), (mise, "MISE_ENV")]
)
async def test_a_manager_is_asked_about_a_variable_that_only_it_understands(
    home: Path, manager: Callable[[Path], Path], variable: str
) -> None:
    assert await behind(manager(home), home, **{variable: "/"}) == ("by_manager/bin/python3", True)


async def test_hooks_that_only_look_for_what_is_missing_are_no_doubt(home: Path) -> None:
    shim = pyenv(home)
    script(home / ".pyenv/plugins/pyenv-virtualenv/etc/pyenv.d/which/conda.bash", "")
    assert (await behind(shim, home))[1] is False


async def test_a_file_of_a_project_that_is_not_approved_chooses_no_version(home: Path) -> None:
    shim, clone = pyenv(home), home.parent / "clone"
    (clone / ".ai").mkdir(parents=True)
    (clone / ".python-version").write_text("3.12.1\n", encoding="ascii")
    (home / ".pyenv/version").unlink()
    (home / ".pyenv/version").symlink_to(clone / ".python-version")
    assert await behind(shim, home) == ("by_manager/bin/python3", True)


async def test_a_file_that_another_user_can_write_chooses_no_version(home: Path) -> None:
    shim = pyenv(home)
    (home / ".pyenv/version").chmod(0o666)
    assert await behind(shim, home) == ("by_manager/bin/python3", True)


@pytest.mark.skipif(not os.environ.get("PYENV_ROOT") or shutil.which("pyenv") is None, reason="no pyenv here")
async def test_a_real_pyenv_says_the_same() -> None:
    root = Path(os.environ["PYENV_ROOT"])
    shim = str(root / "shims/python3")
    environment = {
        "HOME": str(root.parent),
        "PYENV_ROOT": str(root),
        "PATH": f"{root}/shims:{root}/bin:/usr/bin:/bin",
    }
    by_files = await meant(shim, environment, around(root.parent, environment))
    asked_for = {**environment, "PYENV_DIR": "/"}
    asked = await meant(shim, asked_for, around(root.parent, asked_for))
    assert by_files == asked
