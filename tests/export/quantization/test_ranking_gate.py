from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest

from pocketquery.export.graph_editing import GraphEditor
from pocketquery.export.onnx_graph import build_graph
from pocketquery.export.quantization.quantization import quantizable_matmuls, quantize
from pocketquery.export.quantization.ranking_gate import GateData, GateStep, pass_gate
from pocketquery.export.settings import GateThresholds
from pocketquery.sdk.errors import ArtifactError, InvalidInputError
from pocketquery.server.corpus import Query
from pocketquery.server.modeling import SentenceEncoder
from tests.tiny_models import bert_teacher, sentences

LOOSE = GateThresholds(overlap=0.5, ndcg_loss=0.5)


@pytest.fixture(scope="module")
def data(student: SentenceEncoder) -> GateData:
    texts = sentences(200)
    return GateData(
        queries=[Query(f"q{i}", text) for i, text in enumerate(texts[:60])],
        document_ids=[f"d{i}" for i in range(200)],
        document_vectors=student.encode(texts),
        judgements={f"q{i}": {f"d{i}": 1} for i in range(60)},
    )


def test_passes_at_once_where_int8_ranks_well(
    float_model: onnx.ModelProto, data: GateData, token_ids: list[list[int]]
) -> None:
    steps: list[GateStep] = []
    model, report = pass_gate(
        float_model,
        lambda excluded: quantize(float_model, excluded=excluded),
        quantizable_matmuls(float_model),
        data,
        token_ids,
        token_ids[::3],
        LOOSE,
        on_step=steps.append,
    )
    assert report.steps == tuple(steps)
    assert len(steps) == 1
    assert report.last.excluded == ()
    assert not quantizable_matmuls(model)
    assert report.float_ndcg == 1.0  # every query is a document, so float finds itself first
    assert report.last.ndcg is not None
    assert 0.5 < report.last.overlap <= 1
    assert report.to_dict()["steps"][0]["overlap"] == report.last.overlap


def test_the_most_harmful_matmul_goes_back_to_float_first(
    float_model: onnx.ModelProto, data: GateData, token_ids: list[list[int]]
) -> None:
    names = quantizable_matmuls(float_model)
    culprit = names[7]

    def quantize_with_damage(excluded: Sequence[str]) -> onnx.ModelProto:
        """int8 everywhere, and the culprit's weights ruined unless it is left in float."""
        source = onnx.ModelProto()
        source.CopyFrom(float_model)
        if culprit not in excluded:
            editor = GraphEditor(source)
            weight = next(n.input[1] for n in editor.nodes("MatMul") if n.name == culprit)
            noise = np.random.default_rng(0).normal(0, 0.5, editor.array(weight).shape)
            editor.store(weight, editor.array(weight) + noise.astype(np.float32))
        return quantize(source, excluded=excluded)

    model, report = pass_gate(
        float_model,
        quantize_with_damage,
        names,
        data,
        token_ids,
        [token_ids[0]],
        GateThresholds(0.8, 0.05, -1.0),
    )
    assert report.last.excluded == (culprit,)
    assert [len(step.excluded) for step in report.steps] == [0, 1]
    assert report.steps[0].overlap < 0.8 <= report.last.overlap
    assert quantizable_matmuls(model) == [culprit]


