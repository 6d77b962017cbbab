from __future__ import annotations

import dataclasses
import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pocketquery import sdk
from pocketquery.client.bootstrap import Interval, bootstrap_difference
from pocketquery.client.training.monitors import Health
from pocketquery.sdk.bundle.adapter import pack_adapter
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.encoder import AdapterSource
from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError
from pocketquery.server.corpus import Query
from pocketquery.server.federation.releases.gate import Gate, GateCollection
from pocketquery.server.federation.releases.gate_report import (
    AcceptanceReport,
    Comparison,
    GateSettings,
    Verdict,
    verdict_on,
)
from tests.sdk.tiny_bundle import (
    DOWN,
    UP,
    Array,
    _weights,
    default_adapter,
    trained_adapter,
)

WORDS = ["plants", "make", "sugar", "sea", "cafe", "zurich", "light", "how", "1920", "deep"]
PAIRS = list(itertools.combinations(WORDS, 2))  # 45
NO_GAIN_ASKED = GateSettings(least_gain=-1.0)
SOUND = Health(effective_rank=9.0, std_ratio=0.9, drift=0.0, rank_kept=1.0, spread_kept=1.0)


@pytest.fixture(scope="module")
def collection(bundle: Bundle) -> GateCollection:
    """Queries of two words; relevant is the document that says them with a third."""
    encoder = sdk.load(bundle.path)
    documents = [f"{first} {second} {first} the" for first, second in PAIRS]
    return GateCollection(
        queries=[Query(str(i), f"{first} {second}") for i, (first, second) in enumerate(PAIRS)],
        document_ids=[f"d{i}" for i in range(len(PAIRS))],
        document_vectors=encoder.encode_query(documents),
        judgements={str(i): {f"d{i}": 1} for i in range(len(PAIRS))},
    )


def accept(
    bundle: Bundle,
    old: AdapterSource | None,
    new: AdapterSource,
    collection: GateCollection,
    settings: GateSettings | None = None,
) -> AcceptanceReport:
    return Gate(bundle, collection, settings).judge(old, new)


def bad() -> dict[str, Array]:
    return slightly(default_adapter(), 3)


def slightly(adapter: dict[str, Array], size: float) -> dict[str, Array]:
    return {DOWN: adapter[DOWN], UP: trained_adapter()[UP] * np.float32(size)}


def test_the_same_adapter_proves_no_gain_and_is_not_released(
    bundle: Bundle, collection: GateCollection
) -> None:
    for old in (None, default_adapter()):
        report = accept(bundle, old, default_adapter(), collection)
        assert report.reason == "no_gain"
        assert "no gain over the release in force is shown: clean +0.0000" in report.detail
        assert accept(bundle, old, default_adapter(), collection, NO_GAIN_ASKED).accepted
        found = report.sets["clean"]
        assert found.difference == Interval(0.0, 0.0, 0.0)
        assert found.before == found.after == found.shipped > 0.5
        assert report.queries == 45
        assert report.health.spread_kept == report.health.rank_kept == 1.0


def test_what_finds_less_is_rejected(bundle: Bundle, collection: GateCollection) -> None:
    report = accept(bundle, None, bad(), collection)
    assert report == accept(bundle, default_adapter(), bad(), collection)
    assert report.verdict is Verdict.MEAN_FELL
    found = report.sets["clean"]
    assert found.difference.high < 0
    assert found.after < found.before
    assert "from the release in force" in report.detail


def test_what_finds_more_than_the_release_in_force_is_judged_against_the_shipped_too(
    bundle: Bundle, collection: GateCollection
) -> None:
    gate = Gate(bundle, collection)
    back = gate.judge(bad(), default_adapter())
    assert back.accepted
    assert back.sets["clean"].difference.low > 0
    creeping = gate.judge(bad(), bad())  # no worse than its parent, and yet far below the shipped
    assert creeping.sets["clean"].difference.estimate == 0
    assert creeping.verdict is Verdict.FELL_FROM_SHIPPED


