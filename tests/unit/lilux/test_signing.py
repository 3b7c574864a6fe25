"""Signatures verify for their hash and key alone, and nobody else can read, swap or lose a private key."""

from __future__ import annotations

import base64
import doctest
import errno
import hashlib
import inspect
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed448, rsa, x25519
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from lilux.primitives import signing
from lilux.primitives.errors import ConfigurationError, IntegrityError
from lilux.primitives.signing import (
    compute_key_fingerprint,
    ensure_keypair,
    generate_keypair,
    load_keypair,
    public_key_bytes,
    save_keypair,
    sign_hash,
    verify_signature,
)
from tests.file_helpers import UMASKS, mode_of, names_in, run_at_once, run_python, umask

# RFC 8032, section 7.1, test 1.
RFC_SECRET = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
RFC_PUBLIC = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")

PUBLIC_DER = bytes.fromhex("302a300506032b6570032100")
PRIVATE_DER = bytes.fromhex("302e020100300506032b657004220420")

HASH = hashlib.sha256(b"content").hexdigest()
OTHER_HASH = hashlib.sha256(b"other content").hexdigest()
PRIVATE, PUBLIC = generate_keypair()
OTHER_PRIVATE, OTHER_PUBLIC = generate_keypair()
SIGNATURE = sign_hash(HASH, PRIVATE)

# What openssl signs with that key, for a hash of zeros.
KNOWN_SIGNATURE = "pinQkYYyNN137OR7dG7JAwVk9q9USqKIlB_KWVkRpMwIRfqQ8nr5oKIIl3Ggurlowsi22hQJ1KD49-CLpcCkDQ=="

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
Point = tuple[int, int]


def pem_of(label: str, der: bytes) -> bytes:
    return f"-----BEGIN {label}-----\n{base64.encodebytes(der).decode()}-----END {label}-----\n".encode()


def public_pem_of(raw: bytes) -> bytes:
    return pem_of("PUBLIC KEY", PUBLIC_DER + raw)


def pems_of(key: Any) -> tuple[bytes, bytes]:
    """The PEMs of a key of any kind."""
    return (
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        ),
    )


RSA = pems_of(rsa.generate_private_key(public_exponent=65537, key_size=2048))
X25519 = pems_of(x25519.X25519PrivateKey.generate())
ED448 = pems_of(ed448.Ed448PrivateKey.generate())


@pytest.fixture
def key_dir(tmp_path: Path) -> Path:
    return tmp_path / "keys"


@pytest.fixture
def saved(key_dir: Path) -> Path:
    """A directory with a pair in it."""
    save_keypair(PRIVATE, PUBLIC, key_dir)
    return key_dir


# --- the interface ------------------------------------------------------------------


def test_the_public_names_are_those_listed() -> None:
    public = {
        name
        for name, item in vars(signing).items()
        if not name.startswith("_") and getattr(item, "__module__", "") == signing.__name__
    }
    assert public == set(signing.__all__)


@pytest.mark.parametrize(
    ("function", "parameters"),
    [
        (generate_keypair, []),
        (sign_hash, ["content_hash", "private_key_pem"]),
        (verify_signature, ["content_hash", "sig_b64", "public_key_pem"]),
        (compute_key_fingerprint, ["public_key_pem"]),
        (save_keypair, ["private_pem", "public_pem", "key_dir"]),
        (load_keypair, ["key_dir"]),
        (ensure_keypair, ["key_dir"]),
    ],
)
def test_the_seven_functions_have_the_specified_parameters(
    function: Callable[..., Any], parameters: list[str]
) -> None:
    found = inspect.signature(function).parameters.values()
    assert [each.name for each in found if each.kind is not each.KEYWORD_ONLY] == parameters
    assert all(each.default is None for each in found if each.kind is each.KEYWORD_ONLY)


def test_the_examples_of_the_module_are_true() -> None:
    assert doctest.testmod(signing).failed == 0


@pytest.mark.parametrize("name", ["errors", "subprocess", "integrity", "lockfile"])
def test_no_other_primitive_loads_the_cryptographic_library(name: str) -> None:
    script = f"""
        import sys, lilux.primitives.{name}
        print("cryptography" in sys.modules)
    """
    assert run_python(script) == "False\n"


# --- signatures ---------------------------------------------------------------------


def test_generate_keypair_makes_a_new_ed25519_pair_every_time() -> None:
    assert PRIVATE.startswith(b"-----BEGIN PRIVATE KEY-----\n")
    assert PUBLIC.startswith(b"-----BEGIN PUBLIC KEY-----\n")
    assert PRIVATE != OTHER_PRIVATE
    assert PUBLIC != OTHER_PUBLIC
    assert len(public_key_bytes(PUBLIC)) == 32


def test_a_signature_verifies_for_its_hash_and_key() -> None:
    assert verify_signature(HASH, SIGNATURE, PUBLIC) is True


def test_signing_and_verifying_open_no_file_and_look_at_no_variable() -> None:
    script = """
        from lilux.primitives import signing
        import os, sys
        signing.generate_keypair()  # loads what writes PEM
        opened = []
        sys.addaudithook(lambda event, given: opened.append(given[0]) if event == "open" else None)
        os.environ = os.environb = None
        private, public = signing.generate_keypair()
        print(signing.verify_signature("0" * 64, signing.sign_hash("0" * 64, private), public))
        print(len(signing.compute_key_fingerprint(public)))
        print(opened)
    """
    assert run_python(script) == "True\n16\n[]\n"


