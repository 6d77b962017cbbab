from __future__ import annotations

import pytest

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.corpus.groups import Group
from pocketquery.server.corpus.mining.length_classes import is_short, of_length

PAIRS = [Group(str(a + b), ("x" * a, "y" * b)) for a, b in ((63, 63), (64, 3), (3, 64), (80, 90))]


def test_a_pair_is_short_where_both_texts_are() -> None:
    assert [is_short(pair) for pair in PAIRS] == [True, False, False, False]


def test_every_pair_is_in_one_class() -> None:
    assert list(of_length(PAIRS, "short")) == PAIRS[:1]
    assert list(of_length(PAIRS, "long")) == PAIRS[1:]
    assert list(of_length(PAIRS, "all")) == PAIRS
    with pytest.raises(InvalidInputError, match="medium"):
        of_length(PAIRS, "medium")
