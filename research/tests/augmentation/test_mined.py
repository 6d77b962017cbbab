from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.modeling import SentenceEncoder
from pocketquery_research.augmentation.mined import Mined
from tests.tiny_models import sentences


def mined(models: Path, **options: Any) -> Mined:
    return Mined(path=str(models / "queries.tsv"), teacher=str(models / "teacher"), **options)


@pytest.mark.parametrize(("least", "most"), [(0.5, 0.95), (0.2, 0.8), (-1.0, 1.0)])
def test_the_nearest_other_query_within_the_band(models: Path, least: float, most: float) -> None:
    queries = list(dict.fromkeys(sentences(60)))
    teacher = SentenceEncoder.load(models / "teacher")
    texts = [*queries[:20], "a castle that is not among them"]
    cosines = teacher.encode(texts) @ teacher.encode(queries).T
    made = mined(models, least=least, most=most).augment_batch(texts, random.Random(0))
    for text, row, view in zip(texts, cosines, made, strict=True):
        near = [
            (-cosine, place)
            for place, cosine in enumerate(row)
            if least <= cosine <= most and queries[place] != text
        ]
        expected = queries[min(near)[1]] if near else text
        assert view.text == expected
        assert view.changed == (view.text != text)


def test_an_empty_band_leaves_the_query(models: Path) -> None:
    text = sentences(60)[0]
    assert not mined(models, least=0.999998, most=0.999999).augment(text, random.Random(0)).changed


def test_blank_queries_are_left_out(models: Path, tmp_path: Path) -> None:
    (tmp_path / "queries.tsv").write_text("1\tthe castle\n2\t\n", encoding="utf-8")
    path, teacher = str(tmp_path / "queries.tsv"), str(models / "teacher")
    one = Mined(path=path, teacher=teacher, least=-1, most=1)
    assert one.augment("geology", random.Random(0)).text == "the castle"


def test_one_of_the_nearest_is_drawn(models: Path) -> None:
    queries = sentences(60)
    one = mined(models, least=-1, most=1, among=3)
    found = {one.augment(queries[5], random.Random(seed)).text for seed in range(40)}
    teacher = SentenceEncoder.load(models / "teacher")
    cosines = teacher.encode(queries) @ teacher.encode([queries[5]])[0]
    assert found == {queries[row] for row in np.argsort(-cosines)[1:4]}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"least": 0.9, "most": 0.5}, "least is 0.9, expected a number from -1 to below 0.5"),
        ({"among": 0}, "among is 0"),
    ],
)
def test_settings_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Mined(path="x", teacher="y", **options)