def test_a_signature_does_not_verify_for_another_hash_or_another_key() -> None:
    assert verify_signature(OTHER_HASH, SIGNATURE, PUBLIC) is False
    assert verify_signature(HASH, SIGNATURE, OTHER_PUBLIC) is False


def test_a_signature_is_padded_url_safe_base64() -> None:
    for number in range(50):
        signature = sign_hash(hashlib.sha256(bytes([number])).hexdigest(), PRIVATE)
        assert len(signature) == 88
        assert signature.endswith("==")
        assert base64.urlsafe_b64encode(base64.urlsafe_b64decode(signature)).decode() == signature


def test_what_is_signed_is_the_hex_digest_as_text() -> None:
    key = serialization.load_pem_public_key(PUBLIC)
    assert isinstance(key, Ed25519PublicKey)
    key.verify(base64.urlsafe_b64decode(SIGNATURE), HASH.encode("utf-8"))


def test_a_known_key_makes_the_known_signature() -> None:
    private, public = pem_of("PRIVATE KEY", PRIVATE_DER + RFC_SECRET), public_pem_of(RFC_PUBLIC)
    signature = sign_hash("0" * 64, private)
    assert signature == KNOWN_SIGNATURE
    assert verify_signature("0" * 64, signature, public)
    assert public_key_bytes(public) == RFC_PUBLIC


@given(position=st.integers(0, 511))
def test_a_signature_with_any_bit_changed_does_not_verify(position: int) -> None:
    raw = bytearray(base64.urlsafe_b64decode(SIGNATURE))
    raw[position // 8] ^= 1 << position % 8
    assert verify_signature(HASH, base64.urlsafe_b64encode(raw).decode(), PUBLIC) is False


@given(position=st.integers(0, 63), digit=st.sampled_from("0123456789abcdef"))
def test_a_hash_with_any_digit_changed_does_not_verify(position: int, digit: str) -> None:
    changed = HASH[:position] + digit + HASH[position + 1 :]
    assert verify_signature(changed, SIGNATURE, PUBLIC) is (changed == HASH)


def test_the_other_scalar_that_satisfies_the_equation_is_refused() -> None:
    """S + order passes the equation too: one signature would have two forms."""
    raw = base64.urlsafe_b64decode(SIGNATURE)
    scalar = int.from_bytes(raw[32:], "little") + ORDER
    twin = base64.urlsafe_b64encode(raw[:32] + scalar.to_bytes(32, "little")).decode()
    assert verify_signature(HASH, twin, PUBLIC) is False


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "",
        lambda text: text[:-1],
        lambda text: text[:-2],
        lambda text: text + "=",
        lambda text: text + "\n",
        lambda text: " " + text,
        lambda text: text[:40] + "\n" + text[40:],
        lambda text: text[:-3] + chr(ord(text[-3]) + 1) + "==",
        lambda text: text[:10] + "!" + text[11:],
        lambda text: text[:10] + "é" + text[11:],
        lambda text: text * 2,
        lambda text: base64.urlsafe_b64encode(b"short").decode(),
        lambda text: base64.urlsafe_b64encode(bytes(65)).decode(),
        lambda text: base64.urlsafe_b64decode(text).hex(),
        lambda text: text.encode(),
        lambda text: None,
    ],
)
def test_text_that_is_no_signature_in_its_one_form_does_not_verify(change: Callable[[str], Any]) -> None:
    assert verify_signature(HASH, change(SIGNATURE), PUBLIC) is False


def test_the_standard_alphabet_is_not_the_url_safe_one() -> None:
    for number in range(200):
        content_hash = hashlib.sha256(bytes([number])).hexdigest()
        signature = sign_hash(content_hash, PRIVATE)
        standard = signature.replace("-", "+").replace("_", "/")
        assert verify_signature(content_hash, standard, PUBLIC) is (standard == signature)


BAD_HASHES = [
    "",
    HASH[:-1],
    HASH + "0",
    HASH + "\n",
    " " + HASH[1:],
    HASH.upper(),
    "sha256:" + HASH,
    "g" * 64,
    "\u0660" * 64,
    HASH.encode(),
    None,
    5,
]


@pytest.mark.parametrize("content_hash", BAD_HASHES, ids=repr)
def test_only_64_lowercase_hexadecimal_digits_are_signed(content_hash: Any) -> None:
    with pytest.raises(ConfigurationError, match="64 lowercase hexadecimal digits") as caught:
        sign_hash(content_hash, PRIVATE)
    assert caught.value.field == "content_hash"


@pytest.mark.parametrize("content_hash", BAD_HASHES, ids=repr)
def test_what_is_no_hash_never_verifies(content_hash: Any) -> None:
    key = serialization.load_pem_private_key(PRIVATE, None)
    text = content_hash if isinstance(content_hash, bytes) else str(content_hash).encode()
    signature = base64.urlsafe_b64encode(key.sign(text)).decode()  # type: ignore[call-arg, union-attr]
    assert verify_signature(content_hash, signature, PUBLIC) is False


def test_the_fingerprint_is_the_first_16_hex_digits_of_the_sha256_of_the_public_pem() -> None:
    assert compute_key_fingerprint(PUBLIC) == hashlib.sha256(PUBLIC).hexdigest()[:16]
    assert compute_key_fingerprint(PUBLIC) != compute_key_fingerprint(OTHER_PUBLIC)


