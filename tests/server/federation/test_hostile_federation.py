"""One hostile client of each kind neither stops nor steers a federation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pocketquery.sdk.bundle.adapter import parse_adapter
from tests.kills import printed
from tests.server.federation.hostile_federation import HONEST, KINDS, left, run
from tests.server.federation.small_federation import Files

ROOT = Path(__file__).parents[3]
EVERY_ROUND = {
    "not_finite": 1,
    "norm_out_of_bounds": 1,
    "wrong_shape": 1,
    "wrong_dtype": 1,
    "malformed": 4,  # a bomb, a header of numpy's, one too large, garbage
    "stale_round": 1,
    "duplicate": 1,
    "bad_weight": 1,
}


@pytest.mark.parametrize(
    "kills",
    [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(6, marks=pytest.mark.very_slow)],
)
@pytest.mark.timeout(1800)
def test_every_kind_is_told_and_a_killed_server_comes_to_the_same_bits(
    tmp_path: Path, kills: int
) -> None:
    module = "tests.server.federation.hostile_federation"
    said = printed(module, tmp_path, kills, timeout=3600)
    rows = json.loads(said[-1])
    first, *later = rows
    assert first["quarantined"] == EVERY_ROUND
    # Accepted: the honest, who replies twice, the negated one, and the first use of a nonce.
    assert (first["asked"], first["accepted"], first["failed"]) == (28, HONEST + 3, 1)
    for row in later:
        assert row["quarantined"] == EVERY_ROUND | {"replay": 1, "stale_round": 2}
        assert (row["accepted"], row["failed"]) == (HONEST + 2, 1)
    assert [row["version"] for row in rows] == ["2", "3", "4"]


def change(work: Path) -> Any:
    """What the first round changed, as one vector."""
    before, after = (parse_adapter(data).tensors for data in left(work)[0][:2])
    return np.concatenate([(after[name] - before[name]).ravel() for name in sorted(before)])


def cosine(one: Any, other: Any) -> float:
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


def test_a_negated_update_as_heavy_as_allowed_turns_no_round(
    federation: Files, tmp_path: Path
) -> None:
    kinds = KINDS.index("negated") + 1
    # The same offer in all three, so that the devices train alike: their seed is of the offer.
    honest = {"weighting": "equal", "aggregation": "mean", "rounds": 1}
    run(federation, tmp_path / "honest", 0, **honest)
    run(federation, tmp_path / "now", kinds, rounds=1)
    run(federation, tmp_path / "believed", kinds, **honest | {"weighting": "declared"})
    mean, now, believed = (change(tmp_path / name) for name in ("honest", "now", "believed"))
    assert cosine(now, mean) > 0.8
    assert cosine(believed, mean) < 0  # what it would do where its weight were believed
