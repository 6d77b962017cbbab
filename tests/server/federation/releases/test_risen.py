from __future__ import annotations

import pytest

from pocketquery.server.federation.releases.risen import DEPTH, Risen, most_risen

NEAR = [f"near{i}" for i in range(DEPTH)]
NOTHING: frozenset[str] = frozenset()


def test_what_was_near_may_be_reordered() -> None:
    assert most_risen([NEAR] * 3, [NEAR[::-1]] * 3, [NOTHING] * 3) == Risen()


def test_a_document_from_afar_is_counted_once_a_query() -> None:
    planted = ["far", *NEAR]
    after = [planted, planted, NEAR, planted]
    assert most_risen([NEAR] * 4, after, [NOTHING] * 4) == Risen("far", 3, 0.75)


def test_what_is_relevant_may_rise_from_anywhere() -> None:
    after = [["found", *NEAR]] * 2
    assert most_risen([NEAR] * 2, after, [{"found"}, {"found"}]) == Risen()
    assert most_risen([NEAR] * 2, after, [{"found"}, NOTHING]).queries == 1


@pytest.mark.parametrize(("place", "counts"), [(9, 1), (10, 0)])
def test_only_what_is_shown_counts(place: int, counts: int) -> None:
    after = [*NEAR[:place], "far", *NEAR[place:]]
    assert most_risen([NEAR], [after], [NOTHING]).queries == counts


def test_what_stood_deeper_than_the_first_hundred_is_from_afar() -> None:
    assert most_risen([[*NEAR, "deep"]], [["deep", *NEAR]], [NOTHING]).document == "deep"


def test_of_equals_the_first_by_name_is_told() -> None:
    after = [["b", "a", *NEAR]]
    assert most_risen([NEAR], after, [NOTHING]) == Risen("a", 1, 1.0)