def test_the_bytes_of_a_key_are_the_same_for_every_pem_of_it() -> None:
    assert public_key_bytes(b"\n" + PUBLIC.replace(b"\n", b"\r\n")) == public_key_bytes(PUBLIC)
    assert public_key_bytes(PUBLIC.rstrip()) == public_key_bytes(PUBLIC)


# --- keys that are none --------------------------------------------------------------

BAD_PUBLIC_KEYS: dict[str, tuple[Any, str]] = {
    "empty": (b"", "no single PEM block"),
    "text": (PUBLIC.decode(), "found str"),
    "bytearray": (bytearray(PUBLIC), "found bytearray"),
    "nothing": (None, "found NoneType"),
    "garbage": (os.urandom(100), "no single PEM block"),
    "cut off": (PUBLIC[:-30], "no single PEM block"),
    "two": (PUBLIC + OTHER_PUBLIC, "no single PEM block"),
    "text before": (b"# mine\n" + PUBLIC, "no single PEM block"),
    "text after": (PUBLIC + b"# mine\n", "no single PEM block"),
    "too large": (PUBLIC + b" " * 20_000, "no single PEM block"),
    "other end": (PUBLIC.replace(b"END PUBLIC", b"END SECRET"), "no single PEM block"),
    "private": (PRIVATE, "a block called PRIVATE KEY"),
    "bad base64": (PUBLIC.replace(b"MCow", b"M=ow"), "content that is no public key"),
    "no key": (pem_of("PUBLIC KEY", b"hello"), "content that is no public key"),
    "short key": (pem_of("PUBLIC KEY", PUBLIC_DER + bytes(31)), "content that is no public key"),
    "trailing": (pem_of("PUBLIC KEY", PUBLIC_DER + RFC_PUBLIC + b"\0"), "content that is no public key"),
    "RSA": (RSA[1], "a key of another kind (RSA)"),
    "X25519": (X25519[1], "a key of another kind (X25519)"),
    "Ed448": (ED448[1], "a key of another kind (Ed448)"),
    "unknown kind": (
        pem_of("PUBLIC KEY", PUBLIC_DER.replace(b"\x2b\x65\x70", b"\x2b\x65\x7f") + RFC_PUBLIC),
        "no public key",
    ),
    "off the curve": (public_pem_of(b"\x02" + bytes(31)), "no point of the curve"),
    "not canonical": (public_pem_of((P + 3).to_bytes(32, "little")), "no point of the curve"),
}

BAD_PRIVATE_KEYS: dict[str, tuple[Any, str]] = {
    "empty": (b"", "no single PEM block"),
    "text": (PRIVATE.decode(), "found str"),
    "nothing": (None, "found NoneType"),
    "cut off": (PRIVATE[:-30], "no single PEM block"),
    "two": (PRIVATE + OTHER_PRIVATE, "no single PEM block"),
    "public": (PUBLIC, "a block called PUBLIC KEY"),
    "other label": (PRIVATE.replace(b"PRIVATE", b"OPENSSH PRIVATE"), "a block called OPENSSH PRIVATE KEY"),
    "no key": (pem_of("PRIVATE KEY", b"hello"), "content that is no private key"),
    "short key": (pem_of("PRIVATE KEY", PRIVATE_DER + bytes(31)), "content that is no private key"),
    "RSA": (RSA[0], "a key of another kind (RSA)"),
    "X25519": (X25519[0], "a key of another kind (X25519)"),
    "Ed448": (ED448[0], "a key of another kind (Ed448)"),
}


@pytest.mark.parametrize(("pem", "found"), BAD_PUBLIC_KEYS.values(), ids=BAD_PUBLIC_KEYS)
def test_what_is_no_ed25519_public_key_is_refused_wherever_one_is_taken(
    key_dir: Path, pem: Any, found: str
) -> None:
    for _ in range(2):  # nothing bad is kept
        for take in (lambda: verify_signature(HASH, SIGNATURE, pem), lambda: public_key_bytes(pem)):
            with pytest.raises(ConfigurationError) as caught:
                take()
            assert found in str(caught.value)
            assert caught.value.field == "public_key_pem"
    with pytest.raises(ConfigurationError) as caught:
        save_keypair(PRIVATE, pem, key_dir)
    assert caught.value.field == "public_pem"
    assert not key_dir.exists()


