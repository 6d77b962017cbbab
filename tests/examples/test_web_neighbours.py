"""Two search pages on one origin, each under its own path: neither touches what the other keeps."""

from __future__ import annotations

from typing import Any

import pytest

from tests.examples.test_web import TRAINING, make_learning_index
from tests.examples.web_scripts import browser, built, seen

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), built, browser]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What web_neighbours.mjs saw."""
    folder = tmp_path_factory.mktemp("neighbours")
    indexes = {"a": make_learning_index(folder / "a"), "b": make_learning_index(folder / "b", 40)}
    return seen(
        "web_neighbours.mjs",
        sites={name: [TRAINING, index] for name, index in indexes.items()},
        query="water oxygen of the castle",
    )


def test_each_page_goes_on_without_a_network(found: Any) -> None:
    assert found["errors"] == []
    a, b = found["a"], found["b"]
    assert a["documents"].startswith("90 (")
    assert b["documents"].startswith("40 (")
    assert found["anew"] == b  # everything was forgotten there, and fetched again
    assert found["offline"]["a"] == {**a, "asks": False}
    assert found["offline"]["b"] == b


def test_who_agrees_on_one_page_has_not_agreed_on_the_other(found: Any) -> None:
    assert found["a"]["asks"]
    assert found["b"]["asks"]
    assert not found["offline"]["a"]["asks"]
    assert found["offline"]["b"]["asks"]


def test_of_what_an_earlier_version_kept_each_page_deletes_its_own(found: Any) -> None:
    assert found["leftByA"] == ["/b/sha256/older"]
    assert found["leftByB"] == []
