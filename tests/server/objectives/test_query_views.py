"""The views Query-BERT draws, scheme by scheme."""

from __future__ import annotations

import random

import pytest

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.corpus.groups import Group
from pocketquery.server.objectives.query_views import SCHEMES, QueryViews, augmenters_of

QUERY = Group("q", ("how do i prune a young apple tree",), lang="en")
PAIR = Group("p", ("how do i prune a tree", "pruning trees"))


def views(scheme: str) -> QueryViews:
    return QueryViews(scheme, augmenters_of("noise_case"), augmenters_of("shuffle"))


def makers(scheme: str, seed: int = 0) -> list[str]:
    drawn = views(scheme).draw(QUERY, random.Random(seed))
    assert drawn is not None
    return [view.made_by for view in drawn]


def test_every_scheme_draws_what_it_says() -> None:
    assert makers("all_directional") == ["noise_case", "noise_case", "shuffle", "shuffle"]
    assert makers("light") == ["noise_case", "noise_case"]
    drawn = [tuple(makers("all_regular", seed)) for seed in range(200)]
    mixed = sum(pair in (("noise_case", "shuffle"), ("shuffle", "noise_case")) for pair in drawn)
    assert {len(pair) for pair in drawn} == {2}
    assert mixed == pytest.approx(200 * 4 / 6, abs=25)  # 8 of the 12 ordered pairs of four
    assert len(set(drawn)) == 4


def test_heavy_views_come_from_their_light_ones() -> None:
    drawn = views("all_directional").draw(QUERY, random.Random(1))
    assert drawn is not None
    for light, heavy in ((drawn[0], drawn[2]), (drawn[1], drawn[3])):
        assert sorted(light.text.split()) == sorted(heavy.text.split())
    assert any(view.text != view.text.lower() for view in drawn[2:])  # the light one's case


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_views_of_a_pair_are_its_texts(scheme: str) -> None:
    drawn = views(scheme).draw(PAIR, random.Random(0))
    assert drawn is not None
    assert tuple(view.text for view in drawn) == PAIR.texts


@pytest.mark.parametrize("scheme", SCHEMES)
def test_equal_generators_give_equal_views_and_blank_queries_none(scheme: str) -> None:
    draw = views(scheme).draw
    assert draw(QUERY, random.Random(5)) == draw(QUERY, random.Random(5))
    assert draw(Group("q", ("  ",)), random.Random(0)) is None
    assert draw(Group("q", ("a tree", "")), random.Random(0)) is None


def test_augmenters_are_read_from_names_or_json() -> None:
    assert [a.name for a in augmenters_of("shuffle, typo")] == ["shuffle", "typo"]
    named = augmenters_of('["shuffle", {"name": "typo", "rate": 0.5}]')
    assert named[1].rate == 0.5  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ("shuffle,sing", "'sing', expected one of"),
        ("[shuffle", "not JSON"),
        ('[{"name": "typo", "speed": 1}]', "does not take"),
    ],
)
def test_what_is_no_augmenter_is_refused(choices: str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        augmenters_of(choices)


def test_fixed_slots_have_an_augmenter_each() -> None:
    light, heavy = augmenters_of("dropout_view,noise_case"), augmenters_of("shuffle,typo")
    fixed = QueryViews("all_directional", light, heavy, slots="fixed")
    for seed in range(10):
        drawn = fixed.draw(QUERY, random.Random(seed))
        assert drawn is not None
        assert [view.made_by for view in drawn] == ["dropout_view", "noise_case", "shuffle", "typo"]
    two = QueryViews("light", light, heavy, slots="fixed").draw(QUERY, random.Random(0))
    assert two is not None
    assert [view.made_by for view in two] == ["dropout_view", "noise_case"]
    with pytest.raises(InvalidInputError, match="1 light and 2 heavy"):
        QueryViews("light", light[:1], heavy, slots="fixed")


def test_heavy_augmenters_make_no_targets() -> None:
    with pytest.raises(InvalidInputError, match="expected a light augmenter"):
        QueryViews("light", augmenters_of("shuffle"), augmenters_of("shuffle"))
