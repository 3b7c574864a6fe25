"""What a stranger downloads: the sdist, the wheel built from it, and what they do when installed.

Everything happens in copies of the tree, in directories with a space in their names, without the network: the
build tools are those of the development environment, and Cargo builds into the project's own `target`.
"""

import os
import platform
import shutil
import stat
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from email import message_from_string
from importlib.metadata import version
from pathlib import Path, PurePosixPath

import pytest

from tests.bare_debian import ShellOfTheRoot, make_debian
from tests.document_pages import Step, steps_of

ROOT = Path(__file__).resolve().parents[2]
VERSION = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"]["version"]
SYSTEM_ITEMS = {path.relative_to(ROOT).as_posix() for path in (ROOT / ".ai").rglob("*") if path.is_file()}

# The first build of the Rust workspace may be part of the first test that needs a wheel.
pytestmark = [pytest.mark.packaging, pytest.mark.timeout(600)]

RUN_ECHO = """
import anyio
from lilux.primitives.subprocess import SubprocessPrimitive

async def main():
    return await SubprocessPrimitive().execute({"command": "echo", "args": ["{m}"]}, {"m": "hi"})

result = anyio.run(main)
print(result.success, repr(result.stdout), result.return_code)
"""


def build(source: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the standard build front end on a source tree, with the installed build tools."""
    return subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", *arguments, str(source)],
        env=os.environ | {"CARGO_TARGET_DIR": str(ROOT / "target")} | variables,
        capture_output=True,
        text=True,
        check=False,
    )


def copy_of_the_tree(destination: Path) -> Path:
    """Copy what a clone would hold, links as links."""
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "Cargo.toml", "Cargo.lock", "LICENSE"):
        destination.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, destination / name)
    for name in ("README.md", "CHANGELOG.md"):
        shutil.copy2(ROOT / name, destination / name)
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "target")
    for name in (".ai", "crates", "src"):
        shutil.copytree(ROOT / name, destination / name, symlinks=True, ignore=ignored)
    return destination


@pytest.fixture(scope="session")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, built from a copy of the tree."""
    place = tmp_path_factory.mktemp("a place")
    answer = build(copy_of_the_tree(place / "rye mcp"), "--sdist", "--outdir", str(place))
    assert answer.returncode == 0, answer.stdout + answer.stderr
    (archive,) = place.glob("*.tar.gz")
    return archive


@pytest.fixture(scope="session")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the unpacked sdist in which an earlier build has left its files."""
    place = tmp_path_factory.mktemp("another place")
    with tarfile.open(sdist) as archive:
        archive.extractall(place, filter="data")
    source = place / f"rye_mcp-{VERSION}"
    leave_an_old_build_in(source)
    answer = build(source, "--wheel", "--outdir", str(place))
    assert answer.returncode == 0, answer.stdout + answer.stderr
    (file,) = place.glob("*.whl")
    return file


def leave_an_old_build_in(source: Path) -> None:
    """Put files where a build of an older tree, or one that was interrupted, would have left them."""
    platform = sysconfig.get_platform()
    tag = sys.implementation.cache_tag
    for left_over in (
        f"build/lib.{platform}-{tag}/rye_mcp/.ai/tools/deleted.yaml",
        f"build/bdist.{platform}/wheel/rye_mcp/.ai/tools/deleted.yaml",
        f"build/scripts-{sys.version_info[0]}.{sys.version_info[1]}/deleted",
    ):
        path = source / left_over
        path.parent.mkdir(parents=True)
        path.write_text("deleted long ago\n", encoding="utf-8")


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a fresh environment that holds the wheel and, read-only, its dependencies.

    The dependencies are the development environment's own, so that no network is needed. Its editable install
    of this project does not come along: a path file takes effect only where it lies.
    """
    environment = tmp_path_factory.mktemp("a fresh environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    python = environment / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", "--no-index", "--no-deps", str(wheel)], check=True)
    packages = environment / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return python


def wheel_names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def has_debugging_sections(program: Path) -> bool:
    """Tell a debug build by its section table; a release build is stripped."""
    return b"\0.debug_info\0" in program.read_bytes()


def test_the_version_stands_in_one_place() -> None:
    assert version("rye-mcp") == VERSION


