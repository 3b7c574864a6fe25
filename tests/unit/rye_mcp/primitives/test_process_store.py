"""Where processes of tools are remembered: in directories that nobody else can look into."""

from __future__ import annotations

from pathlib import Path

from rye_mcp.primitives._process_store import ProcessStore
from tests.file_helpers import mode_of, umask


def test_every_directory_on_the_way_is_private_whoever_comes_first(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with umask(0o022):
        _, directory = ProcessStore(state, tmp_path).new()
    made = [directory, *directory.parents]
    assert {mode_of(each) for each in made[: made.index(state) + 1]} == {0o700}
