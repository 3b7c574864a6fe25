"""Frames, requests and events agree with the golden fixtures that the Rust side reads too."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lilux import _protocol as protocol
from lilux._frames import HEADER_LIMIT, PAYLOAD_LIMIT, FrameDecoder, Header, decode_header, encode_frame
from lilux._results import (
    Cleanup,
    Fact,
    Failure,
    HostTraffic,
    Network,
    Observed,
    RunResult,
    StreamCounts,
    Usage,
)
from lilux.primitives.errors import ConfigurationError, SupervisorError
from lilux.primitives.subprocess import Bind, Enforced, Facts, Hosts, Limits, Policy

ASSETS = Path(__file__).parents[2] / "assets" / "protocol"
FIXTURES: dict[str, Any] = {path.stem: json.loads(path.read_text("utf-8")) for path in ASSETS.glob("*.json")}


def fixtures(direction: str, *, refused: bool = False) -> list[str]:
    return sorted(
        name
        for name, made in FIXTURES.items()
        if made["direction"] == direction and ("error" in made) == refused
    )


def decode(data: bytes) -> list[tuple[Header, bytes]]:
    decoder = FrameDecoder()
    frames = decoder.feed(data)
    decoder.finish()
    return [(decode_header(header), payload) for header, payload in frames]


@pytest.mark.parametrize("name", fixtures("request") + fixtures("event"))
def test_the_frame_of_a_fixture_decodes_to_its_header_and_payload(name: str) -> None:
    made = FIXTURES[name]
    expected = (made["header"], base64.b64decode(made["payload_b64"]))
    assert decode(bytes.fromhex(made["frame_hex"])) == [expected]
    assert made["name"] == name


# --- requests -------------------------------------------------------------------

REQUESTS: dict[str, tuple[protocol.Request, int]] = {
    "run_minimal": (protocol.RunRequest(command="/bin/true"), 1),
    "run_whole": (
        protocol.RunRequest(
            command="server", env={"PATH": "/usr/bin"}, stdin="pipe", stream_credit=262_144, stream_whole=True
        ),
        2,
    ),
    "run_full": (
        protocol.RunRequest(
            command="python3",
            args=["-c", "print('Grüße, {name} ${HOME}')", "", "a b\nc"],
            cwd="/tmp/a dir",
            env={"PATH": "/usr/bin:/bin", "EMPTY": "", "LANG": "C.UTF-8"},
            search_path="/opt/bin:/usr/bin",
            stdin="pipe",
            timeout_ms=300_000,
            max_output=4096,
            result_fd=True,
            digests=True,
            spool=protocol.Spool(dir="/tmp/spool", max_bytes=1_048_576),
            stream_credit=262_144,
            notify=True,
            quiet_ms=100,
        ),
        2,
    ),
    "run_observe": (
        protocol.RunRequest(
            command="true",
            policy=Policy(tier="cell", net=Hosts(every_host_at=[80, 443])),
            observe=["/run/copy"],
        ),
        7,
    ),
    "run_policy": (protocol.RunRequest(command="true", policy=Policy(tier="walls")), 7),
    "run_policy_full": (
        protocol.RunRequest(
            command="true",
            policy=Policy(
                tier="cell",
                require="walls",
                read=["/srv/data", "/srv/caf\udce9"],
                write=["/home/ada/project"],
                protect=["/home/ada/project/.git"],
                mask=["/home/ada/project/.env"],
                binds=[Bind(source="/srv/cache", target="/home/ada/.cache", write=True)],
                devices=["/dev/tty"],
                home="/home/ada",
                net=Hosts(["api.github.com", "*.pypi.org:8443"], {"api.github.com": ["10.1.2.3", "fd00::1"]}),
                limits=Limits(processes=64, data=1 << 30, memory=2 << 30, temp=1 << 28),
            ),
        ),
        7,
    ),
    "run_descriptors": (protocol.RunRequest(command="true", descriptors={5: 0, 19: 0, 4: 0}), 7),
    "run_data": (protocol.RunRequest(command="cat", env={"PATH": "/usr/bin:/bin"}, stdin="data"), 3),
    "run_os_text": (
        protocol.RunRequest(
            command="/tmp/caf\udce9",
            args=["plain", "\udcff\udcfe"],
            cwd="/tmp/\udc80",
            env={"BYTES": "\udcc3(", "TEXT": "é"},
            search_path="/usr/bin:/tmp/\udce9",
            spool=protocol.Spool(dir="/tmp/sp\udce9"),
        ),
        4,
    ),
    "run_largest_id": (protocol.RunRequest(command="true"), 2**64 - 1),
    "run_longest_timeout": (
        protocol.RunRequest(
            command="true", timeout_ms=protocol.TIMEOUT_LIMIT_MS, max_output=protocol.OUTPUT_LIMITS[1]
        ),
        5,
    ),
    "run_shortest_timeout": (
        protocol.RunRequest(command="true", timeout_ms=1, max_output=protocol.OUTPUT_LIMITS[0]),
        6,
    ),
    "run_parked": (
        protocol.RunRequest(
            command="python3",
            args=["-B"],
            env={"LANG": "C.UTF-8"},
            result_fd=True,
            policy=Policy(tier="cell"),
            park_limit_ms=60_000,
        ),
        7,
    ),
    "run_zygote": (
        protocol.RunRequest(command="python3", args=["-B"], park_limit_ms=60_000, prepare=True),
        7,
    ),
    "run_forked": (
        protocol.RunRequest(command="", zygote=7, result_fd=True, park_limit_ms=60_000, park_awaited=True),
        8,
    ),
    "call_minimal": (protocol.CallRequest(protocol.RunRequest(command="python3")), 7),
    "call_full": (
        protocol.CallRequest(
            protocol.RunRequest(
                command="python3",
                args=["tool.py", "\udcff\udcfe"],
                env={"A": "1"},
                cwd="/tmp/a dir",
                search_path="/opt/bin",
                stdin="data",
                timeout_ms=300_000,
                max_output=4096,
                result_fd=True,
                notify=True,
                quiet_ms=100,
                digests=True,
                spool=protocol.Spool(dir="/tmp/spool", max_bytes=1_048_576),
                stream_credit=262_144,
                policy=Policy(tier="cell"),
            )
        ),
        7,
    ),
    "input": (protocol.InputRequest(), 2),
    "input_eof": (protocol.InputRequest(eof=True), 2),
    "cancel": (protocol.CancelRequest(), 2),
    "cancel_grace": (protocol.CancelRequest(grace_ms=0), 2),
    "credit": (protocol.CreditRequest(bytes=65536), 2),
    "kill_pid": (protocol.KillRequest(pid=4711, grace_ms=1500), 7),
    "kill_run": (protocol.KillRequest(run=2), 8),
    "status_pid": (protocol.StatusRequest(pid=4711), 9),
    "status_run": (protocol.StatusRequest(run=2), 10),
    "status_supervisor": (protocol.StatusRequest(), 11),
    "probe": (protocol.ProbeRequest(), 12),
}


def test_every_request_fixture_is_made_here() -> None:
    assert sorted(REQUESTS) == fixtures("request")


@pytest.mark.parametrize("name", sorted(REQUESTS))
def test_a_request_is_encoded_as_its_fixture(name: str) -> None:
    request, number = REQUESTS[name]
    payload = base64.b64decode(FIXTURES[name]["payload_b64"])
    assert decode(protocol.encode(request, number, payload)) == [(FIXTURES[name]["header"], payload)]


TEXTS = st.text(alphabet=st.characters(exclude_categories=["Cs"])) | st.binary().map(
    lambda raw: raw.decode("utf-8", "surrogateescape")
)


def os_bytes(text: Any) -> bytes:
    return base64.b64decode(text["b64"]) if isinstance(text, dict) else text.encode()


def test_no_repr_of_a_request_shows_a_variable() -> None:
    assert repr(protocol.RunRequest(command="x", env={"TOKEN": "s3cr3t"})) == "RunRequest(command='x')"


@given(args=st.lists(TEXTS))
def test_any_argument_keeps_its_bytes_on_the_wire(args: list[str]) -> None:
    ((header, _),) = decode(protocol.encode(protocol.RunRequest(command="x", args=args), 1))
    sent = [os_bytes(text) for text in header.get("args", [])]
    assert sent == [text.encode("utf-8", "surrogateescape") for text in args]


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (protocol.RunRequest(command="x", args=["a", "\ud800"]), "args[1]"),
        (protocol.RunRequest(command="x", env={"A": "\ud800"}), "env.A"),
        (protocol.RunRequest(command="x", env={"\udcff": "a"}), "env"),
    ],
)
def test_a_text_that_no_process_can_be_given_is_refused_by_its_place(
    request_: protocol.RunRequest, field: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        protocol.encode(request_, 1)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("header", "payload"), [({"op": "x" * HEADER_LIMIT}, b""), ({"op": "input"}, b"x" * (PAYLOAD_LIMIT + 1))]
)
def test_a_frame_over_the_limits_is_never_made(header: Header, payload: bytes) -> None:
    with pytest.raises(SupervisorError) as caught:
        encode_frame(header, payload)
    assert caught.value.code == "frame_too_large"


# --- the decoder ----------------------------------------------------------------


@pytest.mark.thorough
@given(
    frames=st.lists(
        st.tuples(st.dictionaries(st.text(max_size=5), st.integers()), st.binary(max_size=40)), max_size=4
    ),
    cuts=st.lists(st.integers(min_value=1, max_value=30)),
)
def test_frames_come_out_whole_however_the_bytes_come_in(
    frames: list[tuple[Header, bytes]], cuts: list[int]
) -> None:
    data = b"".join(encode_frame(header, payload) for header, payload in frames)
    decoder = FrameDecoder()
    found = [frame for piece in pieces(data, cuts) for frame in decoder.feed(piece)]
    decoder.finish()
    assert [(decode_header(header), payload) for header, payload in found] == frames


@given(st.binary(max_size=40), st.data())
def test_a_decoder_knows_how_much_is_missing_from_a_frame_that_has_begun(
    payload: bytes, data: st.DataObject
) -> None:
    frame = encode_frame({"op": "status"}, payload)
    cut = data.draw(st.integers(0, len(frame)))
    decoder = FrameDecoder()
    decoder.feed(frame[:cut])
    assert decoder.missing() == (len(frame) - cut if cut >= 8 and cut < len(frame) else 0)


def pieces(data: bytes, cuts: list[int]) -> Iterator[bytes]:
    for size in cuts:
        yield data[:size]
        data = data[size:]
    yield data


UNFRAMED = [name for name in fixtures("request", refused=True) if FIXTURES[name]["header"] is None]


@pytest.mark.parametrize("name", UNFRAMED)
def test_bytes_that_are_no_frame_are_refused_with_their_code(name: str) -> None:
    with pytest.raises(SupervisorError) as caught:
        decode(bytes.fromhex(FIXTURES[name]["frame_hex"]))
    assert caught.value.code == FIXTURES[name]["error"]


def test_a_header_that_is_too_deep_is_refused_like_any_that_is_malformed() -> None:
    raw = b"[" * 200_000
    with pytest.raises(SupervisorError) as caught:
        decode(struct.pack(">II", len(raw), 0) + raw)
    assert caught.value.code == "malformed_frame"


# --- events ---------------------------------------------------------------------

NOTHING = StreamCounts(0, 0, 0, 0, 0, 0)
DIGEST = "ab" * 32
CUT = StreamCounts(8, 5, 1_000_008, 1_000_000, 900_008, 99_997, DIGEST)


def ended(kind: str, return_code: int, signal: int | None = None, **changes: Any) -> RunResult:
    """The result that most fixtures share."""
    fields: dict[str, Any] = {
        "pid": 4711,
        "duration_ms": 1.25,
        "usage": Usage(0.4, 0.6, 1820),
        "stdout": NOTHING,
        "stderr": NOTHING,
        "result": None,
        "truncated": False,
        "cleanup": Cleanup("complete", []),
        "error": None,
    }
    return RunResult(kind=kind, return_code=return_code, signal=signal, **{**fields, **changes})


def whole(size: int) -> StreamCounts:
    return StreamCounts(size, size, size, 0, 0, 0, DIGEST)


ENFORCED = Enforced(
    level="walls",
    net={"ports": [443]},
    proc="shared",
    limits=["data"],
    unenforced=["protected_paths", "cmdlines"],
    capabilities=["chown"],
    reason="no user namespaces here",
)


EVENTS: dict[str, protocol.Event] = {
    "hello": protocol.Hello(1, "0.1.0", ["result_fd", "spool", "stream"]),
    "started": protocol.Started(2, 4711),
    "started_enforced": protocol.Started(2, 4711, ENFORCED),
    "parked": protocol.Parked(7, 4711),
    "parked_zygote": protocol.Parked(7, 4711, memory_kb=9620),
    "parked_enforced": protocol.Parked(7, 4711, ENFORCED),
    "output_stdout": protocol.Output(2, "stdout", 0, 0),
    "output_stderr_skipped": protocol.Output(2, "stderr", 1, 1_048_576),
    "output_result": protocol.Output(2, "result", 2, 0),
    "credit_event": protocol.Credit(2, 65536),
    "exited": protocol.Exited(2, 0, None),
    "exited_signal": protocol.Exited(2, -9, 9),
    "captured_stdout": protocol.Captured(2, "stdout"),
    "captured_result": protocol.Captured(2, "result"),
    "closed_exited": protocol.Closed(1, ended("exited", 0, stdout=whole(6))),
    "closed_all_streams": protocol.Closed(
        2, ended("exited", 3, stdout=whole(6), stderr=whole(5), result=whole(11))
    ),
    "closed_truncated": protocol.Closed(
        2,
        ended(
            "exited",
            0,
            stdout=StreamCounts(8, 5, 1_000_008, 1_000_000, 900_008, 99_997, DIGEST),
            truncated=True,
        ),
    ),
    "closed_signaled": protocol.Closed(2, ended("signaled", -11, 11)),
    "closed_timeout": protocol.Closed(2, ended("timeout", -1, 15, stdout=whole(8), duration_ms=2001.5)),
    "closed_cancelled": protocol.Closed(2, ended("cancelled", -15, 15)),
    "closed_left_running": protocol.Closed(
        1, ended("exited", 0, stdout=whole(6), cleanup=Cleanup("complete", [], 2))
    ),
    "closed_cleanup_incomplete": protocol.Closed(
        2, ended("timeout", -1, 9, cleanup=Cleanup("incomplete", [4712, 4713]), duration_ms=7000.0)
    ),
    "closed_spawn_failed": protocol.Closed(
        4,
        ended(
            "spawn_failed",
            -1,
            pid=None,
            duration_ms=0.2,
            usage=Usage(0.0, 0.0, 0),
            error=Failure("command_not_found", "lookup", 2, "no such command: nope"),
        ),
    ),
    "closed_parked": protocol.Closed(7, ended("timeout", -1, 15, duration_ms=2001.5, parked=True)),
    "closed_enforced": protocol.Closed(7, ended("exited", 0, enforced=ENFORCED)),
    "closed_network": protocol.Closed(
        7,
        ended(
            "exited",
            0,
            enforced=Enforced("cell", {"hosts": ["api.github.com:443"]}, "private", ["processes"], []),
            network=Network(
                served=True,
                ports=[443],
                hosts=[
                    HostTraffic("api.github.com", 443, 2, 517, 4096),
                    HostTraffic("intranet.example", 443, 1, 0, 0, {"private": 1}),
                ],
                refused=[("evil.example", 3)],
                refused_beyond=0,
                strays=1,
            ),
        ),
    ),
    "closed_observed": protocol.Closed(
        7,
        ended(
            "exited",
            0,
            enforced=Enforced("cell", {"hosts": [], "every_host_at": [443]}, "private", ["processes"], []),
            network=Network(
                served=True,
                ports=[443],
                hosts=[
                    HostTraffic("api.github.com", 443, 2, 517, 4096),
                    HostTraffic("intranet.example", 443, 1, 0, 0, {"private": 1}),
                ],
                refused=[],
                refused_beyond=0,
                strays=0,
                names=[("api.github.com", "198.18.0.1")],
            ),
            observed=Observed(
                [
                    Fact("read", "/home/ada/project/a b"),
                    Fact("write", "/home/ada/project/out"),
                    Fact("exec", "/usr/bin/git"),
                    Fact("connect", "198.18.0.1:443"),
                ],
                lost=2,
            ),
        ),
    ),
    "killed_pid": protocol.Killed(7, 4711, "terminated"),
    "killed_run": protocol.Killed(8, None, "killed"),
    "killed_already_dead": protocol.Killed(7, 4711, "already_dead"),
    "status_of_pid": protocol.ProcessStatus(9, 4711, True),
    "status_of_run": protocol.RunStatus(10, 2, "running"),
    "status_of_unknown_run": protocol.RunStatus(10, 99, "unknown"),
    "status_of_supervisor": protocol.SupervisorStatus(11, 4700, 4699, 1, 4, 3),
    "probed": protocol.Probed(12, Facts(7, True, "user_namespace", None, "private", True, None)),
    "error_of_run": protocol.Refused(2, "keeper_lost", "run", None, "the keeper of this run is gone"),
    "error_of_kill": protocol.Refused(7, "not_permitted", "kill", 1, "process 1 belongs to somebody else"),
    "error_of_stream": protocol.Refused(
        None, "malformed_frame", "decode", None, "the header is not a JSON object"
    ),
}


def test_every_event_fixture_is_known_here() -> None:
    assert sorted(EVENTS) == fixtures("event")


@pytest.mark.parametrize("name", sorted(EVENTS))
def test_an_event_is_parsed_as_its_fixture(name: str) -> None:
    ((header, _),) = FrameDecoder().feed(bytes.fromhex(FIXTURES[name]["frame_hex"]))
    assert protocol.parse_event(header) == EVENTS[name]


@pytest.mark.parametrize(
    "header",
    [
        {},
        {"event": "party", "id": 1},
        {"event": ["started"], "id": 1, "pid": 2},
        {"event": "started", "id": 1},
        {"event": "started", "id": 1, "pid": 2, "mood": "good"},
        {"event": "started", "id": 1, "pid": "2"},
        {"event": "closed", "id": 1, "result": None},
        {"event": "closed", "id": 1, "result": {"kind": "exited"}},
        {"event": "status", "id": 1},
    ],
)
def test_a_frame_that_holds_no_event_is_an_error_and_not_a_surprise(header: Header) -> None:
    with pytest.raises(SupervisorError) as caught:
        protocol.parse_event(json.dumps(header).encode())
    assert caught.value.code == "malformed_event"
