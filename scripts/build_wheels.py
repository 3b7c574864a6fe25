"""Build what is published into dist/: the sdist, the wheel of this machine, and that of the other one.

    python scripts/build_wheels.py

Rules:

- The wheels are built from the sdist, as anybody else would build them.
- The other machine's wheel needs Rust's standard library for it and nothing else: it is linked with musl and
  with Rust's own linker, so there is no C compiler for that machine to install. Where the library is missing,
  the command that gets it is printed, and the wheel is left out.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
MACHINES: Final = ("x86_64", "aarch64")


def build(*arguments: str, **variables: str) -> None:
    """Run the standard build front end; this script ends with it when it fails."""
    command = [sys.executable, "-m", "build", "--outdir", str(ROOT / "dist"), *arguments]
    subprocess.run(command, check=True, env=os.environ | variables)  # noqa: S603 - our own build


def can_build_for(target: str) -> bool:
    """Whether Rust has its standard library for a target."""
    answer = subprocess.run(  # noqa: S603 - the compiler that builds the wheel
        ["rustc", "--print", "target-libdir", "--target", target],  # noqa: S607 - as the user has it
        capture_output=True,
        text=True,
        check=False,
    )
    return answer.returncode == 0 and Path(answer.stdout.strip()).is_dir()


def main() -> int:
    """Build everything that can be built here."""
    build(str(ROOT))
    (sdist,) = (ROOT / "dist").glob("*.tar.gz")
    for machine in MACHINES:
        target = f"{machine}-unknown-linux-musl"
        if machine == platform.machine():
            continue
        if not can_build_for(target):
            print(f"No wheel for {machine}. To get one: rustup target add {target}")
            continue
        linker = f"CARGO_TARGET_{target.upper().replace('-', '_')}_LINKER"
        with TemporaryDirectory(prefix="rye-wheel-") as place, tarfile.open(sdist) as archive:
            archive.extractall(place, filter="data")
            source = Path(place) / sdist.name.removesuffix(".tar.gz")
            build("--wheel", str(source), **{"CARGO_BUILD_TARGET": target, linker: "rust-lld"})
    return 0


if __name__ == "__main__":
    sys.exit(main())