def test_the_sdist_holds_what_building_needs(sdist: Path) -> None:
    assert sdist.name == f"rye_mcp-{VERSION}.tar.gz"
    with tarfile.open(sdist) as archive:
        names = {str(PurePosixPath(*PurePosixPath(name).parts[1:])) for name in archive.getnames()}
    crate = {path.relative_to(ROOT).as_posix() for path in (ROOT / "crates").rglob("*.rs")}
    wanted = {"Cargo.toml", "Cargo.lock", "crates/lilux-proc/Cargo.toml", "setup.py", "LICENSE"}
    assert wanted | crate <= names
    assert names >= SYSTEM_ITEMS
    assert {f"src/rye_mcp/{item}" for item in SYSTEM_ITEMS} <= names


def test_the_wheel_holds_both_packages_the_system_space_and_the_supervisor(wheel: Path) -> None:
    names = wheel_names(wheel)
    source = ROOT / "src"
    modules = {
        path.relative_to(source).as_posix() for path in source.rglob("*.py") if ".ai" not in path.parts
    }
    assert modules | {"lilux/py.typed", "rye_mcp/py.typed"} <= names
    assert {f"rye_mcp/{item}" for item in SYSTEM_ITEMS} <= names
    assert f"rye_mcp-{VERSION}.data/scripts/lilux-proc" in names


def test_the_word_table_takes_at_most_4_mb_of_the_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        table = archive.getinfo("rye_mcp/language/words.table")
    assert 0 < table.compress_size <= 4 << 20


def test_an_old_build_directory_leaves_no_trace_in_the_wheel(wheel: Path) -> None:
    names = wheel_names(wheel)
    assert not [name for name in names if "deleted" in name]
    items = {name.removeprefix("rye_mcp/") for name in names if name.startswith("rye_mcp/.ai/")}
    assert items == SYSTEM_ITEMS


def test_the_wheel_serves_every_python_and_every_c_library_on_this_kind_of_machine(wheel: Path) -> None:
    """And says so for the reason that holds: the program in it asks for no dynamic linker."""
    platforms = [f"{libc}_{platform.machine()}" for libc in ("manylinux_2_17", "musllinux_1_1")]
    assert wheel.name == f"rye_mcp-{VERSION}-py3-none-{'.'.join(platforms)}.whl"
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(f"rye_mcp-{VERSION}.dist-info/WHEEL").decode()
        program = archive.read(f"rye_mcp-{VERSION}.data/scripts/lilux-proc")
    assert message_from_string(text).get_all("Tag") == [f"py3-none-{platform}" for platform in platforms]
    assert b"/ld-linux" not in program