@pytest.mark.parametrize(("pem", "found"), BAD_PRIVATE_KEYS.values(), ids=BAD_PRIVATE_KEYS)
def test_what_is_no_ed25519_private_key_is_refused_wherever_one_is_taken(
    key_dir: Path, pem: Any, found: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        sign_hash(HASH, pem)
    assert found in str(caught.value)
    assert caught.value.field == "private_key_pem"
    with pytest.raises(ConfigurationError) as caught:
        save_keypair(pem, PUBLIC, key_dir)
    assert caught.value.field == "private_pem"
    assert not key_dir.exists()


@pytest.mark.parametrize(("pem", "found"), BAD_PUBLIC_KEYS.values(), ids=BAD_PUBLIC_KEYS)
def test_a_file_with_no_public_key_is_refused_by_its_name(saved: Path, pem: Any, found: str) -> None:
    if isinstance(pem, bytes) and len(pem) <= 16 * 1024:
        (saved / "public_key.pem").write_bytes(pem)
        for take in (load_keypair, ensure_keypair):
            with pytest.raises(ConfigurationError) as caught:
                take(saved)
            assert found in str(caught.value)
            assert str(saved / "public_key.pem") in str(caught.value)


@pytest.mark.parametrize(("pem", "found"), BAD_PRIVATE_KEYS.values(), ids=BAD_PRIVATE_KEYS)
def test_a_file_with_no_private_key_is_refused_by_its_name_and_kept(
    saved: Path, pem: Any, found: str
) -> None:
    if isinstance(pem, bytes):
        (saved / "private_key.pem").write_bytes(pem)
        for take in (load_keypair, ensure_keypair):
            with pytest.raises(ConfigurationError) as caught:
                take(saved)
            assert found in str(caught.value)
            assert str(saved / "private_key.pem") in str(caught.value)
        assert (saved / "private_key.pem").read_bytes() == pem


def test_a_key_file_that_is_far_too_large_is_not_read(saved: Path) -> None:
    os.truncate(saved / "private_key.pem", 1 << 30)
    with pytest.raises(OSError, match="at most 16384 bytes") as caught:
        load_keypair(saved)
    assert caught.value.filename == str(saved / "private_key.pem")


def test_no_message_quotes_anything_of_a_private_key(saved: Path) -> None:
    secret = PRIVATE.splitlines()[1]
    damaged = [
        PRIVATE[:-5],
        PRIVATE.replace(secret, b"!" + secret),
        PRIVATE.replace(secret, secret[:-8]),
        PRIVATE.replace(secret, secret[:-4] + b"AAAA="),
        PRIVATE.replace(b"PRIVATE", b"PUBLIC"),
        PRIVATE.replace(b"PRIVATE KEY", secret),
    ]
    for pem in damaged:
        for take in (partial(sign_hash, HASH), public_key_bytes):
            with pytest.raises((ConfigurationError, IntegrityError)) as caught:
                take(pem)
            chain: BaseException | None = caught.value
            while chain is not None:
                text = str(chain)
                assert not any(secret[at : at + 8].decode() in text for at in range(16, len(secret) - 8))
                chain = chain.__cause__


# --- keys that anybody could sign for --------------------------------------------------


def add(one: Point, other: Point) -> Point:
    """The sum of two points of -x² + y² = 1 + d x² y²."""
    (x1, y1), (x2, y2) = one, other
    d = -121665 * pow(121666, -1, P) % P
    product = d * x1 * x2 * y1 * y2
    x3 = (x1 * y2 + x2 * y1) * pow(1 + product, -1, P)
    y3 = (y1 * y2 + x1 * x2) * pow(1 - product, -1, P)
    return x3 % P, y3 % P


def multiply(factor: int, point: Point) -> Point:
    total = (0, 1)
    while factor:
        if factor & 1:
            total = add(total, point)
        point, factor = add(point, point), factor >> 1
    return total


def decompress(encoded: bytes) -> Point | None:
    """The point of an encoding by RFC 8032, section 5.1.3; None when there is none."""
    number = int.from_bytes(encoded, "little")
    y, sign = number & ((1 << 255) - 1), number >> 255
    if y >= P:
        return None
    d = -121665 * pow(121666, -1, P) % P
    square = (y * y - 1) * pow(d * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if x * x % P != square:
        x = x * pow(2, (P - 1) // 4, P) % P
    if x * x % P != square or (x == 0 and sign):
        return None
    return (x if x % 2 == sign else P - x), y


def encodings(point: Point) -> Iterator[bytes]:
    """The canonical encoding of a point, and every other one that a lenient reader takes for it."""
    x, y = point
    for value in (y, y + P):
        for sign in {x % 2, 1 if x == 0 else x % 2}:
            if value < 1 << 255:
                yield (value | sign << 255).to_bytes(32, "little")


def torsion_points() -> list[Point]:
    """The eight points whose order divides eight: the multiples of a point without its large part."""
    for number in range(2, 100):
        found = decompress(number.to_bytes(32, "little"))
        if found is not None:
            points = {multiply(factor, multiply(ORDER, found)) for factor in range(8)}
            if len(points) == 8:
                return sorted(points)
    raise AssertionError("no point of order eight found")


LOW_ORDER = [encoded for point in torsion_points() for encoded in encodings(point)]


def test_there_are_eight_points_of_low_order_in_fourteen_encodings() -> None:
    assert len(torsion_points()) == 8
    assert all(multiply(8, point) == (0, 1) for point in torsion_points())
    assert len(LOW_ORDER) == len(set(LOW_ORDER)) == 14


@pytest.mark.parametrize("raw", LOW_ORDER, ids=bytes.hex)
def test_a_key_of_low_order_is_refused_wherever_one_is_taken(saved: Path, raw: bytes) -> None:
    weak = public_pem_of(raw)
    (saved / "public_key.pem").write_bytes(weak)
    takers: list[Callable[[], object]] = [
        lambda: verify_signature(HASH, SIGNATURE, weak),
        lambda: public_key_bytes(weak),
        lambda: save_keypair(PRIVATE, weak, saved),
        lambda: load_keypair(saved),
        lambda: ensure_keypair(saved),
    ]
    for take in takers:
        with pytest.raises(IntegrityError, match="low order") as caught:
            take()
        assert caught.value.attributes["reason"] == "weak_key"


def test_a_signature_that_needs_no_private_key_is_refused() -> None:
    """R is the neutral point and S is 0: under a key of order one, this fits every content."""
    forged = base64.urlsafe_b64encode(b"\x01" + bytes(63)).decode()
    with pytest.raises(IntegrityError, match="low order"):
        verify_signature(HASH, forged, public_pem_of(b"\x01" + bytes(31)))


def is_taken(raw: bytes) -> bool:
    """Whether a key that is not of low order is one; what is none is no point of the curve."""
    try:
        found = public_key_bytes(public_pem_of(raw))
    except ConfigurationError as error:
        reason = str(error)
    else:
        assert found == raw
        return True
    assert "no point of the curve" in reason
    return False


@given(raw=st.binary(min_size=32, max_size=32))
def test_every_other_key_is_taken_exactly_when_it_is_a_point_in_its_one_encoding(raw: bytes) -> None:
    if raw not in LOW_ORDER:
        assert is_taken(raw) == (decompress(raw) is not None)


@pytest.mark.parametrize("offset", range(2, 19))
@pytest.mark.parametrize("sign", [0, 1])
def test_no_y_beyond_the_field_is_canonical(offset: int, sign: int) -> None:
    raw = (P + offset | sign << 255).to_bytes(32, "little")
    assert not is_taken(raw)


def test_every_generated_key_is_taken() -> None:
    for _ in range(50):
        private, public = generate_keypair()
        assert verify_signature(HASH, sign_hash(HASH, private), public)


# --- key files -------------------------------------------------------------------------


def test_a_saved_pair_is_loaded_as_it_was(key_dir: Path) -> None:
    save_keypair(PRIVATE, PUBLIC, key_dir)
    assert load_keypair(key_dir) == (PRIVATE, PUBLIC)
    assert (key_dir / "private_key.pem").read_bytes() == PRIVATE
    assert (key_dir / "public_key.pem").read_bytes() == PUBLIC
    assert names_in(key_dir) == ["private_key.pem", "public_key.pem"]


def test_a_path_may_be_text_and_its_parents_are_made(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b"
    save_keypair(PRIVATE, PUBLIC, str(path))  # type: ignore[arg-type]
    assert load_keypair(str(path)) == ensure_keypair(str(path)) == (PRIVATE, PUBLIC)  # type: ignore[arg-type]


def modes(key_dir: Path) -> tuple[int, int, int]:
    return mode_of(key_dir), mode_of(key_dir / "private_key.pem"), mode_of(key_dir / "public_key.pem")


@pytest.mark.parametrize("mask", UMASKS, ids=oct)
def test_the_directory_has_0700_the_private_key_0600_and_the_public_key_0644_whatever_the_umask(
    tmp_path: Path, mask: int
) -> None:
    with umask(mask):
        save_keypair(PRIVATE, PUBLIC, tmp_path / "saved")
        ensure_keypair(tmp_path / "ensured")
    assert modes(tmp_path / "saved") == (0o700, 0o600, 0o644)
    assert modes(tmp_path / "ensured") == (0o700, 0o600, 0o644)


def test_saving_sets_the_modes_of_what_is_there_already(saved: Path) -> None:
    saved.chmod(0o777)
    (saved / "private_key.pem").chmod(0o666)
    (saved / "public_key.pem").chmod(0o666)
    save_keypair(OTHER_PRIVATE, OTHER_PUBLIC, saved)
    assert modes(saved) == (0o700, 0o600, 0o644)
    assert load_keypair(saved) == (OTHER_PRIVATE, OTHER_PUBLIC)


@pytest.mark.first_case
@pytest.mark.parametrize("before", [None, 0o777])
@pytest.mark.parametrize("how", ["save", "ensure"])
def test_at_no_line_of_the_way_can_anybody_else_read_the_private_key(
    tmp_path: Path, how: str, before: int | None
) -> None:
    """A tracer looks after each line, under every umask, also where the directory was open to everybody."""
    if before is not None:
        for mask in UMASKS:
            (tmp_path / str(mask)).mkdir()
            (tmp_path / str(mask)).chmod(before)
    script = """
        from lilux.primitives import signing
        import os, stat, sys
        root, how, *masks = sys.argv[1:]
        pair = signing.generate_keypair()

        def look(frame, event, argument):
            try:
                directory = stat.S_IMODE(os.stat(path).st_mode)
                for entry in os.scandir(path):
                    mode = stat.S_IMODE(entry.stat().st_mode)
                    if not mode & 0o400:
                        continue  # just made, with a umask that keeps even its owner out
                    if b"PRIVATE" in open(entry, "rb").read():
                        seen.add((directory, mode))
            except (FileNotFoundError, PermissionError):
                assert not os.path.exists(path) or not os.stat(path).st_mode & 0o700
            return look

        for mask in masks:
            path, seen = f"{root}/{mask}", set()
            os.umask(int(mask))
            sys.settrace(look)
            signing.save_keypair(*pair, path) if how == "save" else signing.ensure_keypair(path)
            sys.settrace(None)
            print(mask, *[f"{directory:o} {mode:o}" for directory, mode in seen], sep=",")
    """
    shown = run_python(script, tmp_path, how, *UMASKS)
    assert shown.splitlines() == [f"{mask},700 600" for mask in UMASKS]


LOOSER = [
    *[("private_key.pem", 0o600, mode) for mode in (0o601, 0o602, 0o604, 0o620, 0o640, 0o644, 0o666, 0o700)],
    *[("public_key.pem", 0o644, mode) for mode in (0o646, 0o664, 0o666, 0o645, 0o755)],
    *[(".", 0o700, mode) for mode in (0o701, 0o702, 0o704, 0o710, 0o720, 0o740, 0o755, 0o777)],
]


@pytest.mark.parametrize(
    ("name", "mode", "found"), LOOSER, ids=lambda value: oct(value) if isinstance(value, int) else value
)
def test_looser_permissions_are_refused_with_the_chmod_that_mends_them(
    saved: Path, name: str, mode: int, found: int
) -> None:
    path = saved / name
    remedy = f"chmod {mode:04o} {path}"
    path.chmod(found)
    for take in (load_keypair, ensure_keypair):
        with pytest.raises(IntegrityError) as caught:
            take(saved)
        assert remedy in str(caught.value)
        assert caught.value.attributes == {"reason": "unsafe_permissions", "path": path, "remedy": remedy}
        assert mode_of(path) == found
    subprocess.run(["sh", "-c", remedy], check=True)
    assert load_keypair(saved) == (PRIVATE, PUBLIC)


@pytest.mark.parametrize(
    ("name", "mode"), [("private_key.pem", 0o400), ("public_key.pem", 0o400), (".", 0o500)]
)
def test_stricter_permissions_are_accepted(saved: Path, name: str, mode: int) -> None:
    (saved / name).chmod(mode)
    assert load_keypair(saved) == (PRIVATE, PUBLIC)
    saved.chmod(0o700)


@pytest.mark.parametrize("name", ["private_key.pem", "public_key.pem", "."])
def test_a_symlink_is_refused_in_place_of_a_file_or_of_the_directory(saved: Path, name: str) -> None:
    real = saved.parent / "real"
    (saved / name).rename(real) if name != "." else saved.rename(real)
    (saved / name if name != "." else saved).symlink_to(real)
    for take in (load_keypair, ensure_keypair):
        with pytest.raises(IntegrityError, match="found a symbolic link") as caught:
            take(saved)
        assert caught.value.attributes["reason"] == "unsafe_path"


def test_saving_replaces_a_symlink_in_place_of_a_file_and_leaves_its_target(saved: Path) -> None:
    target = saved.parent / "target"
    target.write_bytes(b"untouched")
    for name in ("private_key.pem", "public_key.pem"):
        (saved / name).unlink()
        (saved / name).symlink_to(target)
    save_keypair(PRIVATE, PUBLIC, saved)
    assert load_keypair(saved) == (PRIVATE, PUBLIC)
    assert target.read_bytes() == b"untouched"


def test_saving_refuses_a_symlink_in_place_of_the_directory(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(IntegrityError, match="found a symbolic link"):
        save_keypair(PRIVATE, PUBLIC, tmp_path / "link")
    assert names_in(tmp_path / "real") == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("name", ["private_key.pem", "public_key.pem", "."])
def test_what_belongs_to_somebody_else_is_refused(saved: Path, name: str) -> None:
    os.chown(saved / name, 12345, -1)
    for take in (load_keypair, ensure_keypair):
        with pytest.raises(IntegrityError, match="found owner 12345") as caught:
            take(saved)
        assert caught.value.attributes["reason"] == "unsafe_permissions"
        assert "chown" in str(caught.value)


def test_two_files_of_two_pairs_are_refused(saved: Path) -> None:
    (saved / "public_key.pem").write_bytes(OTHER_PUBLIC)
    for take in (load_keypair, ensure_keypair):
        with pytest.raises(IntegrityError, match="two pairs") as caught:
            take(saved)
        assert caught.value.attributes["reason"] == "key_mismatch"
        assert str(saved) in str(caught.value)
    with pytest.raises(IntegrityError, match="two pairs"):
        save_keypair(PRIVATE, OTHER_PUBLIC, saved)


def test_loading_where_nothing_is_names_what_is_missing_and_makes_nothing(key_dir: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        load_keypair(key_dir)
    assert caught.value.filename == str(key_dir)
    assert not key_dir.exists()
    key_dir.mkdir(0o700)
    with pytest.raises(FileNotFoundError, match="expected a key pair, found none") as caught:
        load_keypair(key_dir)
    assert caught.value.filename == str(key_dir / "private_key.pem")
    assert names_in(key_dir) == []


def test_a_missing_public_key_is_named_on_loading_and_derived_again_by_ensure(saved: Path) -> None:
    (saved / "public_key.pem").unlink()
    with pytest.raises(FileNotFoundError, match="ensure_keypair") as caught:
        load_keypair(saved)
    assert caught.value.filename == str(saved / "public_key.pem")
    assert ensure_keypair(saved) == (PRIVATE, PUBLIC)
    assert modes(saved) == (0o700, 0o600, 0o644)
    assert load_keypair(saved) == (PRIVATE, PUBLIC)


def test_a_missing_private_key_is_named_and_never_replaced(saved: Path) -> None:
    (saved / "private_key.pem").unlink()
    for take in (load_keypair, ensure_keypair):
        with pytest.raises(FileNotFoundError, match="bring it back") as caught:
            take(saved)
        assert caught.value.filename == str(saved / "private_key.pem")
    assert names_in(saved) == ["public_key.pem"]


def test_a_directory_in_place_of_a_key_is_an_error_that_names_it(saved: Path) -> None:
    (saved / "private_key.pem").unlink()
    (saved / "private_key.pem").mkdir(0o700)
    with pytest.raises(IntegrityError, match="found a directory") as caught:
        load_keypair(saved)
    assert caught.value.attributes == {"reason": "unsafe_path", "path": saved / "private_key.pem"}


def test_a_file_in_place_of_the_directory_is_an_error_that_names_it(key_dir: Path) -> None:
    key_dir.write_text("")
    for take in (load_keypair, ensure_keypair, lambda path: save_keypair(PRIVATE, PUBLIC, path)):
        with pytest.raises(NotADirectoryError) as caught:
            take(key_dir)
        assert caught.value.filename == str(key_dir)


def test_ensure_makes_a_pair_once_and_then_loads_it(key_dir: Path) -> None:
    pair = ensure_keypair(key_dir)
    assert ensure_keypair(key_dir) == load_keypair(key_dir) == pair
    assert verify_signature(HASH, sign_hash(HASH, pair[0]), pair[1])
    assert names_in(key_dir) == ["private_key.pem", "public_key.pem"]


def test_ensure_closes_an_empty_directory_before_it_puts_a_key_there(key_dir: Path) -> None:
    key_dir.mkdir()
    key_dir.chmod(0o755)
    ensure_keypair(key_dir)
    assert modes(key_dir) == (0o700, 0o600, 0o644)


@pytest.mark.thorough
def test_processes_that_ensure_at_once_all_get_the_same_pair(tmp_path: Path) -> None:
    script = """
        from lilux.primitives.signing import ensure_keypair
        for number in range(10):
            private, public = ensure_keypair(f"{sys.argv[1]}/{number}")
            print(private.hex(), public.hex())
    """
    seen = run_at_once(script, [(tmp_path,)] * 6)
    assert len(set(seen)) == 1
    pairs = [tuple(bytes.fromhex(part) for part in line.split()) for line in seen[0].splitlines()]
    assert pairs == [load_keypair(tmp_path / str(number)) for number in range(10)]
    assert len(set(pairs)) == 10
    assert all(
        names_in(tmp_path / str(number)) == ["private_key.pem", "public_key.pem"] for number in range(10)
    )


@pytest.mark.thorough
def test_processes_that_save_load_and_ensure_at_once_never_meet_half_a_pair(saved: Path) -> None:
    script = """
        from lilux.primitives.signing import ensure_keypair, load_keypair, save_keypair
        path, role, *pair = sys.argv[1:]
        take = {"load": load_keypair, "ensure": ensure_keypair}.get(role)
        for _ in range(60):
            if take:
                print(take(path)[0].hex())
            else:
                save_keypair(*map(bytes.fromhex, pair), path)
    """
    pairs = [(PRIVATE.hex(), PUBLIC.hex()), (OTHER_PRIVATE.hex(), OTHER_PUBLIC.hex())]
    roles = [(saved, "save", *pair) for pair in pairs] + [(saved, "load"), (saved, "ensure")]
    seen = {line for each in run_at_once(script, roles) for line in each.splitlines()}
    assert seen <= {PRIVATE.hex(), OTHER_PRIVATE.hex()}
    assert load_keypair(saved) in [(PRIVATE, PUBLIC), (OTHER_PRIVATE, OTHER_PUBLIC)]
    assert names_in(saved) == ["private_key.pem", "public_key.pem"]


CRASH = """
    from lilux.primitives import signing
    import os, shutil, sys
    root, how, passphrase = sys.argv[1], sys.argv[2], sys.argv[3].encode() or None
    old, new = signing.generate_keypair(), signing.generate_keypair()

    def trace(visit):
        def look(frame, event, argument):
            if not frame.f_code.co_filename.endswith(("_files.py", "signing.py")):
                return None
            visit()
            return look
        sys.settrace(look)

    def change(path):
        if how == "save":
            signing.save_keypair(*new, path, passphrase=passphrase)
        else:
            signing.ensure_keypair(path, passphrase=passphrase)
        sys.settrace(None)

    def prepared(name):
        if how == "save":
            signing.save_keypair(*old, f"{root}/{name}", passphrase=passphrase)
        return f"{root}/{name}"

    def state(path):
        if not os.path.exists(path):
            return None
        entries = sorted((entry.name, entry.stat()) for entry in os.scandir(path))
        return os.stat(path).st_mode, [(name, s.st_ino, s.st_mode, s.st_size) for name, s in entries]

    def crashed(path, line):
        child = os.fork()
        if child == 0:
            left = iter(range(1, line))
            trace(lambda: None if next(left, None) else os._exit(9))
            change(path)
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9

    # Where nothing has changed since the line before, dying leaves the same: the ends of a stretch will do.
    path, states = prepared("watched"), []
    trace(lambda: states.append(state(path)))
    change(path)
    changed = [line for line in range(2, len(states) + 1) if states[line - 1] != states[line - 2]]
    kept = set()
    for line in sorted({1, len(states), *changed, *(line - 1 for line in changed)}):
        path = prepared(line)
        assert crashed(path, line)
        before = open(f"{path}/private_key.pem").read() if os.path.exists(f"{path}/private_key.pem") else None
        pair = signing.ensure_keypair(path, passphrase=passphrase)
        assert pair == signing.load_keypair(path, passphrase=passphrase)
        assert before in (None, open(f"{path}/private_key.pem").read())
        assert how == "ensure" or pair in (old, new)
        for entry in os.scandir(path):
            assert b"PRIVATE" not in open(entry, "rb").read() or entry.stat().st_mode & 0o777 == 0o600
        kept.add("old" if pair == old else "new")
    print(len(states), len(changed), *sorted(kept))
"""


@pytest.mark.first_case
@pytest.mark.parametrize("passphrase", ["", "secret"])
@pytest.mark.parametrize(("how", "steps", "kept"), [("save", 7, ["new", "old"]), ("ensure", 8, ["new"])])
def test_a_process_that_dies_at_any_line_loses_no_pair_and_the_next_one_mends_what_is_left(
    tmp_path: Path, how: str, steps: int, kept: list[str], passphrase: str
) -> None:
    lines, changes, *found = run_python(CRASH, tmp_path, how, passphrase).split()
    assert int(lines) > 50
    assert int(changes) >= steps
    assert found == kept


@pytest.mark.parametrize("limit", [10, 115])
def test_on_a_full_disk_the_old_pair_stays_whole_and_nothing_else_is_left(saved: Path, limit: int) -> None:
    script = """
        from lilux.primitives.signing import generate_keypair, save_keypair, ensure_keypair
        import resource, sys
        pair = generate_keypair()
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
        for write in (lambda: save_keypair(*pair, sys.argv[1]), lambda: ensure_keypair(sys.argv[1] + "/new")):
            try:
                write()
            except OSError as exc:
                print(exc.errno, exc.filename)
    """
    expected = f"{errno.EFBIG} {saved}/private_key.pem\n{errno.EFBIG} {saved}/new/private_key.pem\n"
    assert run_python(script, saved, limit) == expected
    assert names_in(saved / "new") == []
    (saved / "new").rmdir()
    assert load_keypair(saved) == (PRIVATE, PUBLIC)
    assert names_in(saved) == ["private_key.pem", "public_key.pem"]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="compares with openssl, which is not here")
def test_openssl_reads_the_same_pair(saved: Path) -> None:
    command = ["openssl", "pkey", "-in", str(saved / "private_key.pem"), "-pubout"]
    assert subprocess.run(command, check=True, capture_output=True).stdout == PUBLIC


# --- passphrases -----------------------------------------------------------------------


def test_private_keys_are_stored_without_encryption_unless_there_is_a_passphrase(tmp_path: Path) -> None:
    save_keypair(PRIVATE, PUBLIC, tmp_path / "plain")
    save_keypair(PRIVATE, PUBLIC, tmp_path / "closed", passphrase=b"secret")
    assert (tmp_path / "plain/private_key.pem").read_bytes() == PRIVATE
    stored = (tmp_path / "closed/private_key.pem").read_bytes()
    assert stored.startswith(b"-----BEGIN ENCRYPTED PRIVATE KEY-----\n")
    assert (tmp_path / "closed/public_key.pem").read_bytes() == PUBLIC
    assert modes(tmp_path / "closed") == (0o700, 0o600, 0o644)


def test_a_pair_with_a_passphrase_is_loaded_in_the_clear(key_dir: Path) -> None:
    save_keypair(PRIVATE, PUBLIC, key_dir, passphrase=b"secret")
    assert load_keypair(key_dir, passphrase=b"secret") == (PRIVATE, PUBLIC)
    assert ensure_keypair(key_dir, passphrase=b"secret") == (PRIVATE, PUBLIC)
    assert verify_signature(HASH, sign_hash(HASH, load_keypair(key_dir, passphrase=b"secret")[0]), PUBLIC)


def test_ensure_makes_a_pair_with_a_passphrase_and_derives_its_public_key_again(key_dir: Path) -> None:
    pair = ensure_keypair(key_dir, passphrase=b"secret")
    assert b"ENCRYPTED" in (key_dir / "private_key.pem").read_bytes()
    (key_dir / "public_key.pem").unlink()
    assert ensure_keypair(key_dir, passphrase=b"secret") == pair


@pytest.mark.parametrize(
    ("stored", "given", "message"),
    [
        (b"secret", None, "expected a passphrase: the private key in PATH is encrypted"),
        (b"secret", b"wrong", "expected the passphrase of PATH, found a wrong one"),
        (b"secret", b"Secret", "expected the passphrase of PATH, found a wrong one"),
        (
            None,
            b"secret",
            "expected an encrypted private key in PATH, as there is a passphrase, found one in the clear",
        ),
    ],
)
def test_a_passphrase_that_is_missing_wrong_or_not_needed_is_called_so(
    key_dir: Path, stored: bytes | None, given: bytes | None, message: str
) -> None:
    save_keypair(PRIVATE, PUBLIC, key_dir, passphrase=stored)
    for take in (load_keypair, ensure_keypair):
        with pytest.raises(ConfigurationError) as caught:
            take(key_dir, passphrase=given)
        assert message in str(caught.value).replace(str(key_dir / "private_key.pem"), "PATH")
        assert caught.value.field == "passphrase"


@pytest.mark.parametrize("passphrase", [b"", b"x" * 1024, "text"])
def test_what_is_no_passphrase_is_refused_before_anything_is_written(key_dir: Path, passphrase: Any) -> None:
    for take in (
        lambda: save_keypair(PRIVATE, PUBLIC, key_dir, passphrase=passphrase),
        lambda: ensure_keypair(key_dir, passphrase=passphrase),
    ):
        with pytest.raises(ConfigurationError, match="1 to 1023 bytes") as caught:
            take()
        assert caught.value.field == "passphrase"
    assert not key_dir.exists()


def test_an_encrypted_key_has_to_be_loaded_before_it_signs(key_dir: Path) -> None:
    save_keypair(PRIVATE, PUBLIC, key_dir, passphrase=b"secret")
    encrypted = (key_dir / "private_key.pem").read_bytes()
    with pytest.raises(ConfigurationError, match="encrypted") as caught:
        sign_hash(HASH, encrypted)
    assert caught.value.field == "passphrase"
