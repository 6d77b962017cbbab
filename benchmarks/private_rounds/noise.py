"""Noise and codes as devices make them (client/private), of a whole cohort at once."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from private_rounds.changes import LOCAL

from pocketquery.client.private.encoding import Encoding, choose_encoding, encode, value_range
from pocketquery.client.private.masks import Keystream
from pocketquery.client.private.noise import Table, counted_on, draw, sigma
from pocketquery.sdk.arrays import Floats

__all__ = ["CLIP", "encoded_sum", "encoding_of", "mean_noise", "sum_noise"]

CLIP = 1.0


def encoding_of(size: int, cohort: int, noise: float = 0.0, range: float | None = None) -> Encoding:
    """The encoding of a round of the default settings."""
    most = value_range(LOCAL.steps, LOCAL.learning_rate) if range is None else range
    return choose_encoding(size, cohort, CLIP, most, noise)


def encoded_sum(changes: Sequence[Floats], encoding: Encoding, label: str) -> NDArray[np.float64]:
    """The sum of the changes as it comes out of the codes: clipped, rounded at random, exact."""
    total = np.zeros(encoding.size, np.int64)
    signed = np.int16 if encoding.bits == 16 else np.int32
    for place, change in enumerate(changes):
        codes = encode(change, encoding, stream_of(f"coins {label} {place}"))
        total += codes.view(signed)
    return total.astype(np.float64) * encoding.step


def sum_noise(encoding: Encoding, devices: int, deviation: float, label: str) -> Floats:
    """What ``devices`` noises of ``deviation`` steps each add up to, in values.

    Drawn at once: at two steps or more the sum of discrete Gaussians is one, to within 1e-16.
    """
    table = Table.of(deviation * math.sqrt(devices))
    drawn = draw(table, stream_of(f"noise {label}"), encoding.size)
    return (drawn * encoding.step).astype(np.float32)


def mean_noise(size: int, cohort: int, noise: float, seed: int) -> Floats:
    """The noise in the mean of ``cohort`` devices that all survive, float32 (size,)."""
    encoding = encoding_of(size, cohort, noise)
    deviation = sigma(noise, encoding, counted_on(cohort))
    return sum_noise(encoding, cohort, deviation, f"mean {seed}") / np.float32(cohort)


def stream_of(label: str) -> Keystream:
    """A stream of its own for each label, the same at every call."""
    return Keystream(hashlib.sha256(label.encode()).digest())
