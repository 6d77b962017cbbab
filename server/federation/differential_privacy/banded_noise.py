"""Correlated Gaussian noise of a season: what one round adds, later rounds take back in part.

The server adds w_t to the sum of round t, where C w = s eta, eta standard normal, s the deviation,
and C lower triangular and Toeplitz with ``bands`` coefficients r: the square root of the matrix of
prefix sums, cut to a band (Kalinin & Lampert, "Banded Square Root Matrix Factorization for
Differentially Private Model Training", NeurIPS 2024, theorem 2). As the adapter is the sum of the
rounds' steps, its noise is far smaller than that of independent noise at the same epsilon. A device
whose rounds are at least ``bands`` apart meets orthogonal columns of C.

Rounds may differ in their sensitivity to a device, by clipping norm and encoding. What a device
gives to round u is in C x from row u on, so it is the noise of later rounds, too, that protects it:
s of a round is the largest that any round of the season has needed until then. Each row t then has
s_t of at least z times the sensitivity of every round up to t, and the norm of C x in deviations is
at most the season's :func:`sensitivity` over z, as with one sensitivity for all.

What is kept between rounds are the noises of the last ``bands - 1`` rounds; no key outlives its
round. A season makes noise for each of its rounds in turn, skipped ones too, so that rounds of the
noise are rounds of the devices' ledgers; not publishing one costs no privacy. Nor does beginning
anew within a season: the columns of C are cut off there and get shorter. It costs cancellation.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pocketquery.client.secure.masks import Keystream
from pocketquery.sdk.errors import CorruptArtifactError
from pocketquery.sdk.validation import check, number, whole

__all__ = ["BandedNoise", "bands_of", "coefficients", "gaussians", "sensitivity"]

# Magic, bands, rounds kept, values of each; number of the last round + 1, deviation.
_HEAD = struct.Struct("<4sIIQQd")
_MAGIC = b"PQB2"
_HEAD_BEFORE = struct.Struct("<4sIIQ")
_MAGIC_BEFORE = b"PQBN"  # without the last two
_MOST_VALUES = 2**32


def bands_of(rounds: int, participations: int) -> int:
    """How many bands a season of ``rounds`` has: a device stays away for as many, and so can take
    part ``participations`` times."""
    check("rounds", rounds, whole())
    check("participations", participations, whole(1, rounds))
    return rounds // participations


def coefficients(bands: int) -> NDArray[np.float64]:
    """r_0 .. r_(bands - 1), of the power series of (1 - x)^(-1/2): float64 (bands,)."""
    check("bands", bands, whole())
    steps = np.arange(1, bands, dtype=np.float64)
    return np.concatenate([[1.0], np.cumprod((2 * steps - 1) / (2 * steps))])


def sensitivity(rounds: int, bands: int, participations: int) -> float:
    """The L2 norm that one device's changes of norm 1, at least ``bands`` rounds apart, can reach
    in C x: of its worst schedule.

    The columns of C only get shorter towards the end of the season, so the worst is to begin at
    once and to take part as often as allowed.

    Args:
        rounds: of the season.
        bands: of C.
        participations: of a device, at most.
    """
    for name, value in (("rounds", rounds), ("participations", participations)):
        check(name, value, whole())
    squares = np.cumsum(coefficients(bands) ** 2)
    starts = range(0, rounds, bands)[:participations]
    return math.sqrt(sum(float(squares[min(bands, rounds - first) - 1]) for first in starts))


def gaussians(key: bytes, count: int) -> NDArray[np.float64]:
    """Standard normal values from the ChaCha20 stream of ``key``: float64 (count,).

    Box and Muller's transform of 53-bit uniforms; the largest value there can be is 8.57.

    Args:
        key: 32 bytes, used for this alone.
        count: how many.
    """
    pairs = -(-count // 2)
    words = np.frombuffer(Keystream(key).read(16 * pairs), "<u8").reshape(2, -1) >> np.uint64(11)
    radius = np.sqrt(-2.0 * np.log((words[0].astype(np.float64) + 1.0) * 2.0**-53))
    angle = words[1].astype(np.float64) * (2.0 * math.pi * 2.0**-53)
    both = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return both.reshape(-1)[:count]


@dataclass(frozen=True)
class BandedNoise:
    """Where a season's noise stands: a value; :meth:`next` returns the one after it.

    Attributes:
        bands: coefficients of C.
        history: noise of the last rounds, the newest first: float64 (at most bands - 1, size).
        deviation: s of the last round, the largest so far.
        last: number of the last round; None before the first.
    """

    bands: int
    history: NDArray[np.float64]
    deviation: float = 0.0
    last: int | None = None

    @classmethod
    def start(cls, bands: int, size: int) -> BandedNoise:
        """Before a season's first round, over ``size`` values."""
        check("bands", bands, whole())
        check("size", size, whole())
        return cls(bands, np.zeros((0, size)))

    def next(
        self, key: bytes, deviation: float, round: int
    ) -> tuple[NDArray[np.float64], BandedNoise]:
        """The next round's noise, float64 (size,), and where the season then stands.

        Args:
            key: 32 random bytes of this round alone, to be forgotten after it.
            deviation: that the round needs of the independent part: the multiplier times the
                sensitivity of a sum to one device, in the sum's unit. Where an earlier round of
                the season needed more, it is that of the earlier one.
            round: its number. Noise of rounds since the last, which made none (plain ones, or of
                another season), is made and not used: devices count rounds by their numbers, and
                the columns of C must lie as far apart as a device's rounds.

        Raises:
            InvalidInputError: the round is not after the last.
        """
        check("deviation", deviation, number(0))
        check("round", round, whole(0 if self.last is None else self.last + 1))
        skipped = 0 if self.last is None else round - self.last - 1
        deviation = max(deviation, self.deviation)
        drawn = gaussians(key, (skipped + 1) * self.history.shape[1]).reshape(skipped + 1, -1)
        weights, history = coefficients(self.bands)[1:], self.history
        for independent in drawn:
            noise = independent * deviation
            for weight, earlier in zip(weights, history, strict=False):
                noise -= weight * earlier
            history = np.concatenate([noise[None], history])[: self.bands - 1]
        return noise, BandedNoise(self.bands, history, deviation, round)

    def to_bytes(self) -> bytes:
        """For the journal: a head of 36 bytes, then the history, little-endian."""
        kept, size = self.history.shape
        rounds = 0 if self.last is None else self.last + 1
        head = _HEAD.pack(_MAGIC, self.bands, kept, size, rounds, self.deviation)
        return head + self.history.astype("<f8").tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> BandedNoise:
        """What :meth:`to_bytes` wrote. What it wrote before it kept rounds and deviations is begun
        anew.

        Raises:
            CorruptArtifactError: something else.
        """
        is_before = data.startswith(_MAGIC_BEFORE)
        layout = _HEAD_BEFORE if is_before else _HEAD
        head = layout.unpack(data[: layout.size]) if len(data) >= layout.size else (b"", 0, 0, 0)
        magic, bands, kept, size, *since = head
        rounds, deviation = since or (0, 0.0)
        fits = bands >= 1 and kept < max(bands, 1) and 1 <= size < _MOST_VALUES
        fits = fits and magic in (_MAGIC, _MAGIC_BEFORE)
        if not fits or len(data) != layout.size + 8 * kept * size:
            raise CorruptArtifactError(
                f"found {len(data)} bytes that are no history of a season's noise; restore the "
                "journal from a backup, or begin a new season"
            )
        if is_before:
            return cls.start(bands, size)
        history = np.frombuffer(data, "<f8", offset=_HEAD.size).astype(np.float64)
        if not np.isfinite(history).all() or not 0 <= deviation < math.inf:
            raise CorruptArtifactError(
                "a season's noise holds NaN or infinity; restore the journal from a backup"
            )
        return cls(bands, history.reshape(kept, size), deviation, rounds - 1 if rounds else None)
