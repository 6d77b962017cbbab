"""Whether a reply may enter the sum; where not, why, in a word that can be counted.

Bytes from a device can be anything. Whatever they are, the answer is a value, never an exception:
one bad reply must not end a round. What the codec checks (client/update.py) is the format; here the
content is held against what this round sent out.
"""

from __future__ import annotations

import functools
import logging
import math
import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from pocketquery.client.transforms import SCALES
from pocketquery.client.update import UpdateHeader, decode_update
from pocketquery.sdk.bundle.safetensors import parse
from pocketquery.sdk.errors import CorruptArtifactError

__all__ = [
    "LEAST_WEIGHT",
    "ExpectedUpdate",
    "Quarantined",
    "Reason",
    "Valid",
    "known_before",
    "read_reply",
    "validate",
]

LEAST_WEIGHT = 2.0**-10  # below it the fixed point of the sums would round the weight visibly
_LONGEST_DETAIL = 300

_log = logging.getLogger(__name__)


class Reason(StrEnum):
    """Why a reply was quarantined."""

    MALFORMED = "malformed"
    WRONG_SCHEMA = "wrong_schema"
    WRONG_SPACE = "wrong_space"
    WRONG_ENCODER = "wrong_encoder"
    WRONG_KEYS = "wrong_keys"
    WRONG_SHAPE = "wrong_shape"
    WRONG_DTYPE = "wrong_dtype"
    NOT_FINITE = "not_finite"
    ZERO = "zero"
    NORM_OUT_OF_BOUNDS = "norm_out_of_bounds"
    BAD_WEIGHT = "bad_weight"
    STALE_ROUND = "stale_round"
    FUTURE_ROUND = "future_round"
    DUPLICATE = "duplicate"
    REPLAY = "replay"
    TOO_LATE = "too_late"


_FIELDS = ((Reason.WRONG_SPACE, "space_id"), (Reason.WRONG_ENCODER, "encoder_sha256"))


@dataclass(frozen=True)
class ExpectedUpdate:
    """What an update of this round must look like.

    Attributes:
        space_id, encoder_sha256, base_version, round: what its header must say.
        shapes: of the tensors by name.
        largest_norm: a longer change is quarantined.
        largest_weight: and one that claims more weight.
        earlier: where rounds are buffered, what else its header may say: by round, the release and
            how many releases it is behind.
    """

    space_id: str
    encoder_sha256: str
    base_version: str
    round: int
    shapes: Mapping[str, tuple[int, ...]]
    largest_norm: float
    largest_weight: float
    earlier: Mapping[int, tuple[str, int]] = field(default_factory=dict)

    def base(self, number: int) -> tuple[str, int] | None:
        """The release that the round ``number`` offered, and how many releases it is behind; None
        where its updates do not count now."""
        return (self.base_version, 0) if number == self.round else self.earlier.get(number)

    @functools.cached_property
    def largest_bytes(self) -> int:
        """The most an update of these tensors can have, sent as float32, with its header."""
        values = sum(math.prod(shape) for shape in self.shapes.values())
        return 4 * values + sum(200 + 6 * len(name) for name in self.shapes) + 4096


@dataclass(frozen=True)
class Valid:
    """An update that may be added: its header, its values, their L2 norm, and how many releases
    what it began from is behind.

    ``values`` is float64 (n,), the tensors one after the other in the order of their sorted names;
    each value is one of float32.
    """

    header: UpdateHeader
    values: NDArray[np.float64]
    norm: float
    staleness: int = 0


@dataclass(frozen=True)
class Quarantined:
    """A reply that is left out.

    Attributes:
        reason: why.
        detail: what was found and what was expected, in ASCII.
        nonce: its own, where the header was read up to it; else empty.
    """

    reason: Reason
    detail: str
    nonce: str = ""


def validate(
    data: bytes,
    expected: ExpectedUpdate,
    *,
    seen: Container[str] = (),
    earlier: Container[str] = (),
) -> Valid | Quarantined:
    """The update in ``data``, or why there is none. Never raises, whatever ``data`` holds.

    Args:
        data: bytes from a device.
        expected: of the round.
        seen: nonces accepted in this round.
        earlier: nonces accepted in the rounds before that are remembered.
    """
    reading = read_reply(data, expected)
    return known_before(reading, seen, earlier) or reading


def read_reply(data: bytes, expected: ExpectedUpdate) -> Valid | Quarantined:
    """The update in ``data``, or why there is none, whatever came before it: what takes time, and
    needs nothing of the round that changes. Never raises."""
    try:
        return _validated(data, expected)
    except Exception as error:  # a defect of ours, which a reply must not turn into its weapon
        _log.exception("reading a reply raised")
        return _quarantined(Reason.MALFORMED, f"reading it raised {type(error).__name__}")


