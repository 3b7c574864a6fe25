"""The sealed envelope of a call, and the channel that it opens; nothing here reads, writes or waits.

A worker process makes a key of its own and an id, and its node signs both (`Hello`). An `Envelope` is for one
such process, once: the sender's key signs it, and only that process can compute the keys of its `Channel`.

    instance = Instance.begin(node, accepted)
    envelope, channel = seal(Hello.read(instance.hello()), run_id, submitter, expires_ms=60_000)
    same = instance.open(envelope)
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, Self

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from lilux import _keys
from lilux._dataclasses import dataclass
from lilux._ed25519 import KEY_BYTES, is_canonical_point, is_low_order
from lilux.primitives.errors import IntegrityError
from lilux.primitives.integrity import canonical_json
from rye_mcp.errors import RyeError
from rye_mcp.receipts.envelope import pre_authentication
from rye_mcp.runs.ids import is_run_id
from rye_mcp.trust.trust_document import PublicKey, is_key_id

__all__ = [
    "MAX_LIFE_MS",
    "PROTOCOL",
    "REASONS",
    "RECORD_BYTES",
    "Channel",
    "Hello",
    "Identity",
    "Instance",
    "Refused",
    "Sealed",
    "seal",
]

PROTOCOL: Final = 2
"""The version of everything in this package that goes over a wire."""

MAX_LIFE_MS: Final = 300_000
"""For how long an envelope may be good at most; for so long a worker remembers what it has opened."""

RECORD_BYTES: Final = 60 << 10
"""How much of the stream inside of a channel is sealed at once."""

REASONS: Final[Mapping[str, str]] = {
    "malformed": "an envelope in its one form",
    "another_worker": "an envelope for this worker process",
    "unknown_submitter": "an envelope of a server that was accepted here: rye node accept",
    "forged": "an envelope that its sender has signed",
    "replayed": "an envelope that was not opened before",
    "expired": "an envelope that is still good",
}
"""Why a worker does not open an envelope, and what it expects."""

_HELLO: Final = "application/vnd.rye.node-hello.v1"
_ENVELOPE: Final = "application/vnd.rye.node-call.v1"
_UNOPENED: Final = "application/vnd.rye.node-unopened.v1"
_KEYS: Final = b"rye-mcp node channel, version 1\0"
_KEY: Final = 32
_ID_BYTES: Final = 16
_SIGNATURE_BYTES: Final = 64
_MAX_TEXT: Final = 100
_MAX_RUN: Final = 80

Header = Mapping[str, Any]
"""A header of a frame, as it was decoded."""


class Refused(Exception):  # noqa: N818 - what is refused is an envelope
    """An envelope that a worker does not open; `reason` is one of `REASONS`."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"expected {REASONS[reason]}, found another one")
        self.reason = reason


class Identity(Protocol):
    """A key pair of this machine; that of the runner is one."""

    @property
    def public(self) -> PublicKey:
        """The key that others know."""

    @property
    def private(self) -> Ed25519PrivateKey:
        """The key that signs."""


@dataclass(frozen=True, slots=True)
class Hello:
    """A worker process as its node vouches for it: its id, and the key to which calls are sealed."""

    node: str
    instance: str
    share: bytes
    package: str
    key: bytes

    @classmethod
    def read(cls, header: Header) -> Self:
        """The process that a first frame tells of; RyeError `engine_unreachable` for anything else.

        Whoever sends calls compares `node` with the nodes that it was told of.
        """
        if header.get("protocol") != PROTOCOL:
            found = ascii(header.get("protocol"))[:_MAX_TEXT]
            raise _not_a_worker(f"the protocol {PROTOCOL}", f"version {found}")
        try:
            key, share = _bytes(header["key"], KEY_BYTES), _bytes(header["share"], _KEY)
            signature = _bytes(header["signature"], _SIGNATURE_BYTES)
            instance, package = header["instance"], header["package"]
            _bytes(instance, _ID_BYTES)
        except (KeyError, ValueError) as exc:
            raise _not_a_worker("the keys of a worker", "something else") from exc
        if is_low_order(key) or not is_canonical_point(key):
            raise _not_a_worker("a key that only its owner can sign for", "a weak one")
        body = {name: value for name, value in header.items() if name != "signature"}
        is_whole = body.keys() == _HELLO_FIELDS and body["op"] == "hello" and isinstance(package, str)
        if not is_whole or not _is_signed(_HELLO, body, signature, key):
            raise _not_a_worker("what the key of the node has signed", "something that it did not")
        return cls(_key_id(key), instance, share, package[:_MAX_TEXT], key)

    def reason_in(self, header: Header, envelope: Header) -> str | None:
        """Why this process did not open an envelope; None if it is not this process that says so.

        Who is on the way could otherwise have a call run, and its server told that it did not.
        """
        reason, signature = header.get("reason"), header.get("signature")
        if not isinstance(reason, str) or reason not in REASONS:
            return None
        try:
            signed = _bytes(signature, _SIGNATURE_BYTES)
        except ValueError:
            return None
        expected = _unopened(self.instance, envelope, reason)
        return reason if _is_signed(_UNOPENED, expected, signed, self.key) else None


