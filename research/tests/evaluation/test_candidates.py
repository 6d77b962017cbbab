"""Re-ranking metrics: hand-computed values, ties at chance, what is refused."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketquery.sdk.errors import InvalidInputError
from pocketquery_research.evaluation.candidate_files import read_askubuntu
from pocketquery_research.evaluation.candidates import score_candidates

DATA = Path(os.environ.get("POCKETQUERY_DATA", Path(__file__).resolve().parents[3] / "data"))
ASKUBUNTU = DATA / "askubuntu_ids_only"


def falling(relevance: list[int]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Scores that keep the given order."""
    relevant = np.array(relevance, dtype=bool)
    return [-np.arange(len(relevant), dtype=np.float64)], [relevant]


def test_the_hand_computed_ranking() -> None:
    means = score_candidates(*falling([0, 1, 0, 1, 1])).means()
    assert means["p@1"] == 0
    assert means["p@5"] == pytest.approx(0.6)
    assert means["mrr"] == pytest.approx(0.5)
    assert means["map"] == pytest.approx(0.53333, abs=1e-5)


def test_precision_divides_by_k_even_where_there_are_fewer() -> None:
    assert score_candidates(*falling([1, 1])).means()["p@5"] == pytest.approx(0.4)


def test_queries_without_a_relevant_candidate_are_left_out_and_counted() -> None:
    scores, relevance = falling([1, 0])
    found = score_candidates([*scores, *scores], [*relevance, np.zeros(2, dtype=bool)])
    assert found.left_out == 1
    assert len(found.per_query["map"]) == 1


def test_constant_scores_rank_at_chance() -> None:
    relevance = [np.array([True] + [False] * 9)] * 4000
    found = score_candidates([np.zeros(10)] * 4000, relevance).means()
    assert found["p@1"] == pytest.approx(0.1, abs=0.02)


@given(st.lists(st.tuples(st.integers(-9, 9), st.booleans()), min_size=1, max_size=12))
def test_only_the_order_counts(rows: list[tuple[int, bool]]) -> None:
    scores = np.array([score for score, _ in rows], dtype=np.float64)
    relevant = np.array([r for _, r in rows])
    if not relevant.any():
        return
    one = score_candidates([scores], [relevant]).means()
    assert one == score_candidates([3 * scores + 7], [relevant]).means()
    assert all(0 <= value <= 1 for value in one.values())


def test_askubuntus_first_stage_is_measured_from_its_annotations_alone(tmp_path: Path) -> None:
    """A synthetic file in its format: the candidates are not in the order of their scores."""
    annotations = tmp_path / "dev.txt"
    lines = [
        "1\t12 15\t11 12 13 14 15 16\t9.5 30.25 7.0 8.0 9.0 10.0",  # ranks 1 and 4 of 6
        "2\t23\t21 22 23\t-1 2 -3.5",  # rank 3 of 3
        "3\t\t31 32\t2 1",  # no similar question: left out
        "4\t41 42\t41 42\t1e-3 2e-3",  # all of them
    ]
    annotations.write_text("\n".join(lines) + "\n", encoding="utf-8")
    lists = read_askubuntu(annotations, {})
    found = score_candidates(
        [np.array(one.first_stage) for one in lists], [np.array(one.relevant) for one in lists]
    )
    assert found.left_out == 1
    per_query = {metric: values.tolist() for metric, values in found.per_query.items()}
    assert per_query["map"] == pytest.approx([(1 / 1 + 2 / 4) / 2, 1 / 3, (1 / 1 + 2 / 2) / 2])
    assert per_query["mrr"] == pytest.approx([1, 1 / 3, 1])
    assert per_query["p@1"] == [1, 0, 1]
    assert per_query["p@5"] == pytest.approx([2 / 5, 1 / 5, 2 / 5])
    assert found.means() == pytest.approx(
        {"map": 25 / 36, "mrr": 7 / 9, "p@1": 2 / 3, "p@5": 1 / 3}
    )


@pytest.mark.skipif(not ASKUBUNTU.is_dir(), reason="AskUbuntu's annotations are not here")
@pytest.mark.parametrize(
    ("part", "left_out", "expected"),
    [
        ("dev", 11, {"map": 0.5203, "mrr": 0.6599, "p@1": 0.5185, "p@5": 0.4212}),
        ("test", 14, {"map": 0.5599, "mrr": 0.6803, "p@1": 0.5376, "p@5": 0.4247}),
    ],
)
def test_askubuntus_published_first_stage(
    part: str, left_out: int, expected: dict[str, float]
) -> None:
    """The row of BM25 of Lei et al. (2016): 52.0, 66.0, 51.9, 42.1 and 56.0, 68.0, 53.8, 42.5 %.

    Equal scores stand in the file's order there, where ours are shuffled: scored by that order.
    """
    lists = read_askubuntu(ASKUBUNTU / f"{part}.txt", {})
    order = [-np.arange(len(one.relevant), dtype=np.float64) for one in lists]
    found = score_candidates(order, [np.array(one.relevant) for one in lists])
    assert found.left_out == left_out
    assert found.means() == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize(
    ("scores", "relevance", "message"),
    [
        (np.zeros(2), np.ones(3, dtype=bool), "one of each"),
        (np.array([np.nan, 1.0]), np.ones(2, dtype=bool), "NaN"),
        (np.zeros(2), np.zeros(2, dtype=bool), "no query"),
    ],
)
def test_bad_input_is_named(scores: np.ndarray, relevance: np.ndarray, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        score_candidates([scores], [relevance])
