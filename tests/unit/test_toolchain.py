"""`scripts/toolchain.py` says what to install, before a build fails without saying it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/toolchain.py"

CARGOS = {
    "none": (None, "cargo is not there: get it from https://rustup.rs."),
    "a rustup without a toolchain": ("echo 'error: no default is configured' >&2; exit 1", "rustup default"),
    "an old one": ("echo 'cargo 1.60.0 (d1fd9fe 2022-03-01)'", "this is 1.60: run `rustup update`."),
    "a good one": ("echo 'cargo 1.99.0 (d1fd9fe 2030-03-01)'", None),
}


@pytest.mark.parametrize("kind", CARGOS)
def test_what_is_missing_of_rust_is_said_in_one_sentence(kind: str, tmp_path: Path) -> None:
    answer, expected = CARGOS[kind]
    for name, says in (("cc", "exit 0"), ("cargo", answer)):
        if says is not None:
            (tmp_path / name).write_text(f"#!/bin/sh\n{says}\n")
            (tmp_path / name).chmod(0o755)
    run = subprocess.run(
        [sys.executable, SCRIPT], env={**os.environ, "PATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert run.returncode == (0 if expected is None else 1)
    assert [expected in line for line in run.stderr.splitlines() if expected] == [True] * run.returncode
    assert len(run.stderr.splitlines()) == run.returncode
