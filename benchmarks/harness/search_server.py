"""What a client of the server waits for a search, and what the server holds for it: ten verified results."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from harness.figures import IncorrectError, percentile
from harness.search_scene import Scene, query_kinds
from harness.server import SCRIPTS, Talk
from rye_mcp.items import ItemFile, ItemType
from rye_mcp.trust.keys import KeyRing
from rye_mcp.trust.scope import SignerKind
from rye_mcp.trust.sign import sign_content

__all__ = ["KINDS", "measure_server"]

KINDS: Final = ("one word", "three words", "twelve words")
RESULTS: Final = 10

Figure = tuple[str, float, str]


def measure_server(scene: Scene, count: int) -> Iterator[Figure]:
    """How long queries of each kind take over standard streams, and what memory the first one takes.

    All items are signed, and the index is made before anything is measured.
    """
    _sign(scene)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(scene.root / "home"),
        "USER_SPACE": str(scene.root / "home"),
        "XDG_STATE_HOME": str(scene.root / "state"),
        "XDG_CACHE_HOME": str(scene.root / "served"),
    }
    project = scene.root / "project"
    with Talk([SCRIPTS / "rye-mcp"], environment, project) as server:
        server.call("search", query="warm up", limit=1)
    with Talk([SCRIPTS / "rye-mcp"], environment, project) as server:
        server.call("load", item_id="rye/core/verify")
        before = _resident_mib(server.pid)
        server.call("search", query="warm up", limit=1)
        yield "memory that a first search adds to a server", _resident_mib(server.pid) - before, "MiB"
        for kind in KINDS:
            times = [_asked(server, text) for text, _ in query_kinds(count)[kind]]
            yield f"{kind} over stdio, {RESULTS} verified results, p50", percentile(times, 50), "ms"


def _asked(server: Talk, text: str) -> float:
    """How long one query takes, when it has been asked before."""
    server.call("search", query=text, limit=RESULTS)
    started = time.perf_counter()
    found = server.call("search", query=text, limit=RESULTS)
    taken = (time.perf_counter() - started) * 1e3
    verified = [each for each in found["results"] if each["signer"] is not None]
    if len(verified) != min(RESULTS, found["total"]):
        raise IncorrectError(f"{text!r}: expected {RESULTS} verified results, found {len(verified)}")
    return taken


def _sign(scene: Scene) -> None:
    """Sign every item, as a person who has a key."""
    keys = KeyRing(scene.root / "home/.ai", environment={})
    keys.ensure(SignerKind.PERSON, owner="leo")
    key = keys.load(SignerKind.PERSON)
    for path in scene.tools.rglob("*.py"):
        item_id = path.relative_to(scene.tools).with_suffix("").as_posix()
        file = ItemFile(scene.space, ItemType.TOOL, item_id, ".py", path, path.read_bytes())
        path.write_bytes(sign_content(file, key))


def _resident_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024