@dataclass(frozen=True, slots=True)
class Sealed:
    """A piece of a stream, sealed, with its number in that direction."""

    number: int
    data: bytes


class Channel:
    """One call between two ends: each seals what it writes, in order, with a key for that direction."""

    def __init__(self, run_id: str, to_seal: bytes, to_open: bytes) -> None:
        self.run_id = run_id
        self._sealing = ChaCha20Poly1305(to_seal)
        self._opening = ChaCha20Poly1305(to_open)
        self._written = 0
        self._read = 0

    def seal(self, data: bytes) -> list[Sealed]:
        """The pieces in which these bytes travel."""
        pieces = []
        for start in range(0, len(data), RECORD_BYTES):
            sealed = self._sealing.encrypt(_nonce(self._written), data[start : start + RECORD_BYTES], None)
            pieces.append(Sealed(self._written, sealed))
            self._written += 1
        return pieces

    def open(self, number: Any, data: bytes) -> bytes:
        """The bytes of the next piece; none for one that came twice. RyeError `lost` for any other."""
        if type(number) is not int or number < 0:
            raise self._broken("a piece with its number", "another one")
        if number < self._read:
            return b""
        if number > self._read:
            raise self._broken(f"piece {self._read}", f"piece {number}: something on the way was lost")
        try:
            plain = self._opening.decrypt(_nonce(number), data, None)
        except (InvalidTag, OverflowError) as exc:
            raise self._broken(f"piece {number} as it was sealed", "other bytes") from exc
        self._read += 1
        return plain

    def _broken(self, expected: str, found: str) -> RyeError:
        return RyeError("lost", f"expected {expected} of the run {self.run_id}, found {found}")


def seal(
    hello: Hello, run_id: str, submitter: Identity, *, expires_ms: int
) -> tuple[dict[str, Any], Channel]:
    """The envelope of a run for one worker process, and the channel that it opens there.

    It is good until the worker is `expires_ms` older than its hello, so no clock of the two matters.
    """
    ephemeral = X25519PrivateKey.generate()
    body = {
        "op": "call",
        "protocol": PROTOCOL,
        "run": run_id,
        "to": hello.instance,
        "node": hello.node,
        "key": submitter.public.key_id,
        "share": ephemeral.public_key().public_bytes_raw().hex(),
        "nonce": secrets.token_hex(_ID_BYTES),
        "expires": expires_ms,
    }
    signature = submitter.private.sign(_signed(_ENVELOPE, body)).hex()
    down, up = _channel_keys(ephemeral, hello.share, body)
    return {**body, "signature": signature}, Channel(run_id, down, up)


