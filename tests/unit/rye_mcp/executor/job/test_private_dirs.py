"""The private directory of a process is made while other processes sweep the same place."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SWEPT_AT_ONCE = """
import os, sys
from rye_mcp.executor.job.private_dirs import Place, Station, sweep

place = Place(os.path.realpath(sys.argv[1]), "rye")
swept = []

def sweep_what_is_new(event, arguments):
    if event == "open" and str(arguments[0]).startswith("rye-") and not swept:
        swept.append(arguments[0])
        sweep(place)

sys.addaudithook(sweep_what_is_new)
station = Station.open(place)
print(len(swept), swept[0] != os.path.basename(station.path), station.stands)
station.close()
"""
"""Sweeps between the moment in which a directory was made and that in which it is opened and locked."""


def test_one_that_is_swept_before_it_is_locked_is_made_again(own_place: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", SWEPT_AT_ONCE, str(own_place)], capture_output=True, text=True, check=False
    )
    assert (ran.stdout, ran.stderr) == ("1 True True\n", "")
    assert list((own_place / "rye").iterdir()) == []