def known_before(
    reading: Valid | Quarantined, seen: Container[str], earlier: Container[str]
) -> Quarantined | None:
    """Whether what :func:`read_reply` found came before, as :func:`validate` has it."""
    nonce = reading.header.nonce if isinstance(reading, Valid) else reading.nonce
    if nonce and nonce in seen:
        return _quarantined(Reason.DUPLICATE, f"nonce {nonce} is already in this round")
    if nonce and nonce in earlier:
        return _quarantined(Reason.REPLAY, f"nonce {nonce} was in an earlier round")
    return None


def _validated(data: bytes, expected: ExpectedUpdate) -> Valid | Quarantined:
    if len(data) > expected.largest_bytes:
        found = f"{len(data)} bytes, expected at most {expected.largest_bytes}"
        return _quarantined(Reason.MALFORMED, found)
    try:
        update = decode_update(data)
    except CorruptArtifactError as error:
        return _quarantined(_reason_of(data), str(error))
    header = update.header
    for reason, name in _FIELDS:
        found, wanted = getattr(header, name), getattr(expected, name)
        if found != wanted:
            return _quarantined(reason, f"found {name} {found!r}, expected {wanted!r}")
    problem = _problem_of_header(header, expected) or _problem_of_tensors(update.shapes, expected)
    if problem:
        return replace(problem, nonce=header.nonce)
    # Summed here and not by BLAS, whose result depends on its threads. float32 squared cannot
    # overflow float64, so the norm is finite exactly where all values are.
    values = update.values.astype(np.float64)
    norm = math.sqrt(float(np.square(values).sum()))
    if problem := _problem_of_norm(norm, expected):
        return replace(problem, nonce=header.nonce)
    base = expected.base(header.round)
    return Valid(header, values, norm, 0 if base is None else base[1])


def _problem_of_header(header: UpdateHeader, expected: ExpectedUpdate) -> Quarantined | None:
    base = expected.base(header.round)
    if base is None:
        reason = Reason.STALE_ROUND if header.round < expected.round else Reason.FUTURE_ROUND
        wanted = ", ".join(map(str, [*sorted(expected.earlier), expected.round]))
        return _quarantined(reason, f"found round {header.round}, expected {wanted}")
    if header.base_version != base[0]:
        found = f"found a change of release {header.base_version!r}"
        return _quarantined(Reason.STALE_ROUND, f"{found}, expected {base[0]!r}")
    if not LEAST_WEIGHT <= header.weight <= expected.largest_weight:
        limits = f"from {LEAST_WEIGHT} to {expected.largest_weight}"
        return _quarantined(Reason.BAD_WEIGHT, f"found weight {header.weight}, expected {limits}")
    return None


def _problem_of_tensors(
    shapes: Mapping[str, tuple[int, ...]], expected: ExpectedUpdate
) -> Quarantined | None:
    if shapes.keys() != expected.shapes.keys():
        more = sorted(shapes.keys() - expected.shapes.keys())[:3]
        less = sorted(expected.shapes.keys() - shapes.keys())[:3]
        return _quarantined(Reason.WRONG_KEYS, f"tensors not expected: {more}, missing: {less}")
    for name, shape in expected.shapes.items():
        if shapes[name] != shape:
            detail = f"{name!r} is {list(shapes[name])}, expected {list(shape)}"
            return _quarantined(Reason.WRONG_SHAPE, detail)
    return None


def _problem_of_norm(norm: float, expected: ExpectedUpdate) -> Quarantined | None:
    if not math.isfinite(norm):
        return _quarantined(Reason.NOT_FINITE, "found NaN or infinity, expected finite values")
    if norm == 0:
        return _quarantined(Reason.ZERO, "found only zeros, expected a change")
    if norm > expected.largest_norm:
        detail = f"found L2 norm {norm:g}, expected at most {expected.largest_norm:g}"
        return _quarantined(Reason.NORM_OUT_OF_BOUNDS, detail)
    return None


def _reason_of(data: bytes) -> Reason:
    """Why the codec refused ``data``: no tensors at all, tensors of another dtype, or the rest."""
    try:
        tensors = parse(data)
    except CorruptArtifactError:
        return Reason.MALFORMED
    wanted = np.dtype(np.int8 if SCALES in tensors else np.float32)
    dtypes = {value.dtype for name, value in tensors.items() if name != SCALES}
    return Reason.WRONG_DTYPE if dtypes - {wanted} else Reason.WRONG_SCHEMA


def _quarantined(reason: Reason, detail: str) -> Quarantined:
    """With what a device wrote made harmless: any text may come back in it, half surrogates too."""
    plain = detail[:_LONGEST_DETAIL].encode("ascii", "backslashreplace").decode("ascii")
    return Quarantined(reason, re.sub("[^ -~]", "?", plain)[:_LONGEST_DETAIL])