class Instance:
    """One worker process: what it can open, and what it has opened."""

    def __init__(
        self,
        node: Identity,
        accepted: Callable[[str], PublicKey | None],
        package: str,
        age_ms: Callable[[], float],
    ) -> None:
        self._node = node
        self._accepted = accepted
        self._package = package
        self._age_ms = age_ms
        self._secret = X25519PrivateKey.generate()
        self._opened: dict[str, float] = {}
        self.id = secrets.token_hex(_ID_BYTES)

    @classmethod
    def begin(cls, node: Identity, accepted: Callable[[str], PublicKey | None], *, package: str) -> Self:
        """A new one, which is of age 0 now. `accepted` gives the key of a server that may send calls."""
        begun = time.clock_gettime(time.CLOCK_BOOTTIME)
        return cls(node, accepted, package, lambda: (time.clock_gettime(time.CLOCK_BOOTTIME) - begun) * 1000)

    def hello(self) -> dict[str, Any]:
        """What this process says first."""
        key = _keys.load_public(self._node.public.pem, "the key of this node")
        body = {
            "op": "hello",
            "protocol": PROTOCOL,
            "key": key.public_bytes_raw().hex(),
            "instance": self.id,
            "share": self._secret.public_key().public_bytes_raw().hex(),
            "package": self._package,
        }
        return {**body, "signature": self._node.private.sign(_signed(_HELLO, body)).hex()}

    def open(self, header: Header) -> tuple[str, Channel]:
        """Who sent an envelope, by key id, and its channel; `Refused` for one that is not opened."""
        body = {name: value for name, value in header.items() if name != "signature"}
        signature, share = _form_of(header, body)
        if (body["to"], body["node"]) != (self.id, self._node.public.key_id):
            raise Refused("another_worker")
        submitter = self._accepted(body["key"])
        if submitter is None:
            raise Refused("unknown_submitter")
        public = _keys.load_public(submitter.pem, "the key of a server").public_bytes_raw()
        if not _is_signed(_ENVELOPE, body, signature, public):
            raise Refused("forged")
        self._remember(body["run"], body["expires"])
        try:
            down, up = _channel_keys(self._secret, share, body)
        except ValueError as exc:  # a share from which nobody can compute a secret
            raise Refused("malformed") from exc
        return body["key"], Channel(body["run"], up, down)

    def unopened(self, header: Header, reason: str) -> dict[str, Any]:
        """What this process answers to an envelope that it does not open, for this reason."""
        run_id = str(header.get("run"))[:_MAX_RUN]
        try:
            body = _unopened(self.id, header, reason)
            signature = self._node.private.sign(_signed(_UNOPENED, body)).hex()
        except (IntegrityError, ValueError):  # no server has sent it: nobody would know it again
            signature = ""
        return {"op": "unopened", "run": run_id, "reason": reason, "signature": signature}

    def _remember(self, run_id: str, expires_ms: int) -> None:
        """Take note of a run, or refuse it; what has expired need not be known any more."""
        age = self._age_ms()
        self._opened = {run: until for run, until in self._opened.items() if until >= age}
        if run_id in self._opened:
            raise Refused("replayed")
        if not age <= expires_ms <= age + MAX_LIFE_MS:
            raise Refused("expired")
        self._opened[run_id] = expires_ms


_HELLO_FIELDS: Final = frozenset({"op", "protocol", "key", "instance", "share", "package"})
_FIELDS: Final = frozenset({"op", "protocol", "run", "to", "node", "key", "share", "nonce", "expires"})


def _form_of(header: Header, body: Header) -> tuple[bytes, bytes]:
    """The signature and the share of an envelope that has all of its fields, and no other."""
    try:
        signature, share = _bytes(header["signature"], _SIGNATURE_BYTES), _bytes(body["share"], _KEY)
        _bytes(body["nonce"], _ID_BYTES)
    except (KeyError, ValueError) as exc:
        raise Refused("malformed") from exc
    is_whole = body.keys() == _FIELDS and type(body["expires"]) is int and body["protocol"] == PROTOCOL
    is_whole = is_whole and body["op"] == "call"
    if not is_whole or not is_run_id(body["run"]) or not is_key_id(body["key"]):
        raise Refused("malformed")
    return signature, share


def _channel_keys(own: X25519PrivateKey, other: bytes, body: Header) -> tuple[bytes, bytes]:
    """The keys down to the worker, and up from it; they depend on everything that the envelope says."""
    secret = own.exchange(X25519PublicKey.from_public_bytes(other))
    about = _KEYS + canonical_json(dict(body)).encode("ascii")
    derived = HKDF(SHA256(), 2 * _KEY, bytes.fromhex(body["nonce"]), about).derive(secret)
    return derived[:_KEY], derived[_KEY:]


def _unopened(instance: str, envelope: Header, reason: str) -> dict[str, Any]:
    """What a worker process signs when it does not open an envelope; every byte of the envelope counts."""
    digest = hashlib.sha256(canonical_json(dict(envelope)).encode("ascii")).hexdigest()
    return {"op": "unopened", "instance": instance, "envelope": digest, "reason": reason}


def _signed(payload_type: str, body: Header) -> bytes:
    return pre_authentication(payload_type, canonical_json(dict(body)).encode("ascii"))


def _is_signed(payload_type: str, body: Header, signature: bytes, key: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, _signed(payload_type, body))
    except (InvalidSignature, IntegrityError, ValueError):
        return False
    return True


def _key_id(key: bytes) -> str:
    pem = _keys.public_pem(Ed25519PublicKey.from_public_bytes(key))
    return PublicKey.from_pem(pem, "a hello").key_id


def _bytes(text: Any, length: int) -> bytes:
    """Bytes in their one form, as hexadecimal digits; ValueError for anything else."""
    if not isinstance(text, str) or len(text) != 2 * length or bytes.fromhex(text).hex() != text:
        raise ValueError
    return bytes.fromhex(text)


def _nonce(number: int) -> bytes:
    return number.to_bytes(12)


def _not_a_worker(expected: str, found: str) -> RyeError:
    return RyeError("engine_unreachable", f"expected a hello with {expected}, found {found}")
