from __future__ import annotations

import numpy as np
import onnx
import pytest

from pocketquery.export.graph_editing import GraphEditor
from pocketquery.export.parity import (
    check_graph,
    check_tokenizer,
    row_cosines,
)
from pocketquery.export.sessions import GraphSession
from pocketquery.sdk.errors import ArtifactError, UnknownModelError
from pocketquery.server.evaluation.diverse_texts import DIVERSE_TEXTS
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.tokenizer_file import tokenizer_file
from tests.tiny_models import sentences


def test_a_graph_that_computes_something_else_is_caught(
    student: SentenceEncoder, float_model: onnx.ModelProto
) -> None:
    broken = onnx.ModelProto()
    broken.CopyFrom(float_model)
    editor = GraphEditor(broken)
    bias = editor.array("layers.0.query.bias").copy()
    editor.store("layers.0.query.bias", bias + np.linspace(0, 1, bias.size, dtype=np.float32))
    with pytest.raises(ArtifactError, match="does not compute what the student computes"):
        check_graph(student, GraphSession(broken), sentences(8))


@pytest.mark.parametrize("name", ["student", "xlmr_student"])
def test_the_device_tokenizer_gives_the_ids_of_the_student(
    name: str, request: pytest.FixtureRequest
) -> None:
    student: SentenceEncoder = request.getfixturevalue(name)
    tokenizer = tokenizer_file(student.tokenizer).open(student.max_length)
    check_tokenizer(student, tokenizer, [*DIVERSE_TEXTS, *sentences(50)])


def test_other_ids_are_caught(student: SentenceEncoder) -> None:
    shorter = tokenizer_file(student.tokenizer).open(5)
    with pytest.raises(ArtifactError, match="the device's tokenizer gives"):
        check_tokenizer(student, shorter, sentences(3))


def test_padding_and_truncation_of_the_last_call_do_not_reach_the_file(
    student: SentenceEncoder,
) -> None:
    before = tokenizer_file(student.tokenizer).data
    student.tokenizer(["a", "a b c"], padding=True, truncation=True, max_length=3)
    assert tokenizer_file(student.tokenizer).data == before


def test_a_lost_sentencepiece_model_is_named(xlmr_student: SentenceEncoder) -> None:
    kept = xlmr_student.tokenizer.vocab_file
    xlmr_student.tokenizer.vocab_file = "gone.model"
    try:
        with pytest.raises(UnknownModelError, match=r"sentencepiece\.bpe\.model"):
            tokenizer_file(xlmr_student.tokenizer)
    finally:
        xlmr_student.tokenizer.vocab_file = kept


def test_cosines_by_hand() -> None:
    left = np.array([[1, 0], [0.6, 0.8]], np.float32)
    right = np.array([[0, 1], [0.6, 0.8]], np.float32)
    np.testing.assert_allclose(row_cosines(left, right), [0, 1], atol=1e-7)
