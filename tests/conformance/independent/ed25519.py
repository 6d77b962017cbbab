"""Ed25519 verification as RFC 8032, section 5.1, states it; for tests, it is slow."""

from __future__ import annotations

import hashlib

_P = 2**255 - 19
_L = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, -1, _P) % _P
_ROOT = pow(2, (_P - 1) // 4, _P)

Point = tuple[int, int]


def is_signed(message: bytes, signature: bytes, public_key: bytes) -> bool:
    """Whether ``signature`` was made over ``message`` by the private half of ``public_key``."""
    if len(signature) != 64:
        return False
    key, nonce = _point(public_key), _point(signature[:32])
    scalar = int.from_bytes(signature[32:], "little")
    if key is None or nonce is None or scalar >= _L:
        return False
    digest = hashlib.sha512(signature[:32] + public_key + message).digest()
    challenge = int.from_bytes(digest, "little") % _L
    return _times(scalar, _BASE) == _add(nonce, _times(challenge, key))


def _point(data: bytes) -> Point | None:
    y = int.from_bytes(data, "little")
    sign, y = y >> 255, y & (1 << 255) - 1
    square = (y * y - 1) * pow(_D * y * y + 1, -1, _P) % _P
    x = pow(square, (_P + 3) // 8, _P)
    if x * x % _P != square:
        x = x * _ROOT % _P
    if y >= _P or x * x % _P != square or (x == 0 and sign):
        return None
    return (x if x & 1 == sign else _P - x), y


def _add(left: Point, right: Point) -> Point:
    (a, b), (c, d) = left, right
    product = _D * a * b * c * d % _P
    x = (a * d + b * c) * pow(1 + product, -1, _P) % _P
    return x, (b * d + a * c) * pow(1 - product, -1, _P) % _P


def _times(scalar: int, point: Point) -> Point:
    total = (0, 1)
    while scalar:
        if scalar & 1:
            total = _add(total, point)
        point, scalar = _add(point, point), scalar >> 1
    return total


_Y = 4 * pow(5, -1, _P) % _P
_FOUND = _point(_Y.to_bytes(32, "little"))
assert _FOUND is not None
_BASE: Point = _FOUND
