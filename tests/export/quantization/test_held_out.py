from __future__ import annotations

from pathlib import Path

import pytest

from pocketquery.export.quantization.held_out import split_texts
from pocketquery.sdk.tokenizers.tokenizer import Tokenizer
from pocketquery.server.modeling.tokenizer_file import tokenizer_file
from tests.tiny_models import wordpiece_tokenizer, xlmr_teacher


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return tokenizer_file(wordpiece_tokenizer()).open(48)


@pytest.mark.parametrize(
    ("calibration", "queries", "run", "given"),
    [
        (3000, 0, 512, 512),
        (512, 500, 512, 500),  # the queries are enough
        (512, 0, 410, 102),  # a fifth is held out
        (100, 0, 80, 20),
        (10, 0, 8, 2),
        (4, 0, 4, 0),
        (1, 0, 1, 0),
    ],
)
def test_how_many_texts_are_run_and_held_out(
    calibration: int, queries: int, run: int, given: int, tokenizer: Tokenizer
) -> None:
    split = split_texts(
        [f"text {i}" for i in range(calibration)],
        [f"query {i}" for i in range(queries)],
        tokenizer,
        most=512,
    )
    assert (len(split.calibration), len(split.supplied)) == (run, given)
    assert len(split.generated) > 100
    assert not set(split.calibration) & set(split.held_out)
    assert len(set(split.held_out)) == len(split.held_out)


def test_a_text_that_is_given_often_is_one_text(tokenizer: Tokenizer) -> None:
    split = split_texts(["water"] * 600, ["water", "sky"], tokenizer, most=512)
    assert split.calibration == ["water"]
    assert split.supplied == ["sky"]


def test_queries_that_are_the_calibration_texts_are_not_held_out_unless_they_are_not_run(
    tokenizer: Tokenizer,
) -> None:
    texts = [f"text {i}" for i in range(50)]
    split = split_texts(texts, texts, tokenizer, most=512)
    assert len(split.calibration) == 40
    assert sorted(split.calibration + split.supplied) == sorted(texts)


def test_generated_texts_are_of_pieces_of_the_vocabulary(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    sentencepiece = tokenizer_file(xlmr_teacher(tmp_path).tokenizer).open(48)
    for opened in (tokenizer, sentencepiece):
        generated = split_texts(["water"], [], opened, most=1).generated
        assert generated == split_texts(["water"], [], opened, most=1).generated
        ids = {number for text in generated for number in opened.encode(text)}
        assert len(ids) > 0.6 * opened.vocabulary_size
