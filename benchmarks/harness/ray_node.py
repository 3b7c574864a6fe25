"""One node of Ray on this machine for a benchmark, as the user of the benchmark."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from harness.server import SCRIPTS

__all__ = ["ADDRESS", "HERE", "is_installed", "ray_node", "resident_mb"]

HERE: Final = "127.0.0.2"
ADDRESS: Final = f"{HERE}:26390"
START_S: Final = 60.0


def is_installed() -> bool:
    """Whether the environment of the benchmark has Ray."""
    return (SCRIPTS / "ray").exists()


@contextmanager
def ray_node(place: Path, environment: Mapping[str, str]) -> Iterator[None]:
    """A cluster of one node with two processors; all of it is gone at the end."""
    log = place / "ray.log"
    words = ["start", "--head", f"--node-ip-address={HERE}", f"--port={ADDRESS.partition(':')[2]}"]
    words += ["--num-cpus=2", "--object-store-memory=80000000", "--include-dashboard=false"]
    words += ["--disable-usage-stats", f"--temp-dir={place / 'ray'}", "--block"]
    command = [str(SCRIPTS / "lilux-proc"), "exec", "--cmd=sh", "--arg=-c"]
    for word in (f'exec "$@" > {log} 2>&1', "sh", str(SCRIPTS / "ray"), *words):
        command += ["--arg", word]
    with subprocess.Popen(command, env=dict(environment), stdout=subprocess.DEVNULL) as process:
        try:
            until = time.monotonic() + START_S
            while not (log.exists() and "Ray runtime started" in log.read_text()):
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < until, log.read_text()
                time.sleep(0.1)
            yield
        finally:
            process.terminate()


def resident_mb(is_right: str, below: Path) -> list[float]:
    """How many megabytes the processes hold whose command line has these words, of this benchmark alone."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            if is_right not in words or f"HOME={below}".encode() not in (entry / "environ").read_bytes():
                continue
            status = (entry / "status").read_text().partition("VmRSS:")[2].split()
        except OSError:
            continue  # it has ended
        if status:
            found.append(int(status[0]) / 1024)
    return found
