"""Correlated Gaussian noise of a season: what one round adds, later rounds take back in part.

The server adds w_t to the sum of round t, where C w = s eta, eta standard normal, s the deviation,
and C lower triangular and Toeplitz with ``bands`` coefficients r: the square root of the matrix of
prefix sums, cut to a band (Kalinin & Lampert, "Banded Square Root Matrix Factorization for
Differentially Private Model Training", NeurIPS 2024, theorem 2). As the adapter is the sum of the
rounds' steps, its noise is far smaller than that of independent noise at the same epsilon. A device
whose rounds are at least ``bands`` apart meets orthogonal columns of C.

What is kept between rounds are the noises of the last ``bands - 1`` rounds; no key outlives its
round. A season makes noise for each of its rounds in turn, skipped ones too, so that rounds of the
noise are rounds of the devices' ledgers; not publishing one costs no privacy.
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

_HEAD = struct.Struct("<4sIIQ")  # magic, bands, rounds kept, values of each
_MAGIC = b"PQBN"
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
    """

    bands: int
    history: NDArray[np.float64]

    @classmethod
    def start(cls, bands: int, size: int) -> BandedNoise:
        """Before a season's first round, over ``size`` values."""
        check("bands", bands, whole())
        check("size", size, whole())
        return cls(bands, np.zeros((0, size)))

    def next(
        self, key: bytes, deviation: float, *, skipped: int = 0
    ) -> tuple[NDArray[np.float64], BandedNoise]:
        """The next round's noise, float64 (size,), and where the season then stands.

        Args:
            key: 32 random bytes of this round alone, to be forgotten after it.
            deviation: s, of the independent part: the multiplier times the sensitivity of a sum to
                one device, in the sum's unit.
            skipped: rounds since the season's last noise that made none, as when too few devices
                were ready; theirs is made and not used. Devices count rounds by their numbers, and
                the columns of C must lie as far apart as a device's rounds.
        """
        check("deviation", deviation, number(0))
        check("skipped", skipped, whole(0))
        drawn = gaussians(key, (skipped + 1) * self.history.shape[1]).reshape(skipped + 1, -1)
        weights, history = coefficients(self.bands)[1:], self.history
        for independent in drawn:
            noise = independent * deviation
            for weight, earlier in zip(weights, history, strict=False):
                noise -= weight * earlier
            history = np.concatenate([noise[None], history])[: self.bands - 1]
        return noise, BandedNoise(self.bands, history)

    def to_bytes(self) -> bytes:
        """For the journal: a head of 20 bytes, then the history, little-endian."""
        kept, size = self.history.shape
        return _HEAD.pack(_MAGIC, self.bands, kept, size) + self.history.astype("<f8").tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> BandedNoise:
        """What :meth:`to_bytes` wrote.

        Raises:
            CorruptArtifactError: something else.
        """
        head = data[: _HEAD.size]
        magic, bands, kept, size = _HEAD.unpack(head) if len(head) == _HEAD.size else (b"", 0, 0, 0)
        fits = bands >= 1 and kept < max(bands, 1) and 1 <= size < _MOST_VALUES
        if magic != _MAGIC or not fits or len(data) != _HEAD.size + 8 * kept * size:
            raise CorruptArtifactError(
                f"found {len(data)} bytes that are no history of a season's noise; restore the "
                "journal from a backup, or begin a new season"
            )
        history = np.frombuffer(data, "<f8", offset=_HEAD.size).astype(np.float64)
        if not np.isfinite(history).all():
            raise CorruptArtifactError(
                "a season's noise holds NaN or infinity; restore the journal from a backup"
            )
        return cls(bands, history.reshape(kept, size))
