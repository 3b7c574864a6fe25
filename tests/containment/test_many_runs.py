"""Many runs, one after the other and at once: none disturbs another, and nothing is left of them."""

from __future__ import annotations

import random
import resource
import select
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.containment.client import TERMINAL, Client, Frame
from tests.containment.processes import (
    children_of,
    descriptors_of,
    family_of,
    memory_of,
    peak_of,
    state_of,
)

MIB = 1 << 20
WARM_KEEPERS = 2
SETTLE_S = 40.0
AT_ONCE = 16
RACES = 1000
LEAVES_A_CHILD = "sleep 100 >/dev/null 2>&1 & echo last word"
MOMENTS = ("run", "started", "output", "exited")
"""When a run is cancelled: with its request, or as soon as this is heard of it."""


def wait_until(client: Client, holds: Callable[[], bool]) -> None:
    """Wait for something that nobody announces; the client has nothing to read meanwhile."""
    deadline = time.monotonic() + SETTLE_S
    while not holds():
        assert time.monotonic() < deadline, "it never came to rest"
        select.select([client.socket], [], [], 0.02)


def settle(client: Client) -> list[int]:
    """Wait until idle keepers are trimmed; everybody who is left."""

    def is_settled() -> bool:
        status = client.status()
        return bool(status["runs"] == 0 and status["keepers"] == status["idle_keepers"] <= WARM_KEEPERS)

    wait_until(client, is_settled)
    return family_of(client.status()["warden"])


def several(
    client: Client, start: Callable[[int], int], count: int, then: Callable[[Frame], None] = lambda _: None
) -> Iterator[tuple[int, Frame]]:
    """Have AT_ONCE runs going until there were `count`; which of them ended, and with what.

    `then` gets what else is said.
    """
    numbers: dict[int, int] = {}
    for number in range(count + AT_ONCE):
        if number < count:
            numbers[start(number)] = number
        while len(numbers) >= AT_ONCE or (number >= count and numbers):
            frame = client.read()
            if frame.event in TERMINAL and frame.id in numbers:
                yield numbers.pop(frame.id), frame
            else:
                then(frame)


def test_nothing_is_gained_by_ten_thousand_runs(client: Client) -> None:
    def run(count: int) -> None:
        for number, frame in several(client, lambda number: client.start_run("echo", number), count):
            assert frame.payload == f"{number}\n".encode()

    run(500)
    before = settle(client)
    descriptors, memory = descriptors_of(before), memory_of(before)
    run(10_000)
    after = settle(client)
    assert len(after) == len(before)
    wait_until(client, lambda: all(state_of(pid) == "S" for pid in after))  # who answers runs for a moment
    assert descriptors_of(after) == descriptors
    assert memory_of(after) - memory < MIB


def test_a_cancel_after_the_end_of_the_tool_itself_does_not_change_how_it_ended(client: Client) -> None:
    run = client.start_run("/bin/sh", "-c", "sleep 100 & exit 7", notify=True)
    client.wait_for(run, "exited")
    client.send("cancel", id=run, grace_ms=0)
    result = client.end_of(run).result
    assert (result["kind"], result["return_code"]) == ("exited", 7)


def test_a_cancel_that_races_with_the_end_leaves_one_answer_and_nobody(client: Client) -> None:
    """Cancelled with its request, or at the first sight of the tool, of its last word, or of its end."""
    moments: dict[int | None, str] = {}

    def start(number: int) -> int:
        run = client.start_run("/bin/sh", "-c", LEAVES_A_CHILD, notify=True, stream={"credit": 100})
        moments[run] = MOMENTS[number % len(MOMENTS)]
        if moments[run] == "run":
            client.send("cancel", id=run)
        return run

    def race(frame: Frame) -> None:
        if moments.get(frame.id) == frame.event:
            client.send("cancel", id=frame.id, grace_ms=0)

    kinds: dict[str, Counter[str]] = {moment: Counter() for moment in MOMENTS}
    for _, frame in several(client, start, RACES, race):
        assert frame.event == "closed", frame.header
        result = frame.header["result"]
        ended = {"ended": 1} if result["cleanup"].get("ended") and result["kind"] == "exited" else {}
        assert result["cleanup"] == {"state": "complete", "pids": [], **ended}
        kinds[moments.pop(frame.id)][result["kind"]] += 1
    assert sum(map(Counter.total, kinds.values())) == RACES
    assert set(kinds["exited"]) == {"exited"}, kinds
    assert set().union(*kinds.values()) == {"exited", "cancelled"}, kinds
    extra = client.send("status")
    assert client.read().id == extra, "a run had a second end"
    keepers = children_of(client.status()["pid"])
    assert [children_of(keeper) for keeper in keepers] == [[]] * len(keepers)