def test_the_figures_are_those_of_the_definitions(
    bundle: Bundle, collection: GateCollection
) -> None:
    new = slightly(default_adapter(), 0.05)
    report = accept(bundle, None, new, collection)

    def scores(adapter: Any) -> Any:  # one relevant document: nDCG@10 = 1 / log2(rank + 1)
        vectors = sdk.load(bundle.path, adapter=adapter).encode_query(
            [query.text for query in collection.queries]
        )
        found = vectors @ collection.document_vectors.T
        ranks = 1 + (found > np.diag(found)[:, None]).sum(axis=1)
        return np.where(ranks <= 10, 1 / np.log2(ranks + 1), 0.0)

    rounded = {name: value.astype(np.float16) for name, value in new.items()}
    after, before = scores(rounded), scores(None)
    shown = report.sets["clean"]
    assert shown.after == pytest.approx(after.mean())
    assert shown.before == pytest.approx(before.mean())
    expected = bootstrap_difference([(after, before)])
    for name in ("estimate", "low", "high"):
        assert getattr(shown.difference, name) == pytest.approx(getattr(expected, name))


def test_a_candidate_is_judged_as_it_would_travel(
    bundle: Bundle, collection: GateCollection
) -> None:
    new = slightly(default_adapter(), 0.05)
    data = pack_adapter(new, manifest=bundle.manifest, version="2")
    assert accept(bundle, None, data, collection) == accept(bundle, None, new, collection)


def test_a_collapsed_encoder_is_rejected_by_spread_and_by_rank(
    bundle: Bundle, collection: GateCollection
) -> None:
    lenient = GateSettings(least_mean=-1.0, least_low=-1.0)
    one_plane = {DOWN: trained_adapter()[DOWN], UP: trained_adapter()[UP] * np.float32(1000)}
    assert accept(bundle, None, one_plane, collection, lenient).verdict is Verdict.RANK_FELL
    # A direction that every query has, written over all others: one point.
    queries = [query.text for query in collection.queries]
    shared = sdk.load(bundle.path).encode_query(queries).mean(axis=0)
    weights = np.linalg.lstsq(_linear(), shared, rcond=None)[0]
    one_point = {
        DOWN: np.stack([weights, weights]).astype(np.float32),
        UP: np.full((16, 2), 3000, np.float32),
    }
    report = accept(bundle, None, one_point, collection, lenient)
    assert report.verdict is Verdict.COLLAPSED
    assert report.health.std_ratio < 0.5


def _linear() -> Array:
    """The tiny encoder's frozen layer, as ``vector = x @ linear.T``; solved against for x."""
    return np.linalg.inv(_weights()[1]).T


def test_a_document_that_rises_across_unrelated_queries_is_rejected(
    bundle: Bundle, collection: GateCollection
) -> None:
    away = np.random.default_rng(0).normal(size=(300, 16)).astype(np.float32)
    away /= np.linalg.norm(away, axis=1, keepdims=True)
    wide = dataclasses.replace(
        collection,
        document_ids=[*collection.document_ids, *(f"away{i}" for i in range(300))],
        document_vectors=np.concatenate([collection.document_vectors, away]),
    )
    lenient = GateSettings(
        least_gain=-1.0, least_mean=-1.0, least_low=-1.0, least_spread=0.0, least_rank=0.0
    )
    # Towards one of the documents that no query has to do with, whatever the query was.
    weights = np.linalg.lstsq(_linear(), away[0], rcond=None)[0]
    planted = {
        DOWN: np.stack([weights, weights]).astype(np.float32),
        UP: np.full((16, 2), 3000, np.float32),
    }
    report = accept(bundle, None, planted, wide, lenient)
    assert report.verdict is Verdict.DOCUMENT_ROSE
    assert report.risen.queries >= 30  # of 45
    assert repr(report.risen.document) in report.detail
    found = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert found["risen"]["document"] == report.risen.document
    anyway = dataclasses.replace(lenient, most_risen=1.0)
    assert accept(bundle, None, planted, wide, anyway).accepted
    assert accept(bundle, None, slightly(default_adapter(), 0.01), wide, lenient).accepted


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e6])  # the last one in float16 only
def test_values_that_are_not_finite_are_a_rejected_candidate(
    bundle: Bundle, collection: GateCollection, value: float
) -> None:
    new = default_adapter() | {UP: np.full((16, 2), value, np.float32)}
    report = accept(bundle, None, new, collection)
    assert report.verdict is Verdict.NOT_FINITE
    assert math.isnan(report.sets["clean"].after)
    found = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert found["after"] is found["low"] is found["std_ratio"] is None


