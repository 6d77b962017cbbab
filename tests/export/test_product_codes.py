from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pocketquery.distill.pruning.product_codes import expand_codes, product_codes
from pocketquery.distill.pruning.product_quantization import expand_vocabulary, quantise_vocabulary
from pocketquery.export.bundle.bundling import export_bundle
from pocketquery.export.onnx_graph import build_graph
from pocketquery.export.parity import check_graph
from pocketquery.export.quantization.quantization import quantize
from pocketquery.export.sessions import GraphSession
from pocketquery.export.settings import ExportOptions, GraphOptions, TrainingOptions
from pocketquery.export.training_step.model import WORDS
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.manifest import TRAINING_STEP_FILE
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.modeling import SentenceEncoder
from tests.distill.pruning.test_product_quantization import table_of, with_rows
from tests.tiny_models import sentences


def quantised_student() -> SentenceEncoder:
    student = with_rows(3000)
    quantise_vocabulary(student, sentences(50), 8, seed=0)
    expand_vocabulary(student)
    return student


@given(
    st.integers(1, 400), st.integers(1, 6), st.integers(1, 8), st.integers(1, 256), st.integers()
)
def test_what_was_coded_is_found_again(
    rows: int, places: int, size: int, values: int, seed: int
) -> None:
    rng = np.random.default_rng(abs(seed))
    centroids = rng.standard_normal((places, values, size)).astype(np.float32)
    numbers = rng.integers(values, size=(rows, places))
    table = np.concatenate([centroids[p][numbers[:, p]] for p in range(places)], axis=1)
    codes, found = product_codes(table, size)
    assert codes.dtype == np.uint8
    assert found.shape == (places * 256, size)
    np.testing.assert_array_equal(expand_codes(codes, found), table)


def test_a_table_that_is_not_made_of_codes_is_refused() -> None:
    student = quantised_student()
    table_of(student)[:300, 5] += torch.linspace(0, 1, 300)  # as further training would
    with pytest.raises(InvalidInputError, match="different values in dimensions 0 to 7"):
        build_graph(student)


def test_the_graph_computes_the_same_from_codes() -> None:
    student = quantised_student()
    graph = build_graph(student)
    check_graph(student, GraphSession(graph), sentences(30))
    assert {t.name: list(t.dims) for t in graph.graph.initializer}["word.codes"] == [3000, 8]
    rounded = quantize(graph)
    ids = [student.tokenizer(text)["input_ids"] for text in sentences(30)]
    cosines = (GraphSession(rounded).encode(ids) * student.encode(sentences(30))).sum(axis=1)
    assert cosines.min() > 0.99
    student.backbone.config.vocabulary_subvector = None
    whole = quantize(build_graph(student))
    assert rounded.ByteSize() < whole.ByteSize() - 3000 * 50


@pytest.mark.parametrize("fine", [1, 500, 2999])
def test_the_first_rows_may_have_codes_of_fewer_dimensions(fine: int) -> None:
    student = with_rows(3000)
    quantise_vocabulary(student, sentences(50), 8, seed=0, fine=fine)
    table = table_of(student)
    assert table.shape == (3000, 64)
    graph = build_graph(student)
    shapes = {t.name: list(t.dims) for t in graph.graph.initializer}
    assert shapes["word.fine.codes"] == [fine, 16]
    assert shapes["word.codes"] == [3000 - fine, 8]
    check_graph(student, GraphSession(graph), sentences(30))


@pytest.mark.slow
def test_the_training_step_holds_the_codes_too(tmp_path: Path) -> None:
    """Its parity gate has compared twenty steps with torch's before the file is written."""
    student = quantised_student()
    export_bundle(
        student,
        tmp_path / "bundle",
        calibration_texts=sentences(40),
        name="tiny",
        license="MIT",
        options=ExportOptions(
            graph=GraphOptions(adapter_rank=2), training=TrainingOptions("index_byol")
        ),
    )
    model = onnx.load_from_string(Bundle.open(tmp_path / "bundle").read(TRAINING_STEP_FILE))
    shapes = {tensor.name: list(tensor.dims) for tensor in model.graph.initializer}
    assert shapes[f"frozen.{WORDS}.codes"] == [3000, 8]
    assert shapes[f"frozen.{WORDS}.rows"] == [8 * 256, 8]
