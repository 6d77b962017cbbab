"""Write conformance/secure: changes as codes, noise and what it costs; see secure.py."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np

from pocketquery.client.private.binding import Privacy
from pocketquery.client.private.encoding import Encoding, encode
from pocketquery.client.private.ledger import cost_of, epsilon_of
from pocketquery.client.private.masks import Keystream
from pocketquery.client.private.noise import Table, delta, draw, rho, sigma
from pocketquery.sdk.files import sha256_bytes
from tests.client.private.group import NARROW, WIDE, drawn
from tests.conformance.secure_bodies import outcome, text_of

__all__ = ["costs", "encodings", "noise_tables"]


def encodings() -> Iterator[dict[str, Any]]:
    """Changes, coins and noise, and the codes that come of them."""
    rng = np.random.default_rng(16)
    kinds = [
        (WIDE, 0.2), (WIDE, 5.0), (NARROW, 0.05), (NARROW, 1.0),
        (Encoding(1, 16, 0, 3.0, 2.0), 1.0), (Encoding(130, 16, 10, 0.03, 1.0), 0.02),
        (Encoding(1030, 16, 12, 0.0125, 1.0), 0.01), (Encoding(140, 32, 40, 1e-4, 1e-3), 1e-4),
        (Encoding(300, 16, -3, 1000.0, 1e5), 300.0), (Encoding(257, 16, 6, 0.5, 0.7), 0.3),
    ]  # fmt: skip
    for number, (encoding, scale) in enumerate(kinds):
        for noisy in (False, True):
            values = (scale * rng.standard_normal(encoding.size)).astype(np.float32)
            noise = rng.integers(-500, 500, encoding.size) if noisy else None
            key = drawn("coins", number, noisy)
            codes = encode(values, encoding, Keystream(key), noise)
            yield {
                "encoding": asdict(encoding),
                "values": text_of(values.astype("<f4").tobytes()),
                "key": key.hex(),
                "noise": None if noise is None else noise.tolist(),
                "delta": delta(encoding),
                "codes": text_of(codes.astype(codes.dtype.newbyteorder("<")).tobytes()),
            }
    for wrong in (np.zeros(23), np.full(24, np.nan), np.full(24, np.inf)):
        values = wrong.astype(np.float32)
        yield {
            "encoding": asdict(WIDE),
            "values": text_of(values.astype("<f4").tobytes()),
            "key": drawn(0).hex(),
            "noise": None,
        } | outcome(lambda values=values: encode(values, WIDE, Keystream(drawn(0))).tolist())  # type: ignore[misc]


def noise_tables() -> Iterator[dict[str, Any]]:
    """Tables by their standard deviation, and draws."""
    rng = np.random.default_rng(17)
    for deviation in (2.0, 2.5, 3.0, math.pi, 17.25, 100 / 3, *(rng.uniform(2, 300, 6)), 5000.5):
        table = Table.of(float(deviation))
        entries = b"".join(
            int(high).to_bytes(8, "big") + int(low).to_bytes(8, "big")
            for high, low in zip(table.high, table.low, strict=True)
        )
        key = drawn("noise", float(deviation))
        draws = draw(table, Keystream(key), 500)
        yield {
            "sigma": float(deviation),
            "reach": table.reach,
            "sha256": sha256_bytes(entries),
            "key": key.hex(),
            "draws": draws.tolist(),
        }
    for deviation in (1.999, 0.0, 100_001.0):
        yield {"sigma": deviation} | outcome(lambda d=deviation: Table.of(d).reach)  # type: ignore[misc]


def costs() -> Iterator[dict[str, Any]]:
    """What a masked change costs in each mode."""
    for encoding in (
        NARROW,
        Encoding(36_864, 16, 11, 0.0125, 1.0),
        Encoding(4096, 32, 9, 1.0, 2.0),
    ):
        for multiplier in (0.5, 1.0, 2.0, 2.4, 4.0):
            for honest in (1, 12, 64, 640, 6400):
                privacy = Privacy("devices", multiplier, honest, "s", 1)
                spent = rho(multiplier, encoding, honest)
                yield {
                    "encoding": asdict(encoding),
                    "privacy": asdict(privacy),
                    "sigma": sigma(multiplier, encoding, honest),
                    "rho": spent,
                    "cost": cost_of(privacy, encoding),
                    "epsilon": epsilon_of(spent, 1e-6),
                }
