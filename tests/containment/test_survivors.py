"""Nothing that a run has started survives it, whoever is killed, whatever the tool has done to get away."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.containment.endings import Control, Ending
from tests.containment.scene import EXEC, FORKED, LOOPS, PARKED, WAYS, Programs, Scene

DRAIN_S = 0.5
"""How long a finished tool's children may go on writing before they are killed."""

EXEC_GRACE_S = 0.5
"""How long exec lets the tool end by itself when it is asked to end."""

CANCEL_GRACE_MS = 20
TIMEOUT_MS = 1500
TIMEOUT_GRACE_S = 2.0

IN_GROUP = frozenset(["refuse", "refuse_frozen"])
"""These stay in the tool's own group, where a simple supervisor would find them."""

SEEN_BY_KEEPER = IN_GROUP | {"be_a_sibling"}
"""These are children of the keeper from the start."""

SLOWLY = ("daemonize", "run_on", "refuse", "refuse_frozen")
"""Enough for endings that are slow to play."""

SIDE_BY_SIDE = tuple(way for way in WAYS if way != "storm")
"""For endings that mostly wait, and are played several times at once."""

LEAVING = tuple(way for way in SIDE_BY_SIDE if way not in IN_GROUP)

HARD = (*SLOWLY, "be_a_sibling", "storm")
"""Enough to see that a guard does its work without the others."""


def kill(*names: str) -> Callable[[Scene], None]:
    return lambda scene: scene.kill(*names)


def terminate(name: str) -> Callable[[Scene], None]:
    return lambda scene: scene.signal(name, signal.SIGTERM)


def hang_up(scene: Scene) -> None:
    assert scene.client is not None
    scene.client.socket.shutdown(socket.SHUT_RDWR)


def cancel(scene: Scene) -> None:
    assert scene.client is not None
    scene.client.send("cancel", id=scene.run, grace_ms=CANCEL_GRACE_MS)


def close_output(scene: Scene) -> None:
    assert scene.process is not None
    assert scene.process.stdout is not None
    scene.process.stdout.close()


def let_tool_exit(scene: Scene) -> None:
    scene.leash.let_tool_leave()


def wait(scene: Scene) -> None:
    """The time of the run comes to its end by itself."""


ALL = ("warden", "serve", "keeper")
FORCED = Control("force,sweep")
WHOLE_TREE = Control("kill-tree,sweep", but=IN_GROUP)
ORPHANS = Control("keeper-subreaper", but=SEEN_BY_KEEPER)
ORPHANS_OF_EXEC = Control("keeper-subreaper,sweep", but=SEEN_BY_KEEPER)
WAKES_WARDEN = frozenset(["run_on", "freeze", "refuse_frozen"])
"""The warden is not told whom it inherits, but hears of these: they end, or go on when they are orphaned."""

ESCAPEES = (Control("sweep"), Control("serve-subreaper", but=WAKES_WARDEN))

