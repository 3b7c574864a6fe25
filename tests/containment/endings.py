"""How a run can come to its end, and how a test lets it.

An `Ending` says which guards it takes to leave nobody behind. Without those of one of its `controls` somebody
is left, or the test that finds nobody would prove nothing. Without those of one of `enough` nobody is, since
other guards do the same work.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from tests.containment.scene import WAYS, Programs, Scene, play

LIMIT_S = 0.5
"""How long anybody may be left after somebody was killed."""

PATIENCE_S = 10.0
"""Who is left after so long is a survivor, however busy the machine is."""

TRIES = 3


def punctually(play: Callable[[], list[str]]) -> None:
    """Play something that says who was late. On a busy machine somebody may be, but not time after time."""
    late: list[str] = []
    for _ in range(TRIES):
        late = play()
        if not late:
            return
    raise AssertionError(f"late {TRIES} times in a row: {late}")


@dataclass(frozen=True)
class Control:
    """Guards that are switched off, and the ways of getting away that then lead nowhere all the same."""

    off: str
    but: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Ending:
    """How a run comes to its end, and who of its supervisor has to go with it.

    It may take `grace_s` until anybody is killed. What mostly waits is played `at_once` so many times.
    """

    name: str
    act: Callable[[Scene], None]
    controls: tuple[Control, ...]
    enough: tuple[str, ...] = ()
    face: str = ""
    gone: tuple[str, ...] = ()
    grace_s: float = 0.0
    timeout_ms: int | None = None
    ways: tuple[str, ...] = WAYS
    at_once: int = 1

    def __str__(self) -> str:
        return self.name

    def leaves_nobody(self, programs: Programs, ways: tuple[str, ...], off: str = "") -> None:
        """Nobody of the tools may be left, and if all guards are on, nobody who has to go with them."""
        punctually(lambda: self._late(programs, ways * self.at_once, off))

    def _late(self, programs: Programs, ways: tuple[str, ...], off: str) -> list[str]:
        """Play it once; who went, but late. Who does not go at all is an error at once."""
        late = []
        with ExitStack() as stack:
            scenes = self._enter(stack, programs, ways, off)
            deadline = self._act(scenes) + self.grace_s + LIMIT_S
            for way, scene in scenes:
                if scene.leash.gone_at(deadline) is None:
                    assert scene.leash.gone_at(deadline + PATIENCE_S), f"{way}: a process of the tool is left"
                    late.append(way)
                left = [] if off else scene.still_there(self.gone, deadline)
                assert not scene.still_there(left, deadline + PATIENCE_S), f"{way}: {left} are left"
                late += [f"{way}: {name}" for name in left]
        return late

    def leaves_survivors(self, programs: Programs) -> None:
        """Without the guards of each control, somebody of every tool must be left."""
        with ExitStack() as stack:
            scenes = []
            for control in self.controls:
                ways = tuple(way for way in self.ways if way not in control.but)
                entered = self._enter(stack, programs, ways, control.off)
                scenes += [(f"{way} without {control.off}", scene) for way, scene in entered]
            deadline = self._act(scenes) + self.grace_s + LIMIT_S
            contained = [name for name, scene in scenes if scene.leash.gone_at(deadline) is not None]
            assert not contained, f"nobody is left: {contained}"

    def _enter(
        self, stack: ExitStack, programs: Programs, ways: tuple[str, ...], off: str
    ) -> list[tuple[str, Scene]]:
        scenes = [play(programs, way, face=self.face, off=off, timeout_ms=self.timeout_ms) for way in ways]
        return [(way, stack.enter_context(scene)) for way, scene in zip(ways, scenes, strict=True)]

    def _act(self, scenes: list[tuple[str, Scene]]) -> float:
        """Do it to all; when it was done to the last one."""
        since = 0.0
        for way, scene in scenes:
            # Its own time may be over already when others took long to get away.
            early = not scene.leash.is_held and self.timeout_ms is None
            assert not early, f"{way}: it was gone before anything was done about it"
            since = time.monotonic()
            self.act(scene)
        return since
