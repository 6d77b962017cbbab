"""What a device says of its training, and what a server takes of it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketquery.client.figures import LARGEST_FIGURE, figures_text, parse_figures, readable

NUMBERS = st.integers() | st.floats() | st.booleans() | st.text(max_size=3) | st.none()
VALUES = st.dictionaries(st.sampled_from(["loss", "drift", "more"]), NUMBERS)


@given(st.none() | st.text(max_size=250) | VALUES.map(json.dumps))
def test_a_header_gives_bounded_numbers_or_nothing(text: str | None) -> None:
    figures = parse_figures(text)
    assert set(figures) <= {"loss", "drift"}
    assert all(abs(value) <= LARGEST_FIGURE for value in figures.values())


def test_figures_are_read_back() -> None:
    figures = {"loss": 0.5, "drift": 0.25}
    assert parse_figures(figures_text(figures | {"queries": 3.0})) == figures


@pytest.mark.parametrize("value", [True, "1", None, float("nan"), float("inf"), 1e3 + 1])
def test_what_no_device_sends_is_dropped(value: object) -> None:
    assert readable({"loss": value, "drift": 1}) == {"drift": 1.0}
