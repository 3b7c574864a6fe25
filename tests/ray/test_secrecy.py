"""Nothing of a call can be read in the processes and files of Ray: no parameter, no output, no tool.

A canary is looked for while the call is under way, in what every process of the cluster, the slots and the
sidecar can write, and in every file below the directory of the cluster and in /dev/shm. The worker and its
processes have it: that they are found shows that the search works.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import anyio
import pytest

from rye_mcp.executor.primitive_executor import Watch
from tests.engine_world import tool
from tests.ray_world import RaySite, below, is_alive
from tests.worker_world import above

pytestmark = pytest.mark.anyio

PIECE = 1 << 24


def memory_of(pid: int) -> Iterator[bytes]:
    """What a process has written, or can write, piece by piece."""
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        place, rights, *_ = line.split()
        if "w" not in rights:
            continue
        start, end = (int(each, 16) for each in place.split("-"))
        with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
            for at in range(start, end, PIECE):
                try:
                    memory.seek(at)
                    yield memory.read(min(PIECE, end - at))
                except (OSError, ValueError, OverflowError):
                    break  # a page of a file that is shorter than its map


def holds(pid: int, canary: bytes) -> bool:
    return any(canary in piece for piece in memory_of(pid))


def files_with(root: Path, canary: bytes) -> list[Path]:
    return [
        path
        for path in root.rglob("*")
        if path.is_file() and not path.is_symlink() and canary in path.read_bytes()
    ]


def of_workers(pids: list[int]) -> set[int]:
    """A worker and all below it: these run the call."""
    roots = [pid for pid in pids if Path(f"/proc/{pid}/cmdline").read_bytes().endswith(b"\0worker\0")]
    return {each for root in roots for each in below(root)}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may read the memory of every process of its own")
async def test_no_canary_of_a_call_is_in_the_memory_or_the_files_of_ray(site: RaySite) -> None:
    canary = f"canary-{secrets.token_hex(12)}".encode()
    words = {name: f"{canary.decode()}-{name}" for name in ("parameter", "output", "error", "source")}
    script = f"""# {words["source"]}
echo "{words["output"]} $RYE_PARAM_word"
echo {words["error"]} >&2
read -r line < "$COUNTED.go\""""
    site.engine()
    site.server.sign("demo/told.sh", tool(script, "placement: {labels: {accel: a100}}"))
    node, said, begun = site.grid.nodes[0], bytearray(), anyio.Event()

    def heard(_stream: str, data: bytes, _skipped: int) -> None:
        said.extend(data)
        if all(words[each].encode() in said for each in ("output", "error", "parameter")):
            begun.set()

    with node.door("counted.go") as door:
        async with site.executor() as executor, anyio.create_task_group() as group:
            run = partial(
                executor.run, "demo/told", {"word": words["parameter"]}, watch=Watch(on_output=heard)
            )
            group.start_soon(run)
            await begun.wait()
            during = await anyio.to_thread.run_sync(partial(search, site, canary))
            os.write(door, b"on\n")
        after = files_with(site.grid.root / "ray", canary) + files_with(Path("/dev/shm"), canary)
    of_ray, of_workers_found, looked_at = during
    assert of_workers_found, "the search finds what is there"
    assert looked_at > 10
    assert of_ray == []
    assert after == []


def search(site: RaySite, canary: bytes) -> tuple[list[str], list[int], int]:
    """The processes of Ray that have a canary, those of the worker that do, and how many Ray has."""
    roots = [site.grid.head.process.pid, *(node.process.pid for node in site.grid.nodes), sidecar()]
    pids = [pid for root in roots for pid in below(root)]
    workers = of_workers(pids)
    of_ray = [pid for pid in pids if pid not in workers and is_alive(pid)]
    found = [Path(f"/proc/{pid}/cmdline").read_text() for pid in of_ray if holds(pid, canary)]
    return found, [pid for pid in workers if is_alive(pid) and holds(pid, canary)], len(of_ray)


def sidecar() -> int:
    return next(
        pid for pid in below(os.getpid()) if b"sidecar.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
    )


async def test_a_worker_gets_nothing_of_the_cluster_in_its_environment(site: RaySite) -> None:
    site.engine()
    site.server.sign(
        "demo/told.sh", tool('echo $$; read -r line < "$COUNTED.go"', "placement: {labels: {accel: a100}}")
    )
    found: list[bytes] = []
    node = site.grid.nodes[0]
    with node.door("counted.go") as door:

        def heard(_stream: str, data: bytes, _skipped: int) -> None:
            worker = above(int(data), lambda words: words[-2:] == ["worker", ""])
            slot = above(int(data), lambda words: words[0].startswith("ray::"))
            found.extend(Path(f"/proc/{pid}/environ").read_bytes() for pid in (worker, slot))
            os.write(door, b"on\n")

        assert (await site.run("demo/told", watch=Watch(on_output=heard))).success
    of_worker, of_slot = found
    assert b"RAY_" in of_slot, "there is something to keep back"
    assert b"RAY_" not in of_worker
    assert str(site.grid.token).encode() not in of_worker