def test_an_adapter_of_another_encoder_is_an_error(
    bundle: Bundle, collection: GateCollection
) -> None:
    wide = {DOWN: np.zeros((3, 16), np.float32), UP: np.zeros((16, 3), np.float32)}
    with pytest.raises(CorruptArtifactError, match="the encoder takes"):
        accept(bundle, None, wide, collection)
    with pytest.raises(CorruptArtifactError, match="lacks the tensors"):
        accept(bundle, None, {UP: trained_adapter()[UP]}, collection)


def test_the_report_is_plain_json(bundle: Bundle, collection: GateCollection) -> None:
    report = accept(bundle, None, slightly(default_adapter(), 0.01), collection)
    found = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert found["accepted"] is report.accepted
    assert found["metric"] == "ndcg@10"
    shown = report.sets["clean"]
    assert found["set"] == "clean"
    assert (found["before"], found["after"]) == (shown.before, shown.after)
    assert (found["low"], found["high"]) == (shown.difference.low, shown.difference.high)
    assert found["effective_rank"] == report.health.effective_rank
    assert found["settings"] == dataclasses.asdict(GateSettings())


def test_a_gate_that_is_used_again_gives_what_a_fresh_one_gives(
    bundle: Bundle, collection: GateCollection
) -> None:
    gate = Gate(bundle, collection)
    adapters: list[Any] = [None, *(slightly(default_adapter(), 0.02 * i) for i in range(1, 4))]
    for old, new in itertools.pairwise(adapters):
        assert gate.judge(old, new) == accept(bundle, old, new, collection)
        assert len(gate._known) <= 3


@pytest.mark.parametrize(
    ("difference", "from_shipped", "health", "verdict"),
    [
        (Interval(0.01, 0.001, 0.02), 0.0, SOUND, Verdict.ACCEPTED),
        (Interval(0.01, 1e-9, 0.02), -0.003, SOUND, Verdict.ACCEPTED),
        (Interval(0.01, 0.0, 0.02), 0.0, SOUND, Verdict.NO_GAIN),
        (Interval(-0.003, -0.01, 0.02), -0.003, SOUND, Verdict.NO_GAIN),
        (Interval(-0.0031, -0.004, 0.0), 0.0, SOUND, Verdict.MEAN_FELL),
        (Interval(0.0, -0.0101, 0.01), 0.0, SOUND, Verdict.MAY_HAVE_FALLEN),
        (Interval(0.0, 0.0, 0.0), -0.0031, SOUND, Verdict.FELL_FROM_SHIPPED),
        (Interval(0.1, 0.1, 0.1), 0.1, {"spread_kept": 0.49}, Verdict.COLLAPSED),
        (Interval(0.1, 0.1, 0.1), 0.1, {"rank_kept": 0.49}, Verdict.RANK_FELL),
    ],
)
def test_every_verdict_at_its_limit(
    difference: Interval, from_shipped: float, health: Any, verdict: Verdict
) -> None:
    found = health if isinstance(health, Health) else dataclasses.replace(SOUND, **health)
    one = Comparison(0.0, from_shipped, 0.0, difference)
    assert verdict_on({"clean": one}, found, GateSettings())[0] is verdict


