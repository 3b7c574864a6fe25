"""An envelope opens once, in the process that it was sealed for, until it expires, as it was sealed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from hypothesis import given, settings
from hypothesis import strategies as st

from lilux.primitives.signing import generate_keypair
from rye_mcp.errors import RyeError
from rye_mcp.nodes.seal import MAX_LIFE_MS, Channel, Hello, Instance, Refused, seal
from rye_mcp.runs.ids import new_run_id
from rye_mcp.trust.trust_document import PublicKey


@dataclass(frozen=True)
class Key:
    """The key pair of a machine."""

    private: Ed25519PrivateKey
    public: PublicKey

    @classmethod
    def new(cls) -> Key:
        private_pem, public_pem = generate_keypair()
        private = load_pem_private_key(private_pem, None)
        assert isinstance(private, Ed25519PrivateKey)
        return cls(private, PublicKey.from_pem(public_pem, "a test"))


SERVER, NODE, STRANGER = Key.new(), Key.new(), Key.new()


class Clock:
    """How old a worker is."""

    def __init__(self) -> None:
        self.age_ms = 0.0

    def __call__(self) -> float:
        return self.age_ms


def instance(node: Key = NODE, clock: Clock | None = None) -> Instance:
    return Instance(node, {SERVER.public.key_id: SERVER.public}.get, "1.0", clock or Clock())


def envelope(worker: Instance, *, by: Key = SERVER, expires_ms: int = 1000) -> tuple[dict[str, Any], Channel]:
    return seal(Hello.read(worker.hello()), new_run_id(), by, expires_ms=expires_ms)


def refused(worker: Instance, header: Mapping[str, Any]) -> str:
    with pytest.raises(Refused) as caught:
        worker.open(header)
    return caught.value.reason


def test_what_one_end_seals_the_other_opens_in_both_directions() -> None:
    worker = instance()
    header, here = envelope(worker)
    sender, there = worker.open(header)
    assert sender == SERVER.public.key_id
    for one, other in ((here, there), (there, here)):
        pieces = one.seal(b"x" * 200_000)
        assert b"".join(other.open(each.number, each.data) for each in pieces) == b"x" * 200_000
        assert len(pieces) > 1


def test_it_opens_once_as_long_as_it_is_good_and_never_after_that() -> None:
    clock = Clock()
    worker = instance(clock=clock)
    header, _ = envelope(worker, expires_ms=1000)
    worker.open(header)
    assert refused(worker, header) == "replayed"
    clock.age_ms = 1000
    assert refused(worker, header) == "replayed"
    clock.age_ms = 1001
    assert refused(worker, header) == "expired"


def test_one_that_is_good_for_longer_than_a_worker_remembers_is_refused() -> None:
    worker = instance()
    assert refused(worker, envelope(worker, expires_ms=MAX_LIFE_MS + 1)[0]) == "expired"
    assert refused(worker, envelope(worker, expires_ms=-1)[0]) == "expired"


def test_another_process_of_the_same_node_does_not_open_it() -> None:
    header, _ = envelope(instance())
    assert refused(instance(), header) == "another_worker"


def test_a_server_that_nobody_accepted_is_refused_and_so_is_one_in_the_name_of_another() -> None:
    worker = instance()
    header, _ = envelope(worker, by=STRANGER)
    assert refused(worker, header) == "unknown_submitter"
    assert refused(worker, {**header, "key": SERVER.public.key_id}) == "forged"


FIELDS = ("protocol", "run", "to", "node", "key", "share", "nonce", "expires", "signature", "op")


@pytest.mark.parametrize("field", FIELDS)
def test_every_field_is_signed(field: str) -> None:
    worker = instance()
    header, other = envelope(worker)[0], envelope(worker)[0]
    changed = {
        "protocol": 9,
        "op": "hello",
        "to": "0" * 32,
        "node": STRANGER.public.key_id,
        "key": STRANGER.public.key_id,
        "expires": 999,
    }
    value = changed.get(field, other[field])
    reason = refused(worker, {**header, field: value})
    assert reason in ("malformed", "another_worker", "unknown_submitter", "forged")
    worker.open(header)  # an envelope that was refused takes nothing away from the real one


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=70),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.thorough
@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(FIELDS), json_values), st.booleans())
def test_no_header_at_all_does_anything_but_be_refused(fields: dict[str, Any], as_it_was: bool) -> None:
    worker = instance()
    header = {**envelope(worker)[0], **fields} if as_it_was else fields
    if header != envelope(worker)[0] and fields:
        with pytest.raises(Refused):
            worker.open(header)
    with pytest.raises(RyeError, match="hello"):
        Hello.read(header)


@pytest.mark.parametrize("field", ["key", "instance", "share", "package", "signature", "protocol", "op"])
def test_every_field_of_a_hello_is_signed_by_its_node(field: str) -> None:
    header, other = instance().hello(), instance(STRANGER).hello()
    value = {"package": "2", "protocol": 9, "op": "call"}.get(field, other[field])
    with pytest.raises(RyeError) as caught:
        Hello.read({**header, field: value})
    assert caught.value.code == "engine_unreachable"
    with pytest.raises(RyeError):
        Hello.read({**header, "more": 1})


def test_only_the_process_itself_says_that_it_did_not_open_an_envelope_and_why() -> None:
    worker = instance()
    hello, (sent, _), (other, _) = Hello.read(worker.hello()), envelope(worker), envelope(worker)
    said = worker.unopened(sent, "expired")
    assert hello.reason_in(said, sent) == "expired"
    assert hello.reason_in(said, other) is None
    assert hello.reason_in({**said, "reason": "replayed"}, sent) is None
    assert hello.reason_in({**said, "reason": ["expired"]}, sent) is None
    assert hello.reason_in({**said, "signature": ""}, sent) is None
    assert Hello.read(instance().hello()).reason_in(said, sent) is None
    assert Hello.read(instance(STRANGER).hello()).reason_in(said, sent) is None


def test_what_no_server_can_have_sent_is_refused_without_a_signature() -> None:
    assert instance().unopened({"run": "x" * 200, "nonce": float("nan")}, "malformed") == {
        "op": "unopened",
        "run": "x" * 80,
        "reason": "malformed",
        "signature": "",
    }


def low_order(header: dict[str, Any]) -> dict[str, Any]:
    return {**header, "key": bytes([1, *bytes(31)]).hex()}


def test_a_key_for_which_anybody_can_sign_is_no_node() -> None:
    with pytest.raises(RyeError, match="weak"):
        Hello.read(low_order(instance().hello()))


def opened() -> tuple[Channel, Channel]:
    worker = instance()
    header, here = envelope(worker)
    return here, worker.open(header)[1]


def test_a_piece_that_comes_twice_says_nothing_the_second_time() -> None:
    here, there = opened()
    [piece] = here.seal(b"once")
    assert there.open(piece.number, piece.data) == b"once"
    assert there.open(piece.number, piece.data) == b""


@pytest.mark.parametrize(
    "spoil",
    [
        lambda pieces: pieces[1:],
        lambda pieces: pieces[::-1],
        lambda pieces: [type(pieces[0])(0, pieces[1].data)],
        lambda pieces: [type(pieces[0])(0, pieces[0].data[:-1])],
        lambda pieces: [type(pieces[0])(0, bytes([pieces[0].data[0] ^ 1]) + pieces[0].data[1:])],
    ],
    ids=["dropped", "reordered", "numbered anew", "cut", "flipped"],
)
def test_what_is_lost_moved_or_changed_on_the_way_is_noticed(spoil: Callable[[Any], Any]) -> None:
    here, there = opened()
    pieces = [*here.seal(b"one"), *here.seal(b"two")]
    first = spoil(pieces)[0]
    with pytest.raises(RyeError) as caught:
        there.open(first.number, first.data)
    assert caught.value.code == "lost"


@pytest.mark.parametrize("number", [None, -1, "0", 0.0, True, 1 << 100])
def test_an_invalid_number_is_refused(number: Any) -> None:
    here, there = opened()
    [piece] = here.seal(b"one")
    with pytest.raises(RyeError, match="expected"):
        there.open(number, piece.data)


def test_what_the_worker_says_cannot_be_sent_back_to_it() -> None:
    here, there = opened()
    [piece] = there.seal(b"from the worker")
    with pytest.raises(RyeError):
        there.open(piece.number, piece.data)
    assert here.open(piece.number, piece.data) == b"from the worker"
