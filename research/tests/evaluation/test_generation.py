"""What a model that knows sentences by heart writes is what stood there, and a word more is not."""

from __future__ import annotations

import pytest

from pocketquery.sdk.errors import InvalidInputError
from pocketquery_research.evaluation.generation import blank_scores, title_scores, word_f1
from pocketquery_research.objectives.infilling import Infiller
from research.tests.infilling_model import FACTS, infilling_model


@pytest.fixture(scope="module")
def infiller(tmp_path_factory: pytest.TempPathFactory) -> Infiller:
    return Infiller.load(infilling_model(tmp_path_factory.mktemp("gur") / "model"))


@pytest.mark.parametrize(
    ("written", "expected", "f1"),
    [
        ("the castle", "The castle.", 1.0),
        ("castle", "the castle", 2 / 3),
        ("the the", "the castle", 0.5),
        ("sugar", "castle", 0.0),
        ("", "castle", 0.0),
        ("", "...", 1.0),
    ],
)
def test_the_f1_of_words(written: str, expected: str, f1: float) -> None:
    assert word_f1(written, expected) == pytest.approx(f1)


def test_blanks_of_what_is_known_by_heart_and_of_what_is_not(infiller: Infiller) -> None:
    known = blank_scores(infiller, FACTS, words=1, seed=3)
    unknown = blank_scores(infiller, ["water battle the sugar the oxygen king"] * 4, words=1)
    assert known.shape == unknown.shape == (4,)
    assert known.mean() > unknown.mean() + 0.3


def test_texts_are_read_as_far_as_they_fit_and_short_ones_left_out(infiller: Infiller) -> None:
    long = " ".join(FACTS * 9)
    assert infiller.readable(long).split() == long.split()[: len(infiller.readable(long).split())]
    assert 10 < len(infiller.readable(long).split()) < len(long.split())
    assert blank_scores(infiller, [long, "water sugar"]).shape == (1,)
    assert blank_scores(infiller, []).shape == (0,)
    with pytest.raises(InvalidInputError, match="words is 0"):
        blank_scores(infiller, FACTS, words=0)


def test_titles(infiller: Infiller) -> None:
    titles = [fact.split()[-1] for fact in FACTS]
    assert title_scores(infiller, titles, FACTS).tolist() == [1.0] * 4
    assert title_scores(infiller, titles[::-1], FACTS).tolist() == [0.0] * 4
