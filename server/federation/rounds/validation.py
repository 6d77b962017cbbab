"""Whether a reply may enter the sum; where not, why, in a word that can be counted.

Bytes from a device can be anything. Whatever they are, the answer is a value, never an exception:
one bad reply must not end a round. What the codec checks (client/update.py) is the format; here the
content is held against what this round sent out.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Container, Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from pocketquery.client.transforms import SCALES
from pocketquery.client.update import UpdateHeader, decode_update
from pocketquery.sdk.bundle.safetensors import parse
from pocketquery.sdk.errors import CorruptArtifactError

__all__ = ["LEAST_WEIGHT", "Expected", "Quarantined", "Reason", "Valid", "validate"]

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
class Expected:
    """What an update of this round must look like.

    Attributes:
        space_id, encoder_sha256, base_version, round: what its header must say.
        shapes: of the tensors by name.
        largest_norm: a longer change is quarantined.
        largest_weight: and one that claims more weight.
    """

    space_id: str
    encoder_sha256: str
    base_version: str
    round: int
    shapes: Mapping[str, tuple[int, ...]]
    largest_norm: float
    largest_weight: float

    def largest_bytes(self) -> int:
        """The most an update of these tensors can have, sent as float32, with its header."""
        values = sum(math.prod(shape) for shape in self.shapes.values())
        return 4 * values + sum(200 + 6 * len(name) for name in self.shapes) + 4096


@dataclass(frozen=True)
class Valid:
    """An update that may be added: its header, its values, and their L2 norm.

    ``values`` is float32 (n,), the tensors one after the other in the order of their sorted names.
    """

    header: UpdateHeader
    values: NDArray[np.float32]
    norm: float


@dataclass(frozen=True)
class Quarantined:
    """A reply that is left out; ``detail`` says what was found and what was expected, in ASCII."""

    reason: Reason
    detail: str


def validate(
    data: bytes,
    expected: Expected,
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
    try:
        return _validated(data, expected, seen, earlier)
    except Exception as error:  # a defect of ours, which a reply must not turn into its weapon
        _log.exception("reading a reply raised")
        return _quarantined(Reason.MALFORMED, f"reading it raised {type(error).__name__}")


def _validated(
    data: bytes, expected: Expected, seen: Container[str], earlier: Container[str]
) -> Valid | Quarantined:
    if len(data) > expected.largest_bytes():
        found = f"{len(data)} bytes, expected at most {expected.largest_bytes()}"
        return _quarantined(Reason.MALFORMED, found)
    try:
        update = decode_update(data)
    except CorruptArtifactError as error:
        return _quarantined(_reason_of(data), str(error))
    problem = _problem_of_header(update.header, expected, seen, earlier)
    problem = problem or _problem_of_tensors(update.change, expected)
    if problem:
        return problem
    values = np.concatenate([update.change[name].ravel() for name in sorted(expected.shapes)])
    # Summed here and not by BLAS, whose result depends on its threads. float32 squared cannot
    # overflow float64, so the norm is finite exactly where all values are.
    norm = math.sqrt(float(np.square(values, dtype=np.float64).sum()))
    return _problem_of_norm(norm, expected) or Valid(update.header, values, norm)


def _problem_of_header(
    header: UpdateHeader, expected: Expected, seen: Container[str], earlier: Container[str]
) -> Quarantined | None:
    for reason, name in _FIELDS:
        found, wanted = getattr(header, name), getattr(expected, name)
        if found != wanted:
            return _quarantined(reason, f"found {name} {found!r}, expected {wanted!r}")
    if header.nonce in seen:
        return _quarantined(Reason.DUPLICATE, f"nonce {header.nonce} is already in this round")
    if header.nonce in earlier:
        return _quarantined(Reason.REPLAY, f"nonce {header.nonce} was in an earlier round")
    if header.round != expected.round:
        reason = Reason.STALE_ROUND if header.round < expected.round else Reason.FUTURE_ROUND
        return _quarantined(reason, f"found round {header.round}, expected {expected.round}")
    if header.base_version != expected.base_version:
        found = f"found a change of release {header.base_version!r}"
        return _quarantined(Reason.STALE_ROUND, f"{found}, expected {expected.base_version!r}")
    if not LEAST_WEIGHT <= header.weight <= expected.largest_weight:
        limits = f"from {LEAST_WEIGHT} to {expected.largest_weight}"
        return _quarantined(Reason.BAD_WEIGHT, f"found weight {header.weight}, expected {limits}")
    return None


def _problem_of_tensors(
    change: Mapping[str, NDArray[np.float32]], expected: Expected
) -> Quarantined | None:
    if change.keys() != expected.shapes.keys():
        more = sorted(change.keys() - expected.shapes.keys())[:3]
        less = sorted(expected.shapes.keys() - change.keys())[:3]
        return _quarantined(Reason.WRONG_KEYS, f"tensors not expected: {more}, missing: {less}")
    for name, shape in expected.shapes.items():
        if change[name].shape != shape:
            found = f"{name!r} is {list(change[name].shape)}, expected {list(shape)}"
            return _quarantined(Reason.WRONG_SHAPE, found)
    return None


def _problem_of_norm(norm: float, expected: Expected) -> Quarantined | None:
    if not math.isfinite(norm):
        return _quarantined(Reason.NOT_FINITE, "found NaN or infinity, expected finite values")
    if norm == 0:
        return _quarantined(Reason.ZERO, "found only zeros, expected a change")
    if norm > expected.largest_norm:
        found = f"found L2 norm {norm:g}, expected at most {expected.largest_norm:g}"
        return _quarantined(Reason.NORM_OUT_OF_BOUNDS, found)
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
