"""What `pyproject.toml` cannot say about building the distribution.

* The version is the one of the Cargo workspace, so that `lilux` and `lilux-proc` cannot disagree about it.
* The wheel holds a program but no extension module: one wheel serves every CPython (`py3-none-<platform>`).
* A wheel is built from what the tree holds now. Left-overs of an earlier build stay out of it.
* A clone without symbolic links has no system space; building it anyway would make a wheel that is broken
  without saying so, and is refused with a sentence.
* The supervisor is linked statically where the C library can be: it starts faster, and runs wherever the
  kernel does. The same source and compiler give the same bytes, on whichever machine and in whichever
  directory.
* The wheel's tag says what the program in it was seen to need: one that asks for no C library runs under
  every one, any other only under that of the machine that linked it.
* `CARGO_BUILD_TARGET` builds for another machine; `scripts/build_wheels.py` sets it.
"""

import os
import shutil
import subprocess
import tomllib
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel

ROOT = Path(__file__).resolve().parent
SYSTEM_SPACE = ROOT / "src" / "rye_mcp" / ".ai"

MACHINES = {62: "x86_64", 183: "aarch64"}
INTERPRETER = 3
"""Numbers of the ELF format: machines, and the header of a program that a dynamic linker has to start."""

NO_SYSTEM_SPACE = """\
src/rye_mcp/.ai has to be a link to the directory .ai at the root of this project, and it is not: \
the clone or the archive was unpacked without symbolic links, so the package would lack its tools.
Mend it with `ln -sfn ../../.ai src/rye_mcp/.ai` \
(in a git clone, run `git config core.symlinks true` first), then build again."""


class PlatformWheel(bdist_wheel):
    """A wheel for any Python 3 on this platform, made of the present tree only."""

    def get_tag(self) -> tuple[str, str, str]:
        """Name the platform of the program; ask for no particular interpreter."""
        _, _, platform = super().get_tag()
        for program in Path(self.bdist_dir).glob(
            "*.data/scripts/lilux-proc"
        ):  # none where a wheel is editable
            machine, is_static = needs(program.read_bytes())
            if is_static:
                # pip and uv take what asks for the oldest C library on every newer one, of either kind.
                return "py3", "none", f"manylinux_2_17_{machine}.musllinux_1_1_{machine}"
        return "py3", "none", platform

    def run(self) -> None:
        """Build into empty directories: files deleted since the last build would come back otherwise."""
        build = self.get_finalized_command("build")
        for left_over in (build.build_lib, build.build_scripts, self.bdist_dir):
            if Path(left_over).exists():
                shutil.rmtree(left_over)
        super().run()


def needs(program: bytes) -> tuple[str, bool]:
    """The machine that an ELF program is for, and whether it starts without a dynamic linker."""
    machine = MACHINES[int.from_bytes(program[18:20], "little")]
    table, size, count = (
        int.from_bytes(program[start:end], "little") for start, end in ((32, 40), (54, 56), (56, 58))
    )
    headers = (program[table + size * index :][:4] for index in range(count))
    return machine, INTERPRETER not in [int.from_bytes(kind, "little") for kind in headers]


def workspace_version() -> str:
    """Return the version that `Cargo.toml` states for the whole project."""
    manifest = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    version = manifest["workspace"]["package"]["version"]
    assert isinstance(version, str)  # noqa: S101 - for the type checker; Cargo accepts nothing else
    return version


def answer(*command: str) -> str:
    """Return what a tool of the build prints, or nothing when it is not there."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()  # noqa: S603
    except OSError:
        return ""


def compiler_flags(target: str) -> list[str]:
    """What the compiler is told: to link statically where it can, and to write no path of this machine.

    Packages of Cargo are compiled where they lie; their messages name that place, and it differs from machine
    to machine. The source of this project is named relative to it anyway.
    """
    library = Path(answer("cc", "-print-file-name=libc.a"))
    is_static = target.endswith("-linux-gnu") and library.is_absolute() and library.is_file()
    cargo = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo").absolute()
    return [
        *(("-C", "target-feature=+crt-static") if is_static else ()),
        f"--remap-path-prefix={cargo}=/cargo",
    ]


def tell_the_compiler() -> None:
    """Ask Cargo for such a binary, unless somebody has said how to build.

    The flags must not reach the compiler's own plug-ins, which are never static: naming the target keeps them
    from them.
    """
    if os.environ.keys() & {"RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"}:
        return
    target = os.environ.get("CARGO_BUILD_TARGET") or answer("rustc", "--print", "host-tuple")
    if target:
        os.environ["CARGO_BUILD_TARGET"] = target
        os.environ["CARGO_ENCODED_RUSTFLAGS"] = "\x1f".join(compiler_flags(target))


if not (SYSTEM_SPACE / "tools").is_dir():
    raise SystemExit(NO_SYSTEM_SPACE)

tell_the_compiler()
setup(version=workspace_version(), cmdclass={"bdist_wheel": PlatformWheel})