def test_a_wheel_whose_program_needs_a_c_library_is_one_of_this_machine_only(
    sdist: Path, tmp_path: Path
) -> None:
    """Somebody who says how to build gets what they asked for, and a tag that promises no more."""
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    answer = build(
        tmp_path / f"rye_mcp-{VERSION}",
        "--wheel",
        "--outdir",
        str(tmp_path),
        RUSTFLAGS="-C target-feature=-crt-static",
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    (wheel,) = tmp_path.glob("*.whl")
    own = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    assert wheel.name == f"rye_mcp-{VERSION}-py3-none-{own}.whl"


def test_the_wheel_says_its_licence(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        metadata = message_from_string(archive.read(f"rye_mcp-{VERSION}.dist-info/METADATA").decode())
        licence = archive.read(f"rye_mcp-{VERSION}.dist-info/licenses/LICENSE").decode()
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Requires-Python"] == ">=3.11"
    assert licence.startswith("MIT License")


def test_the_installed_supervisor_is_a_release_build_of_this_version(installed: Path) -> None:
    program = installed.with_name("lilux-proc")
    assert program.stat().st_mode & stat.S_IXUSR
    assert not has_debugging_sections(program)
    answer = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["lilux-proc", VERSION]


def test_the_installed_supervisor_names_no_directory_of_the_machine_that_built_it(installed: Path) -> None:
    """Else every machine would build another one, and nobody could tell whether it is that of this source."""
    program = installed.with_name("lilux-proc").read_bytes()
    cargo = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo")
    assert os.fsencode(cargo) not in program
    assert os.fsencode(ROOT) not in program
    assert b"/cargo/registry/" in program


def test_no_guard_of_the_installed_supervisor_can_be_switched_off(installed: Path) -> None:
    """The variable that test builds read must not even be a text in the program that is shipped."""
    assert b"LILUX_PROC_OFF" in (ROOT / "crates/lilux-proc/src/switches.rs").read_bytes()
    assert b"LILUX_PROC_OFF" not in installed.with_name("lilux-proc").read_bytes()


def test_a_development_environment_has_a_release_build_too() -> None:
    assert not has_debugging_sections(Path(sysconfig.get_path("scripts")) / "lilux-proc")


def test_an_installed_package_runs_programs_with_an_empty_environment(installed: Path) -> None:
    """A desktop client starts the server by its absolute path, with hardly any environment."""
    answer = subprocess.run(
        [installed, "-c", RUN_ECHO], env={}, cwd="/", capture_output=True, text=True, check=False
    )
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout == "True 'hi\\n' 0\n"


def test_a_newcomer_gets_to_a_tool_of_their_own_with_an_empty_environment(installed: Path) -> None:
    """What `make dist` tries: `rye init`, `new`, `sign`, `run`, `test`, `verify`, and the server answers."""
    script = ROOT / "scripts/check_wheel.py"
    answer = subprocess.run(
        [sys.executable, script, "--installed", installed.parent], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert answer.stdout.count(" ok ") == 9


def test_the_installed_package_is_the_one_that_was_tested(installed: Path) -> None:
    """Guards the fixture: the fresh environment must not fall back on the development tree."""
    script = "import lilux, rye_mcp; print(lilux.__file__, rye_mcp.__file__, sep='\\n')"
    answer = subprocess.run([installed, "-c", script], env={}, capture_output=True, text=True, check=True)
    packages = installed.parent.parent / "lib"
    assert all(Path(line).is_relative_to(packages) for line in answer.stdout.splitlines())


@pytest.fixture
def clone_without_links(tmp_path: Path) -> Path:
    """What git checks out where symbolic links are off: a text file that says where the link would lead."""
    source = copy_of_the_tree(tmp_path / "no links")
    link = source / "src/rye_mcp/.ai"
    target = link.readlink()
    link.unlink()
    link.write_text(str(target), encoding="utf-8")
    return source


@pytest.mark.parametrize("kind", ["--sdist", "--wheel"])
def test_a_clone_without_symbolic_links_is_refused_with_the_remedy(
    clone_without_links: Path, kind: str
) -> None:
    answer = build(clone_without_links, kind)
    assert answer.returncode != 0
    said = answer.stdout + answer.stderr
    assert "has to be a link to the directory .ai" in said
    assert "ln -sfn ../../.ai src/rye_mcp/.ai" in said
    assert not list(clone_without_links.glob("dist/*"))


def test_the_remedy_mends_the_clone(clone_without_links: Path) -> None:
    subprocess.run(["ln", "-sfn", "../../.ai", "src/rye_mcp/.ai"], cwd=clone_without_links, check=True)
    answer = build(clone_without_links, "--sdist")
    assert answer.returncode == 0, answer.stdout + answer.stderr


@pytest.mark.network
@pytest.mark.timeout(900)
def test_on_a_bare_debian_the_wheel_the_demo_and_the_tutorial_need_no_compiler(
    wheel: Path, tmp_path: Path
) -> None:
    root = tmp_path / "debian"
    root.mkdir()
    make_debian(root)
    shell = ShellOfTheRoot(root, "/home/alice")
    try:
        shutil.copy2(wheel, root / "home/alice")
        assert shell.run("command -v cc gcc rustc cargo make\n")[0] == ""
        shell.do(Step(0, "python3 -m venv /opt/rye && /opt/rye/bin/pip install --quiet ./*.whl\n"))
        shell.do(Step(0, "ln -s /opt/rye/bin/rye /opt/rye/bin/rye-mcp /usr/local/bin/\n"))
        assert "All 15 expectations were met." in shell.run("rye demo\n")[0]
        for step in steps_of(ROOT / "docs/tutorial.md"):
            shell.do(step)
    finally:
        shell.close()
