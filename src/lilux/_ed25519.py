"""Tell whether 32 bytes are an Ed25519 public key that only its owner can sign for.

Rules:

- A point of low order (1, 2, 4 or 8) is weak: signatures that verify under it can be made without any
  private key. It is recognised in every encoding, with an x-sign bit or a y-coordinate that should not be
  there too.
- Anything else has to be a point of the curve in its one canonical encoding (RFC 8032, section 5.1.3).
- What cryptographic libraries do with such keys differs, so it is decided here.
"""

from __future__ import annotations

__all__ = ["KEY_BYTES", "is_canonical_point", "is_low_order"]

KEY_BYTES = 32
"""The length of an encoded point."""

_P = 2**255 - 19
_D = -121665 * pow(121666, -1, _P) % _P
_SIGN_BIT = 1 << 255

# y of the points of order 8; the others of low order have y = 1 (order 1), -1 (order 2) and 0 (order 4).
_Y8 = int.from_bytes(
    bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little"
)
_LOW_ORDER_Y = frozenset({0, 1, _P - 1, _Y8, _P - _Y8})


def is_low_order(encoded: bytes) -> bool:
    """Whether these bytes stand for a point of order 1, 2, 4 or 8, canonically or not."""
    return _y_of(encoded) % _P in _LOW_ORDER_Y


def is_canonical_point(encoded: bytes) -> bool:
    """Whether these bytes are the one encoding of a point of the curve; low order aside."""
    y = _y_of(encoded)
    return y < _P and _is_square((y * y - 1) * (_D * y * y + 1))


def _y_of(encoded: bytes) -> int:
    return int.from_bytes(encoded, "little") & ~_SIGN_BIT


def _is_square(value: int) -> bool:
    """Whether x² = `value` has a solution modulo p. For a fraction, its parts multiplied tell the same."""
    return pow(value, (_P - 1) // 2, _P) in (0, 1)
