from __future__ import annotations

import numpy as np
import onnx
import pytest
from torch import nn

from pocketquery.export.onnx_graph import build_graph
from pocketquery.export.parity import check_graph
from pocketquery.export.sessions import GraphSession
from pocketquery.export.settings import GraphOptions
from pocketquery.sdk.errors import UnknownModelError
from pocketquery.server.evaluation.diverse_texts import DIVERSE_TEXTS
from pocketquery.server.modeling import SentenceEncoder
from tests.tiny_models import bert_teacher, sentences

TEXTS = [*DIVERSE_TEXTS, *sentences(20)]


@pytest.mark.parametrize("name", ["student", "headed_student", "cls_student", "xlmr_student"])
def test_vectors_equal_torch(name: str, request: pytest.FixtureRequest) -> None:
    student: SentenceEncoder = request.getfixturevalue(name)
    agreement = check_graph(student, GraphSession(build_graph(student)), TEXTS)
    assert agreement.texts == len(TEXTS)
    assert agreement.largest_difference < 1e-5


def test_opset_18_computes_the_same(student: SentenceEncoder) -> None:
    model = build_graph(student, GraphOptions(opset=18))
    check_graph(student, GraphSession(model), TEXTS)
    assert {o.domain: o.version for o in model.opset_import}[""] == 18


def test_vectors_have_unit_length(float_model: onnx.ModelProto, token_ids: list[list[int]]) -> None:
    vectors = GraphSession(float_model).encode(token_ids)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


def test_nothing_is_divided_that_is_normalised_next(
    student: SentenceEncoder, headed_student: SentenceEncoder
) -> None:
    for encoder, divisions in ((student, 1), (headed_student, 2)):
        operators = [node.op_type for node in build_graph(encoder).graph.node]
        assert operators.count("Div") == divisions


def test_a_text_that_is_masked_whole_has_the_zero_vector(student: SentenceEncoder) -> None:
    ids = np.array([[2, 7, 3], [2, 7, 3]], np.int64)
    mask = np.array([[1, 1, 1], [0, 0, 0]], np.int64)
    vectors = GraphSession(build_graph(student)).encode_batch(ids, mask)
    assert np.isclose(np.linalg.norm(vectors[0]), 1)
    assert not vectors[1].any()


def test_the_same_student_gives_the_same_bytes(student: SentenceEncoder) -> None:
    first, second = (build_graph(student).SerializeToString(deterministic=True) for _ in range(2))
    assert first == second


def test_tanh_and_relu_heads() -> None:
    head = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64, bias=False), nn.ReLU())
    student = bert_teacher(layers=1, head=head)
    check_graph(student, GraphSession(build_graph(student)), sentences(10))


def test_unsupported_heads_are_named() -> None:
    with pytest.raises(UnknownModelError, match="SiLU"):
        build_graph(bert_teacher(layers=1, head=nn.Sequential(nn.SiLU())))
    with pytest.raises(UnknownModelError, match="approximation"):
        build_graph(bert_teacher(layers=1, head=nn.Sequential(nn.GELU(approximate="tanh"))))


def test_unsupported_poolings_are_named() -> None:
    with pytest.raises(UnknownModelError, match=r'pooling "eos".* cannot be exported'):
        build_graph(bert_teacher(layers=1, pooling="eos"))
