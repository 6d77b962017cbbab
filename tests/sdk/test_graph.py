from __future__ import annotations

import gc
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError
from pocketquery.sdk.graph import Graph
from tests.sdk.tiny_bundle import (
    DIMENSION,
    DOWN,
    MAX_LENGTH,
    RANK,
    UP,
    encoder_onnx,
    reference_vector,
    trained_adapter,
)

IDS = [2, 9, 30, 41, 3]


def graph(
    model: bytes | None = None,
    adapter: Mapping[str, NDArray[Any]] | None = None,
    dimension: int = DIMENSION,
    num_threads: int = 1,
) -> Graph:
    return Graph(
        encoder_onnx() if model is None else model,
        adapter=adapter or {},
        dimension=dimension,
        max_length=MAX_LENGTH,
        num_threads=num_threads,
        source="bundle",
    )


def test_the_vector_is_what_numpy_computes() -> None:
    found = graph().embed(IDS)
    assert found.dtype == np.float32
    assert found.shape == (DIMENSION,)
    np.testing.assert_allclose(found, reference_vector(IDS), atol=1e-6)


def test_the_adapter_takes_the_place_of_the_default() -> None:
    adapter = trained_adapter()
    expected = reference_vector(IDS, adapter)
    assert np.abs(expected - reference_vector(IDS)).max() > 0.1
    bound = graph(adapter=adapter)
    np.testing.assert_allclose(bound.embed(IDS), expected, atol=1e-6)
    adapter[UP][:] = np.nan  # the session must point neither into the caller's arrays
    adapter.clear()  # nor into arrays that are gone
    gc.collect()
    rubbish = [np.full((DIMENSION, RANK), np.nan, np.float32) for _ in range(1000)]
    np.testing.assert_allclose(bound.embed(IDS), expected, atol=1e-6)
    assert len(rubbish) == 1000


def test_a_part_of_an_adapter_leaves_the_other_defaults() -> None:
    up = trained_adapter()[UP]
    found = graph(adapter={UP: up}).embed(IDS)
    assert np.abs(found - reference_vector(IDS)).max() > 0.1


def test_float16_tensors_are_widened() -> None:
    half = {name: value.astype(np.float16) for name, value in trained_adapter().items()}
    widened = {name: value.astype(np.float32) for name, value in half.items()}
    np.testing.assert_allclose(
        graph(adapter=half).embed(IDS), reference_vector(IDS, widened), atol=1e-6
    )


@pytest.mark.parametrize(
    ("adapter", "message"),
    [
        ({"adapter.layers.9.query.up": np.zeros((16, 2), np.float32)}, "layers.9.*takes: adapter"),
        ({"table": np.zeros((1, 1), np.float32)}, "'table'"),
        (
            {UP: np.zeros((DIMENSION, 3), np.float32)},
            r"shape \(16, 3\), the encoder takes \(16, 2\)",
        ),
        ({DOWN: np.zeros((RANK, 3), np.float32)}, r"shape \(2, 3\), the encoder takes \(2, 16\)"),
        ({UP: np.zeros(DIMENSION, np.float32)}, r"shape \(16,\), the encoder takes \(16, 2\)"),
        ({UP: np.zeros((DIMENSION, RANK), np.float64)}, "is float64, expected float16 or float32"),
        ({UP: np.full((DIMENSION, RANK), np.inf, np.float32)}, "NaN or infinity"),
    ],
)
def test_an_adapter_of_another_encoder_is_refused(
    adapter: dict[str, NDArray[Any]], message: str
) -> None:
    with pytest.raises(CorruptArtifactError, match=message):
        graph(adapter=adapter)


def test_what_is_no_graph_is_refused() -> None:
    model = encoder_onnx()
    for data in (b"", b"hello", model[: len(model) // 2]):
        with pytest.raises(CorruptArtifactError, match=r"encoder\.onnx: (not an ONNX|onnxr)"):
            graph(data)
        with pytest.raises(CorruptArtifactError, match=r"encoder\.onnx: (not an ONNX|onnxr)"):
            graph(data, adapter=trained_adapter())


def test_a_graph_of_another_dimension_is_refused() -> None:
    with pytest.raises(CorruptArtifactError, match="16 dimensions, the manifest says 17"):
        graph(dimension=17)


def test_another_output_is_refused() -> None:
    with pytest.raises(CorruptArtifactError, match=r"gives \['pooled'\], expected sentence_emb"):
        graph(encoder_onnx(output="pooled"))


def test_another_input_is_refused() -> None:
    model = onnx.load_from_string(encoder_onnx())
    model.graph.input[0].name = "tokens"
    for node in model.graph.node:
        node.input[:] = ["tokens" if name == "input_ids" else name for name in node.input]
    with pytest.raises(CorruptArtifactError, match="expected int64 input_ids and attention_mask"):
        graph(model.SerializeToString())


def test_ids_of_another_vocabulary_are_an_error_that_says_so() -> None:
    with pytest.raises(CorruptArtifactError, match=r"largest 9999\); they are of different voc"):
        graph().embed([2, 9999, 3])


def test_threads_below_one_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="num_threads is 0"):
        graph(num_threads=0)
