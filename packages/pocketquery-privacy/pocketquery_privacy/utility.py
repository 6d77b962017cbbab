"""What noise costs in accuracy: one measurement, and where a configuration is on it.

Noise of the mean of a cohort falls with its size, the mean change of many devices hardly does. What
counts is the noise that is in the adapter at the end; norms alone are pessimistic, for noise is the
same in all directions and retrieval is not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pocketquery.client.private.encoding import Encoding
from pocketquery.client.private.noise import delta

__all__ = ["ADAPTERS", "Adapter", "expected_loss", "is_advised", "noise_after"]

# A noise per value is a little more than planned, for its sensitivity is that after rounding.
_ROUNDING_SLACK = 1.02


@dataclass(frozen=True)
class Adapter:
    """What is trained, and what was measured of it.

    Attributes:
        values: of a change.
        release_bytes: of a release file.
        signal: norm of the mean change of many devices, over the clipping norm.
        gain: points gained by the rounds without noise.
        losses: points lost, by the noise per value that the adapter ends with, over the clipping
            norm; ascending.
        from_cohort: the smallest cohort this adapter is advised for at a multiplier of 2.
        source: where gain and losses come from.
    """

    values: int
    release_bytes: int
    signal: float
    gain: float
    losses: tuple[tuple[float, float], ...]
    from_cohort: int
    source: str


def reference_noise(cohort: int) -> float:
    """Noise per value over the clipping norm after ten rounds at multiplier 2, as was measured."""
    return 2 * 1.25 * math.sqrt(10) / cohort


ADAPTERS: dict[str, Adapter] = {
    "full": Adapter(
        values=36_864,
        release_bytes=74_816,
        signal=0.58,
        gain=4.52,
        losses=(
            (reference_noise(10_000), 0.0),
            (reference_noise(1_000), 0.22),
            (reference_noise(300), 0.73),
            (reference_noise(100), 7.91),
        ),
        from_cohort=300,
        source="benchmarks/privacy_utility.py, on the demo's 3x384 student, rank 8: nDCG@10 of the "
        "int8 encoder on 1,074 held-out mistyped questions, three seeds, ten rounds at noise "
        "multiplier 2; intervals of half a point and more",
    ),
    "small": Adapter(  # eight times the mean of one round, and so eight times its noise
        values=2_304,
        release_bytes=10_500,
        signal=0.39,
        gain=1.46,
        losses=((8 * 2.5 / 1_000, 0.0), (8 * 2.5 / 100, 0.04)),
        from_cohort=100,
        source="measured once, on the demo's 3x384 student, 2,304 values of up: nDCG@10 of the "
        "int8 encoder on 400 held-out mistyped questions, eight times one round's mean and noise; "
        "standard error 0.4 points",
    ),
}


def noise_after(
    rounds: int,
    noise_multiplier: float,
    encoding: Encoding,
    cohort: int,
    counted: int,
) -> float:
    """Standard deviation of a value of the adapter after ``rounds``, over the clipping norm.

    Args:
        rounds: whose means are added up; 1 for the noise of one mean.
        noise_multiplier: z.
        encoding: of the changes.
        cohort: by which a sum is divided.
        counted: how many devices' noise is counted on.
    """
    one = noise_multiplier * delta(encoding) / encoding.clip / cohort
    # Everybody's noise arrives where fewer were counted on.
    return one * math.sqrt(cohort / counted * rounds)


def expected_loss(adapter: Adapter, noise: float) -> float | None:
    """Points lost at that noise in the end, between measured ones along its logarithm; None beyond
    them."""
    known = adapter.losses
    if noise > _ROUNDING_SLACK * known[-1][0]:
        return None
    places = [math.log(place) for place, _ in known]
    return float(np.interp(math.log(noise), places, [value for _, value in known]))


def is_advised(adapter: Adapter, noise: float) -> bool:
    """Whether the adapter was seen to gain under that noise in the end."""
    return noise <= _ROUNDING_SLACK * reference_noise(adapter.from_cohort)
