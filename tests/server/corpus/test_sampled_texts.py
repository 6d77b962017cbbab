from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.corpus import Group, GroupList
from pocketquery.server.corpus.new_tokenizer import language_quotas, sampled_texts


def test_quotas_by_hand() -> None:
    """16 and 1 texts at exponent 1/2 have shares 4/5 and 1/5."""
    counts = np.array([16, 1, 0])
    assert language_quotas(counts, 10, 0.5).tolist() == [8, 2, 0]
    assert language_quotas(counts, 1000, 0.5).tolist() == [14, 3, 0]  # 17 texts there are
    assert language_quotas(counts, 17, 1.0).tolist() == [16, 1, 0]
    assert language_quotas(counts, 10, 0.0).tolist() == [5, 5, 0]
    assert language_quotas(np.array([0]), 10, 0.3).tolist() == [0]


def test_a_small_language_is_heard_again_and_a_large_one_in_part() -> None:
    groups = [Group(f"e{i}", (f"e{i}a", f"e{i}b"), lang="en") for i in range(32)]
    groups += [Group(f"d{i}", (f"d{i}",), lang="de") for i in range(4)]
    source = GroupList(groups, "documents")
    texts = Counter(sampled_texts(source, most_texts=40, exponent=0.5))
    assert sum(texts.values()) == 40
    english = {text: count for text, count in texts.items() if text.startswith("e")}
    assert len(english) == sum(english.values()) == 32  # 64 and 4 texts: 8 to 2
    assert {text: count for text, count in texts.items() if text.startswith("d")} == {
        f"d{i}": 2 for i in range(4)
    }


def test_the_seed_alone_decides_the_order() -> None:
    source = GroupList([Group(str(i), (str(i),)) for i in range(50)], "queries")
    one, again, other = (
        list(sampled_texts(source, most_texts=50, exponent=0.3, seed=seed)) for seed in (1, 1, 2)
    )
    assert one == again != other
    assert sorted(one) == sorted(other)


def test_groups_without_texts_end_nothing() -> None:
    source = GroupList([Group("a", ()), Group("b", ("x",)), Group("c", ())], "documents")
    assert list(sampled_texts(source, most_texts=5, exponent=0.3)) == ["x"]
    assert list(sampled_texts(GroupList([], "queries"), most_texts=5, exponent=0.3)) == []


@pytest.mark.parametrize(("most", "exponent"), [(0, 0.3), (1, -0.1), (1, 1.1)])
def test_settings_out_of_range(most: int, exponent: float) -> None:
    with pytest.raises(InvalidInputError, match="expected 0 to 1, and at least 1"):
        language_quotas(np.array([1]), most, exponent)
