from __future__ import annotations

import numpy as np
import pytest

from pocketquery.sdk.counts import check_count
from pocketquery.sdk.errors import InvalidInputError


def test_whole_numbers_pass_as_int() -> None:
    for value in (1, 7, np.int64(7), np.uint8(7)):
        assert type(check_count(value, "k", most=7)) is int


@pytest.mark.parametrize("value", [0, -3, 8, 2.5, "3", None, [1], np.float32(2)])
def test_what_is_none_is_named(value: object) -> None:
    with pytest.raises(InvalidInputError, match=r"k is .*, expected a whole number from 1 to 7"):
        check_count(value, "k", most=7)
