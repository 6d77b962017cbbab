"""Batches as a pure function of their number: every group, once an epoch, in like company."""

from __future__ import annotations

import numpy as np
import pytest

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.corpus.groups import Group, GroupList
from pocketquery.server.pretraining.batching import BatchPlan, token_costs
from tests.server.pretraining.small_run import documents
from tests.tiny_models import wordpiece_tokenizer


def uneven(count: int = 100, lang: str = "") -> list[Group]:
    """Documents of 1 to 20 words and of 1 or 2 texts."""
    return [
        Group(f"{lang}{i}", ("water " * (i * 7 % 20 + 1), "rock")[: i % 2 + 1], lang=lang)
        for i in range(count)
    ]


def plan(source: GroupList, **options: object) -> BatchPlan:
    settings = {"batch_size": 8, **options}
    return BatchPlan(source, source.lengths(), **settings)  # type: ignore[arg-type]


def test_an_epoch_has_every_group_once_but_for_the_short_last_batch() -> None:
    batches = plan(documents(100))
    epoch = np.concatenate([batches.rows(number) for number in range(12)])
    assert len(epoch) == 96
    assert len(set(epoch.tolist())) == 96


def test_what_an_epoch_leaves_out_is_drawn_at_random_and_not_the_longest() -> None:
    source = GroupList(uneven(20), "documents")
    batches = plan(source)
    seen = {int(row) for number in range(40) for row in batches.rows(number)}
    assert seen == set(range(20))


def test_the_next_epoch_has_another_order_and_another_company() -> None:
    batches = plan(documents(96))
    first, second = (
        {frozenset(batches.rows(e * 12 + n).tolist()) for n in range(12)} for e in (0, 1)
    )
    assert first != second


def test_a_batch_is_the_same_whatever_was_asked_before() -> None:
    source = GroupList(uneven(), "documents")
    for options in ({}, {"budget": 300}):
        asked = plan(source, **options)
        in_order = [asked.rows(number) for number in range(60)]
        for number in (59, 0, 31):
            np.testing.assert_array_equal(plan(source, **options).rows(number), in_order[number])


def test_groups_of_a_batch_are_of_like_length() -> None:
    source = GroupList(uneven(2000), "documents")
    lengths = source.lengths()
    batches = plan(source)
    waste = np.mean(
        [1 - lengths[rows].mean() / lengths[rows].max() for rows in map(batches.rows, range(50))]
    )
    shuffled = np.random.default_rng(0).permutation(len(source))[:400].reshape(50, 8)
    assert waste < 0.1
    assert np.mean([1 - lengths[r].mean() / lengths[r].max() for r in shuffled]) > 0.3


def test_groups_with_too_few_texts_are_never_taken() -> None:
    source = GroupList(uneven(), "documents")
    batches = plan(source, least_texts=2)
    taken = {int(row) for number in range(20) for row in batches.rows(number)}
    assert {source.counts()[row] for row in taken} == {2}
    assert len(taken) >= 48  # an epoch leaves the short last batch out


def test_fewer_groups_than_a_batch_make_a_smaller_one() -> None:
    assert sorted(plan(documents(5)).rows(3)) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("budget", [60, 400])
def test_a_budget_is_kept_and_every_group_is_taken(budget: int) -> None:
    source = GroupList(uneven(), "documents")
    costs = np.minimum(source.lengths(), 100)
    batches = BatchPlan(source, costs, batch_size=8, budget=budget, least_examples=1)
    seen: list[int] = []
    number = 0
    while len(seen) < 100:
        rows = batches.rows(number)
        assert len(rows) == 1 or costs[rows].max() * len(rows) <= budget
        seen += rows.tolist()
        number += 1
    assert sorted(seen) == list(range(100))


def test_a_budget_below_the_least_batch_gives_the_least_batch() -> None:
    source = GroupList(uneven(), "documents")
    batches = plan(source, budget=1, least_examples=2)
    assert {len(batches.rows(number)) for number in range(40)} == {2}


def test_a_batch_is_of_one_language_and_small_languages_are_seen_more_than_they_occur() -> None:
    groups = uneven(900, "en") + uneven(100, "fr") + uneven(1, "sw")
    source = GroupList(groups, "documents")
    batches = plan(source, by_language=True)
    seen = {"en": 0, "fr": 0}
    for number in range(256):
        languages = {source[int(row)].lang for row in batches.rows(number)}
        assert len(languages) == 1
        seen[languages.pop()] += 1
    assert seen == {"en": 192, "fr": 64}  # 30 : 10, the roots of 900 and 100
    assert batches.languages_left_out == {"sw": 1}


def test_without_enough_groups_the_source_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="of 3 documents, 0 have at least 4 texts"):
        plan(documents(3), least_texts=4)
    one_each = GroupList([Group("a", ("x",), lang="a"), Group("b", ("y",), lang="b")], "documents")
    with pytest.raises(InvalidInputError, match="expected at least 2 in one language"):
        plan(one_each, by_language=True)


def test_costs_are_tokens_by_language_and_cut_where_the_objective_cuts() -> None:
    tokenizer = wordpiece_tokenizer()
    groups = [Group(str(i), ("water " * (i + 1),), lang="en") for i in range(30)]
    groups += [Group(f"d{i}", ("1" * (i + 1),), lang="xx") for i in range(30)]
    source = GroupList(groups, "documents")
    costs = token_costs(source, tokenizer, most=20)
    exact = np.array([min(20, len(tokenizer(g.texts[0])["input_ids"])) for g in groups])
    assert np.abs(costs - exact).max() <= 2
    assert costs.max() == 20