def test_a_thousand_runs_at_once_do_not_mix_their_answers(client: Client) -> None:
    count = 1000
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 6 * count:
        pytest.skip("this system does not allow enough descriptors")
    script = 'read -r word; echo "$1 $word"; echo "$word $1" >&2; exit $(($1 % 256))'
    runs = [client.start_run("/bin/sh", "-c", script, "sh", number, stdin="pipe") for number in range(count)]
    assert client.status()["runs"] == count
    order = list(range(count))
    random.Random(21).shuffle(order)  # noqa: S311 - the same order each time
    for number in order:
        client.send("input", f"word-{number}\n".encode(), id=runs[number], eof=True)
    for number, run in enumerate(runs):
        ended = client.end_of(run)
        assert ended.stdout == f"{number} word-{number}\n".encode()
        assert ended.stderr == f"word-{number} {number}\n".encode()
        assert ended.result["return_code"] == number % 256


def test_without_free_descriptors_some_runs_are_refused_and_no_other_is_disturbed(binary: Path) -> None:
    few = ["/bin/sh", "-c", 'ulimit -n 64; exec "$@"', "sh"]
    with Client.start(binary, before=few) as client:
        client.run("true")
        before = descriptors_of([client.status()["pid"]])
        for _ in range(3):
            runs = [client.start_run("cat", stdin="pipe") for _ in range(30)]
            for run in runs:
                client.send("input", str(run).encode(), id=run, eof=True)
            ends = [client.end_of(run) for run in runs]
            kinds = Counter(ended.result["kind"] for ended in ends)
            assert set(kinds) == {"exited", "spawn_failed"}, kinds
            for run, ended in zip(runs, ends, strict=True):
                if ended.result["kind"] == "exited":
                    assert ended.stdout == str(run).encode()
                else:
                    assert ended.error == "resource_exhausted"
            assert client.run("echo", "later").stdout == b"later\n"
        settle(client)
        assert descriptors_of([client.status()["pid"]]) <= before + WARM_KEEPERS


def test_a_client_that_stops_reading_holds_up_no_run_and_misses_nothing(client: Client) -> None:
    count, size = 20, 4 * MIB
    status = client.status()
    peak = peak_of([status["pid"]])
    script = 'head -c "$1" /dev/zero | tr "\\0" "$2"'
    letters = [chr(ord("a") + number) for number in range(count)]
    runs = [client.start_run("/bin/sh", "-c", script, "sh", size, letter) for letter in letters]
    wait_until(client, lambda: no_tools_below(status["pid"]))
    for letter, run in zip(letters, runs, strict=True):
        ended = client.end_of(run)
        assert (ended.stdout, ended.result["stdout"]["total"]) == (letter.encode() * MIB, size)
    assert peak_of([status["pid"]]) - peak < (count + 2) * MIB


def no_tools_below(serve: int) -> bool:
    """All requests have been read, and no keeper has a tool."""
    keepers = children_of(serve)
    return len(keepers) > WARM_KEEPERS and not any(children_of(keeper) for keeper in keepers)


def test_no_timer_follows_a_clock_that_can_be_set() -> None:
    """Nobody sets the clock of the machine that tests run on, so this reads the source."""
    source = Path(__file__).parents[2] / "crates" / "lilux-proc" / "src"
    texts = {path.name: path.read_text("utf-8") for path in source.rglob("*.rs")}
    for word in ("SystemTime", "CLOCK_REALTIME", "Realtime", "gettimeofday"):
        assert [name for name, text in texts.items() if word in text] == []
    assert any("Instant" in text for text in texts.values())


def test_memory_for_large_output_is_given_back_after_a_single_run(client: Client) -> None:
    serve = [client.status()["pid"]]
    before = memory_of(serve)
    ended = client.shell("head -c 32000000 /dev/zero", max_output=64 * MIB)
    assert ended.result["stdout"]["kept"] == 32_000_000
    wait_until(client, lambda: memory_of(serve) - before < 2 * MIB)
