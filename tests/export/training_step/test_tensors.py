from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hypothesis_numpy

from pocketquery.export.adapter import adapter_tensors
from pocketquery.export.onnx_graph import build_graph
from pocketquery.export.training_step.model import student_parameters
from pocketquery.export.training_step.tensors import dequantise, divide, quantise
from pocketquery.sdk.arrays import Floats
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.modeling import SentenceEncoder

FLOATS = st.floats(-1e4, 1e4, width=32, allow_subnormal=False)
MATRICES = hypothesis_numpy.arrays(
    np.float32, hypothesis_numpy.array_shapes(min_dims=2, max_dims=2, max_side=9), elements=FLOATS
)


@pytest.fixture(scope="module")
def adapter(headed_student: SentenceEncoder) -> dict[str, Floats]:
    return dict(adapter_tensors(build_graph(headed_student)))


@given(MATRICES)
def test_8_bits_are_within_half_a_step_of_each_row(matrix: Floats) -> None:
    rows, scales = quantise(matrix)
    assert rows.dtype == np.int8
    assert scales.shape == (len(matrix), 1)
    error = np.abs(dequantise(rows, scales) - matrix)
    assert (error <= 0.501 * scales).all()


def test_rows_of_zeros_stay_zero_and_the_largest_is_kept() -> None:
    matrix = np.array([[0, 0, 0], [-2.54, 0, 1.27]], np.float32)
    rows, scales = quantise(matrix)
    assert rows.tolist() == [[0, 0, 0], [-127, 0, 64]]
    assert dequantise(rows, scales)[0].tolist() == [0, 0, 0]


def test_the_adapter_is_trained_and_all_else_frozen(
    headed_student: SentenceEncoder, adapter: dict[str, Floats]
) -> None:
    tensors = divide(headed_student, adapter, "index_byol", "adapter")
    assert list(tensors.trained) == sorted(adapter)
    assert not tensors.heads
    assert tensors.target == sorted(adapter)
    own = student_parameters(headed_student)
    frozen = tensors.frozen_values()
    assert frozen.keys() == own.keys()
    for name, value in frozen.items():
        original = own[name].detach().numpy()
        assert np.abs(value - original).max() <= np.abs(original).max() / 127 / 2 * 1.01
    assert tensors.tables == ["embeddings.word", "embeddings.position"]


def test_top_is_the_last_layer_and_the_head(
    headed_student: SentenceEncoder, adapter: dict[str, Floats]
) -> None:
    tensors = divide(headed_student, adapter, "index_byol", "top")
    assert {name.rsplit(".", 2)[0] for name in tensors.trained} == {"layers.1", "head"}
    assert "layers.1.norm.bias" in tensors.trained
    assert "layers.0.norm.bias" in tensors.frozen


def test_the_key_s_bias_is_never_trained(
    headed_student: SentenceEncoder, adapter: dict[str, Floats]
) -> None:
    tensors = divide(headed_student, adapter, "index_byol", "all")
    own = student_parameters(headed_student)
    assert own.keys() - tensors.trained.keys() == {"layers.0.key.bias", "layers.1.key.bias"}
    assert tensors.frozen.keys() == {"layers.0.key.bias", "layers.1.key.bias"}


def test_byol_brings_heads_that_never_ship(
    headed_student: SentenceEncoder, adapter: dict[str, Floats]
) -> None:
    tensors = divide(headed_student, adapter, "byol", "adapter")
    assert list(tensors.trained)[: len(adapter)] == sorted(adapter)
    assert {name.split(".")[0] for name in tensors.heads} == {"projector", "predictor"}
    assert {name.split(".")[0] for name in tensors.target} == {"adapter", "projector"}


def test_an_adapter_that_was_trained_stays_in_force_under_other_parts(
    headed_student: SentenceEncoder, adapter: dict[str, Floats]
) -> None:
    assert not divide(headed_student, adapter, "index_byol", "top").frozen.keys() & adapter.keys()
    moved = {name: value + 0.01 for name, value in adapter.items()}
    tensors = divide(headed_student, moved, "index_byol", "top")
    assert adapter.keys() <= tensors.frozen.keys()
    assert not adapter.keys() & tensors.trained.keys()


def test_what_does_not_fit_is_refused(
    headed_student: SentenceEncoder, adapter: dict[str, Floats]
) -> None:
    with pytest.raises(InvalidInputError, match="has no adapter"):
        divide(headed_student, {}, "index_byol", "adapter")
    name = "adapter.layers.0.query.down"
    with pytest.raises(InvalidInputError, match=r"shape \(8, 63\), the student takes \(8, 64\)"):
        divide(headed_student, adapter | {name: adapter[name][:, 1:]}, "index_byol", "adapter")
    alone = {name: adapter[name]}
    with pytest.raises(InvalidInputError, match="without a counterpart"):
        divide(headed_student, alone, "index_byol", "adapter")
    elsewhere = {f"adapter.layers.7.query.{side}": np.ones((2, 2)) for side in ("down", "up")}
    with pytest.raises(InvalidInputError, match="without a counterpart"):
        divide(headed_student, elsewhere, "index_byol", "adapter")