ENDINGS = (
    Ending("the client hangs up", hang_up, (Control("client-eof"),), gone=ALL),
    Ending(
        "the client is killed",
        kill("client"),
        (Control("client-eof,parent-watch"),),
        enough=("client-eof", "parent-watch"),
        face="alone",
        gone=ALL,
    ),
    Ending(
        "the client is killed and a child of it holds the socket",
        kill("client"),
        (Control("parent-watch"),),
        face="forked",
        gone=ALL,
        ways=SLOWLY,
    ),
    Ending(
        "the client is killed while serve is stopped",
        kill("client"),
        (Control("parent-watch"),),
        face="stopped",
        gone=ALL,
        ways=SLOWLY,
    ),
    *(
        Ending(
            f"Python is killed under {loop}",
            kill("client"),
            (Control("client-eof,parent-watch"),),
            face=loop,
            gone=ALL,
            ways=("daemonize", "storm"),
        )
        for loop in LOOPS
    ),
    Ending(
        "the warden is killed",
        kill("warden"),
        (Control("lifeline"), Control("keeper-eof,sweep")),
        enough=("keeper-eof", "sweep"),
        gone=ALL,
    ),
    Ending(
        "serve is killed",
        kill("serve"),
        (Control("keeper-eof,warden"),),
        enough=("keeper-eof,sweep", "warden,sweep"),
        gone=ALL,
    ),
    Ending("a keeper is killed", kill("keeper"), ESCAPEES, enough=("warden,lifeline",), gone=("keeper",)),
    Ending(
        "warden and serve are killed",
        kill("warden", "serve"),
        (Control("keeper-eof"), Control("keeper-subreaper", but=SEEN_BY_KEEPER)),
        enough=("sweep,serve-subreaper",),
        gone=ALL,
    ),
    Ending(
        "warden and keeper are killed",
        kill("warden", "keeper"),
        (Control("sweep"), Control("serve-subreaper")),
        enough=("keeper-eof", "lifeline"),
        gone=ALL,
    ),
    Ending(
        "serve and keeper are killed",
        kill("serve", "keeper"),
        (Control("warden"),),
        enough=("keeper-eof,sweep,lifeline",),
        gone=ALL,
    ),
    Ending(
        "serve is asked to end",
        terminate("serve"),
        (Control("keeper-eof,sweep,warden"),),
        enough=("keeper-eof,sweep", "keeper-eof,warden", "sweep,warden"),
        gone=ALL,
    ),
    Ending(
        "the warden is asked to end",
        terminate("warden"),
        (Control("keeper-eof,warden"),),
        enough=("keeper-eof", "warden"),
        gone=ALL,
    ),
    Ending(
        "the run is cancelled",
        cancel,
        (FORCED, WHOLE_TREE, ORPHANS),
        enough=("force", "kill-tree", "sweep"),
        grace_s=CANCEL_GRACE_MS / 1e3,
    ),
    Ending(
        "exec is killed",
        kill("exec"),
        (Control("keeper-eof"),),
        enough=("sweep,serve-subreaper",),
        face=EXEC,
        gone=("exec", "keeper"),
    ),
    Ending(
        "the keeper of exec is killed",
        kill("keeper"),
        (Control("sweep"), Control("serve-subreaper")),
        enough=("keeper-eof",),
        face=EXEC,
        gone=("exec", "keeper"),
    ),
    Ending(
        "exec is asked to end",
        terminate("exec"),
        (FORCED, WHOLE_TREE),
        enough=("force", "kill-tree", "sweep"),
        face=EXEC,
        gone=("exec", "keeper"),
        grace_s=EXEC_GRACE_S,
        ways=SIDE_BY_SIDE,
        at_once=5,
    ),
    Ending(
        "nobody reads what exec would say",
        close_output,
        (FORCED, WHOLE_TREE),
        enough=("force", "kill-tree", "sweep"),
        face=EXEC,
        gone=("exec", "keeper"),
        grace_s=EXEC_GRACE_S,
        ways=SIDE_BY_SIDE,
        at_once=5,
    ),
    *(
        Ending(
            f"the tool exits{before}",
            let_tool_exit,
            (FORCED, WHOLE_TREE, orphans),
            enough=("force", "kill-tree", "sweep"),
            face=face,
            gone=gone,
            grace_s=DRAIN_S,
            ways=LEAVING,
            at_once=5,
        )
        for face, before, gone, orphans in [
            ("", "", (), ORPHANS),
            (EXEC, " before exec", ("exec", "keeper"), ORPHANS_OF_EXEC),
        ]
    ),
    *(
        Ending(
            f"the time {of} is over",
            wait,
            (FORCED,),
            face=face,
            gone=gone,
            grace_s=TIMEOUT_MS / 1e3 + TIMEOUT_GRACE_S,
            timeout_ms=TIMEOUT_MS,
            ways=SLOWLY,
            at_once=5,
        )
        for face, of, gone in [("", "of a run", ()), (EXEC, "of exec", ("exec", "keeper"))]
    ),
)


PROMPT = [ending for ending in ENDINGS if ending.grace_s < DRAIN_S]
PATIENT = [ending for ending in ENDINGS if ending.grace_s >= DRAIN_S]
SMOKE = {
    ("the client hangs up", "daemonize"),
    ("the warden is killed", "storm"),
    ("serve is killed", "daemonize"),
    ("the run is cancelled", "change_group"),
}
"""What `make test` plays too."""

ENOUGH = [(ending, off) for ending in ENDINGS for off in ending.enough]


@pytest.mark.parametrize(
    ("ending", "way"),
    [
        pytest.param(ending, way, marks=[pytest.mark.smoke] if (ending.name, way) in SMOKE else [])
        for ending in PROMPT
        for way in ending.ways
    ],
    ids=str,
)
def test_nothing_survives_when(ending: Ending, way: str, programs: Programs, rounds: int) -> None:
    for _ in range(rounds):
        ending.leaves_nobody(programs, (way,))


EARLY = [replace(ending, face=face) for face in (PARKED, FORKED) for ending in ENDINGS if not ending.face]
WITH_ZYGOTE = [
    Ending(
        f"the zygote and {' and '.join(names)} are killed", kill("zygote", *names), (), face=FORKED, gone=gone
    )
    for names, gone in [
        (("keeper",), ("zygote", "keeper")),
        (("serve",), (*ALL, "zygote")),
        (("warden",), (*ALL, "zygote")),
    ]
]


@pytest.mark.parametrize(
    "ending", [pytest.param(each, id=f"{each} ({each.face})") for each in (*EARLY, *WITH_ZYGOTE)]
)
@pytest.mark.parametrize("way", SLOWLY)
def test_nothing_survives_of_what_was_parked_when(ending: Ending, way: str, programs: Programs) -> None:
    if way in ending.ways:
        ending.leaves_nobody(programs, (way,))


@pytest.mark.parametrize("ending", PATIENT, ids=str)
def test_nothing_survives_the_grace_when(ending: Ending, programs: Programs, rounds: int) -> None:
    for _ in range(rounds // ending.at_once):
        ending.leaves_nobody(programs, ending.ways)


@pytest.mark.parametrize(("ending", "off"), ENOUGH, ids=str)
def test_one_of_several_guards_is_enough_when(ending: Ending, off: str, programs: Programs) -> None:
    ways = tuple(way for way in ending.ways if way in HARD)
    for played in [ways] if ending in PATIENT else [(way,) for way in ways]:
        ending.leaves_nobody(programs, played, off)


@pytest.mark.parametrize("ending", ENDINGS, ids=str)
def test_without_its_guards_there_are_survivors_when(ending: Ending, programs: Programs) -> None:
    ending.leaves_survivors(programs)