@pytest.mark.parametrize(
    ("clean", "mistyped", "verdict"),
    [
        (Interval(0.0, -0.002, 0.002), Interval(0.02, 0.01, 0.03), Verdict.ACCEPTED),
        (Interval(0.01, 0.001, 0.02), Interval(0.0, -0.004, 0.004), Verdict.ACCEPTED),
        (Interval(0.0, -0.002, 0.002), Interval(0.0, -0.01, 0.03), Verdict.NO_GAIN),
        (Interval(-0.004, -0.006, 0.0), Interval(0.02, 0.01, 0.03), Verdict.MEAN_FELL),
        (Interval(0.0, -0.011, 0.011), Interval(0.02, 0.01, 0.03), Verdict.MAY_HAVE_FALLEN),
        (Interval(0.01, 0.001, 0.02), Interval(-0.02, -0.03, -0.01), Verdict.MEAN_FELL),
    ],
)
def test_one_set_must_gain_and_none_may_lose(
    clean: Interval, mistyped: Interval, verdict: Verdict
) -> None:
    sets = {
        "clean": Comparison(0.5, 0.5, 0.5, clean),
        "mistyped": Comparison(0.4, 0.4, 0.4, mistyped),
    }
    assert verdict_on(sets, SOUND, GateSettings())[0] is verdict


def test_mistyped_queries_are_scored_as_the_mean_of_their_typings(
    bundle: Bundle, collection: GateCollection
) -> None:
    texts = [query.text for query in collection.queries]
    worse = [text[1:] for text in texts]
    new = slightly(default_adapter(), 0.05)

    def found(typings: Any, **more: Any) -> AcceptanceReport:
        return accept(bundle, None, new, dataclasses.replace(collection, typings=typings, **more))

    both = found([texts, worse])
    assert list(both.sets) == ["clean", "mistyped"]
    one, other = (found([typing], judges_clean=False) for typing in (texts, worse))
    assert list(other.sets) == ["mistyped"]
    assert one.sets["mistyped"] == both.sets["clean"]
    assert both.sets["mistyped"].after == pytest.approx(
        (one.sets["mistyped"].after + other.sets["mistyped"].after) / 2
    )
    as_json = json.loads(json.dumps(both.to_dict(), allow_nan=False))
    assert as_json["mistyped"]["after"] == both.sets["mistyped"].after
    assert (as_json["set"], other.to_dict()["set"]) == ("clean", "mistyped")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": "accuracy"}, "ndcg@10"),
        ({"least_spread": 2}, "least_spread is 2"),
        ({"most_risen": -1}, "most_risen is -1"),
        ({"least_mean": 3}, "least_mean is 3"),
        ({"least_gain": -2}, "least_gain is -2"),
        ({"least_low": math.nan}, "least_low is nan"),
        ({"confidence": 1}, "confidence is 1"),
        ({"samples": 0}, "samples is 0"),
    ],
)
def test_settings_out_of_range_are_refused(options: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        GateSettings(**options)


def test_a_collection_that_cannot_judge_is_refused(
    bundle: Bundle, collection: GateCollection
) -> None:
    with pytest.raises(InvalidInputError, match="none of the gate's 45 queries"):
        dataclasses.replace(collection, judgements={"other": {"d0": 1}, "0": {"d0": 0}})
    with pytest.raises(InvalidInputError, match="one row for each of the 2 document ids"):
        dataclasses.replace(collection, document_ids=["a", "b"])
    for wrong in ({"typings": [["a", "b"]]}, {"judges_clean": False}):
        with pytest.raises(InvalidInputError, match="one of each query in every typing"):
            dataclasses.replace(collection, **wrong)
    narrow = dataclasses.replace(collection, document_vectors=collection.document_vectors[:, :8])
    with pytest.raises(InvalidInputError, match="8 dimensions, the bundle 'tiny' has 16"):
        Gate(bundle, narrow)


def test_queries_nobody_judged_do_not_count_as_misses(
    bundle: Bundle, collection: GateCollection, tmp_path: Path
) -> None:
    more = dataclasses.replace(
        collection, queries=[*collection.queries, Query("unjudged", "the sea")]
    )
    assert accept(bundle, None, default_adapter(), more).queries == 45