def test_a_text_that_only_calibration_missed_fails_the_gate(
    float_model: onnx.ModelProto, data: GateData, token_ids: list[list[int]]
) -> None:
    names = quantizable_matmuls(float_model)
    unseen = [2, 6, 6, 3]  # a letter that no query has alone
    assert not any(6 in ids for ids in token_ids)

    def quantize_with_damage(excluded: Sequence[str]) -> onnx.ModelProto:
        """int8 that gives the piece another vector unless the fourth MatMul is left in float."""
        source = onnx.ModelProto()
        source.CopyFrom(float_model)
        if names[3] not in excluded:
            editor = GraphEditor(source)
            (table,) = (name for name in tables(source) if "word_embeddings" in name)
            rows = editor.array(table).copy()
            rows[6] = -3 * rows[6][::-1]
            editor.store(table, rows)
        return quantize(source, excluded=excluded)

    held_out = [*token_ids[::9], unseen]
    _, report = pass_gate(
        float_model, quantize_with_damage, names, data, token_ids, held_out, LOOSE
    )
    assert report.last.excluded == (names[3],)
    first = report.steps[0]
    assert first.overlap > LOOSE.overlap  # the queries alone would have let it pass
    assert first.cosine_min < 0.95 < report.last.cosine_min
    _, unaware = pass_gate(
        float_model, quantize_with_damage, names, data, token_ids, token_ids, LOOSE
    )
    assert unaware.last.excluded == ()


def tables(model: onnx.ModelProto) -> list[str]:
    return [initialiser.name for initialiser in model.graph.initializer]


def test_impossible_thresholds_exclude_everything_and_then_fail(
    float_model: onnx.ModelProto, data: GateData, token_ids: list[list[int]]
) -> None:
    names = quantizable_matmuls(float_model)[:3]
    steps: list[GateStep] = []
    with pytest.raises(ArtifactError, match=r"all 3 MatMuls left in float.*Nothing was written"):
        pass_gate(
            float_model,
            lambda excluded: quantize(float_model, excluded=excluded),
            names,
            data,
            token_ids,
            token_ids[::3],
            GateThresholds(overlap=1.0, ndcg_loss=-1.0),
            on_step=steps.append,
        )
    assert [len(step.excluded) for step in steps] == [0, 1, 2, 3]
    assert set(steps[-1].excluded) == set(names)


def test_without_judgements_the_overlap_decides(
    float_model: onnx.ModelProto, data: GateData, token_ids: list[list[int]]
) -> None:
    unjudged = GateData(data.queries, data.document_ids, data.document_vectors)
    _, report = pass_gate(
        float_model,
        lambda excluded: quantize(float_model),
        [],
        unjudged,
        token_ids,
        token_ids,
        LOOSE,
    )
    assert report.float_ndcg is None
    assert report.last.ndcg is None


def test_few_documents_are_ranked_too(
    float_model: onnx.ModelProto, data: GateData, token_ids: list[list[int]]
) -> None:
    few = GateData(data.queries, data.document_ids[:10], data.document_vectors[:10])
    other = build_graph(bert_teacher(layers=2, seed=9))
    with pytest.raises(ArtifactError, match="the ranking gate fails"):
        pass_gate(float_model, lambda excluded: other, [], few, token_ids, token_ids)
    _, report = pass_gate(float_model, lambda excluded: float_model, [], few, token_ids, token_ids)
    assert report.last.overlap == 1


def test_bad_data_is_refused(
    float_model: onnx.ModelProto, data: GateData, token_ids: list[list[int]]
) -> None:
    vectors = data.document_vectors
    with pytest.raises(InvalidInputError, match="no queries"):
        GateData([], data.document_ids, vectors)
    with pytest.raises(InvalidInputError, match="one row for each of the 3"):
        GateData(data.queries, ["a", "b", "c"], vectors)
    with pytest.raises(InvalidInputError, match=r"no query .* has a judgement"):
        GateData(data.queries, data.document_ids, vectors, {"other": {"d0": 1}})
    with pytest.raises(InvalidInputError, match=r"overlap is 1\.5"):
        GateThresholds(overlap=1.5)
    with pytest.raises(InvalidInputError, match="ndcg_loss is nan"):
        GateThresholds(ndcg_loss=float("nan"))
    narrow = GateData(data.queries, data.document_ids, vectors[:, :32])
    with pytest.raises(InvalidInputError, match="32 dimensions, the student's 64"):
        pass_gate(float_model, lambda excluded: float_model, [], narrow, token_ids, token_ids)
