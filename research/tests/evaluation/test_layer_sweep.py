from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.modeling import SentenceEncoder
from pocketquery_research.evaluation.layer_sweep import (
    LayerAndPooling,
    encoder_at,
    layer_sweep,
    layer_vectors,
)
from tests.tiny_models import bert_teacher, electra_teacher, sentences, xlmr_teacher

TEXTS = [*sentences(9), "water", "a long one of the river mountain king battle light plant sugar"]


def unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths: NDArray[np.float32] = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / lengths


def test_the_last_layer_is_the_encoder_itself() -> None:
    encoder = bert_teacher(layers=2)
    found = layer_vectors(encoder, TEXTS, batch_size=4)
    assert set(found) == {LayerAndPooling(k, p) for k in range(3) for p in ("mean", "cls")}
    np.testing.assert_allclose(
        unit(found[LayerAndPooling(2, "mean")]), encoder.encode(TEXTS), atol=1e-5
    )


def test_padding_does_not_reach_any_layer() -> None:
    encoder = bert_teacher(layers=2)
    together = layer_vectors(encoder, TEXTS, batch_size=len(TEXTS))
    alone = layer_vectors(encoder, TEXTS, batch_size=1)
    for reading, vectors in together.items():
        np.testing.assert_allclose(vectors, alone[reading], atol=1e-5)


def test_the_sweep_scores_each_reading() -> None:
    encoder = bert_teacher(layers=1)
    scores = layer_sweep(encoder, TEXTS, TEXTS)
    assert scores[LayerAndPooling(1, "mean")].accuracy == 1
    assert scores[LayerAndPooling(0, "cls")].accuracy == pytest.approx(1 / len(TEXTS))


@pytest.mark.parametrize("family", ["bert", "electra", "xlmr"])
def test_an_encoder_cut_at_a_layer_gives_that_layers_vectors(family: str, tmp_path: Path) -> None:
    made = {"bert": bert_teacher, "electra": electra_teacher}
    encoder = made[family]() if family in made else xlmr_teacher(tmp_path / "xlmr")
    for reading in (LayerAndPooling(1, "mean"), LayerAndPooling(2, "cls")):
        cut = encoder_at(encoder, reading)
        expected = unit(layer_vectors(encoder, TEXTS)[reading])
        np.testing.assert_allclose(cut.encode(TEXTS), expected, atol=1e-5)
    cut.save(tmp_path / "cut")
    again = SentenceEncoder.load(tmp_path / "cut")
    np.testing.assert_allclose(again.encode(TEXTS), expected, atol=1e-5)


def test_there_is_no_such_layer() -> None:
    with pytest.raises(InvalidInputError, match="one of its 3 layers"):
        encoder_at(bert_teacher(), LayerAndPooling(4, "mean"))
    with pytest.raises(InvalidInputError, match="layer 0"):
        encoder_at(bert_teacher(), LayerAndPooling(0, "mean"))
