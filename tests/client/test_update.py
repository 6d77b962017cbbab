from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from pocketquery.client.transforms import SCALES, Clip, Int8, norm_of
from pocketquery.client.update import (
    UpdateHeader,
    bounded_weight,
    decode_update,
    encode_update,
)
from pocketquery.sdk.bundle.safetensors import parse, parse_metadata, serialize
from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError

HEADER = UpdateHeader("space-a", "ab" * 32, "7", 12, "0123456789abcdef" * 2, 40.0)

values = st.floats(-1e6, 1e6, width=32)
arrays = hnp.arrays(
    np.float32, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0), elements=values
)
names = st.text(min_size=1, max_size=8).filter(lambda n: n not in ("__metadata__", SCALES))
changes = st.dictionaries(names, arrays, min_size=1, max_size=4)
norms = st.floats(1e-3, 1e6)


def adapter_change(seed: int = 0) -> dict[str, NDArray[np.float32]]:
    """A change of the shape a 3x384 encoder with rank 8 has."""
    rng = np.random.default_rng(seed)
    shapes = {"down": (8, 384), "up": (384, 8)}
    return {
        f"adapter.layers.{layer}.{part}.{side}": rng.normal(0, 1e-3, shape).astype(np.float32)
        for layer in range(3)
        for part in ("query", "value")
        for side, shape in shapes.items()
    }


def sent(change: Any = None, **options: Any) -> bytes:
    """An update of ``change``, of a tensor of two ones if there is none."""
    given: dict[str, Any] = {"header": HEADER, "clip_norm": 1.0} | options
    ones = {"a": np.ones(2, np.float32)}
    return encode_update(ones if change is None else change, **given)[0]


@given(changes, norms)
@example({"0": np.array([384299, *[74199] * 44], np.float32)}, 1.0)  # every rounding goes up
def test_what_the_server_reads_is_the_change_to_half_a_step_and_within_the_bound(
    change: dict[str, NDArray[np.float32]], clip_norm: float
) -> None:
    data, lost = encode_update(change, header=HEADER, clip_norm=clip_norm)
    update = decode_update(data)
    clipped = Clip(clip_norm).on_device(change)
    assert update.header == HEADER
    assert update.change.keys() == change.keys()
    # Up to what is below float32's normal range: there a scale has few digits.
    assert norm_of(update.change) <= min(clip_norm, norm_of(clipped) + 1e-37)
    steps = {name: np.abs(value).max(initial=0.0) / 127 for name, value in clipped.items()}
    # Rounding adds at most half a step to every value; the norm is brought back by one factor.
    added = np.sqrt(sum(value.size * (steps[name] / 2) ** 2 for name, value in clipped.items()))
    shrunk = added / max(norm_of(clipped), 1e-37)
    for name, value in update.change.items():
        assert value.dtype == np.float32
        assert value.shape == change[name].shape
        np.testing.assert_array_equal(clipped[name] - value, lost[name])
        bound = 0.5 * steps[name] + shrunk * np.abs(clipped[name]).max(initial=0.0)
        assert (np.abs(lost[name]) <= 1.001 * bound + 1e-37).all()


@given(changes)
def test_uncompressed_the_change_arrives_to_the_bit(change: dict[str, NDArray[np.float32]]) -> None:
    data, lost = encode_update(change, header=HEADER, clip_norm=1e12, compress=False)
    update = decode_update(data)
    for name, value in change.items():
        np.testing.assert_array_equal(update.change[name], value)
        assert not lost[name].any()


UNEVEN = {
    "00": np.array([0, 0, 0, *[338978.25] * 13], np.float32),
    "0": np.array(3.0, np.float32),
    "1": np.array(999999.0, np.float32),
}


@given(changes)
@example(UNEVEN)  # whose squares add up differently in another order
def test_the_same_change_gives_the_same_bytes(change: dict[str, NDArray[np.float32]]) -> None:
    backwards = dict(reversed(change.items()))
    assert sent(change) == sent(backwards)


def test_by_hand() -> None:
    change = {"a": np.array([127.0, -63.4, 0.4], np.float32)}
    data, lost = encode_update(change, header=HEADER, clip_norm=1e6)
    tensors = parse(data)
    assert tensors["a"].tolist() == [127, -63, 0]
    assert tensors[SCALES].tolist() == [1.0]
    np.testing.assert_allclose(lost["a"], [0.0, -0.4, 0.4], rtol=1e-5)


def test_clipping_keeps_the_direction() -> None:
    change = {"a": np.array([3.0, 0.0], np.float32), "b": np.array([[4.0]], np.float32)}
    clipped = Clip(1.0).on_device(change)
    np.testing.assert_allclose(clipped["a"], [0.6, 0.0], rtol=1e-5)
    np.testing.assert_allclose(clipped["b"], [[0.8]], rtol=1e-5)
    assert norm_of(clipped) <= 1.0
    for name, value in Clip(1.0).on_server(clipped).items():
        np.testing.assert_array_equal(value, clipped[name])


def test_rounding_that_would_lengthen_is_shortened() -> None:
    tensors = {"a": np.array([127.0, 0.6, 0.6, 0.6], np.float32)}
    codes = Int8().on_device(tensors)
    assert norm_of(Int8().on_server(codes)) <= norm_of(tensors)


def test_a_scale_that_float32_can_hardly_hold_overflows_no_code() -> None:
    """Below 1e-38 a scale has few bits: rounded down, 127 steps of it do not reach the largest."""
    data = sent({"a": np.array([-2e-43, 2e-43], np.float32)})
    assert parse(data)["a"].tolist() == [-127, 127]
    assert decode_update(data).change["a"][1] > 0


def test_error_feedback_loses_nothing_over_the_rounds() -> None:
    """A part too small for one step of its tensor arrives after some rounds all the same."""
    change = {"a": np.array([1.0, 0.001], np.float32)}
    residual, arrived, plain = None, np.zeros(2), np.zeros(2)
    for _ in range(40):
        data, residual = encode_update(change, header=HEADER, clip_norm=10.0, residual=residual)
        arrived += decode_update(data).change["a"]
        plain += decode_update(encode_update(change, header=HEADER, clip_norm=10.0)[0]).change["a"]
    assert plain[1] == 0
    assert residual is not None
    np.testing.assert_allclose(arrived + residual["a"], 40 * change["a"], rtol=1e-4)
    assert abs(arrived[1] - 0.04) < 1 / 127


def test_what_was_clipped_off_is_not_kept() -> None:
    change = {"a": np.full(4, 100.0, np.float32)}
    _, residual = encode_update(change, header=HEADER, clip_norm=1.0)
    assert norm_of(residual) < 0.01


def test_an_update_of_a_real_encoder_is_small() -> None:
    data = sent(adapter_change())
    assert len(data) < 40_000


def test_the_metadata_holds_the_header_and_nothing_else() -> None:
    data = sent(adapter_change())
    names = "format version space_id encoder_sha256 base_version round nonce weight"
    assert set(parse_metadata(data)) == set(names.split())


@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_corrupt_and_nothing_worse(data: bytes) -> None:
    with pytest.raises(CorruptArtifactError):
        decode_update(data)


@given(st.data())
def test_mutated_bytes_are_read_or_corrupt_and_nothing_worse(data: st.DataObject) -> None:
    change = {"a": np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3), "b": np.ones((), "f4")}
    raw = bytearray(
        encode_update(change, header=HEADER, clip_norm=9.0, compress=data.draw(st.booleans()))[0]
    )
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = raw[: data.draw(st.integers(0, len(raw)))] if data.draw(st.booleans()) else raw
    with contextlib.suppress(CorruptArtifactError):
        decode_update(bytes(cut))


metadata = st.fixed_dictionaries(
    {
        "format": st.just("pocketquery-update"),
        "version": st.sampled_from(["1", "1", "1", "2", ""]),
        "space_id": st.text(max_size=5),
        "encoder_sha256": st.text(max_size=5),
        "base_version": st.text(max_size=5),
        "round": st.text("0123456789-", max_size=25) | st.text(max_size=3),
        "nonce": st.just("ab" * 16) | st.text("0123456789abcdefA", max_size=33),
        "weight": st.text("0123456789.e-+naif_", max_size=8),
    },
    optional={"queries": st.text(max_size=3)},
)


@given(
    metadata,
    st.dictionaries(
        names | st.just(SCALES),
        hnp.arrays(
            st.sampled_from([np.dtype(t) for t in ("f4", "i1", "f8", "i8", "?", "f2")]),
            hnp.array_shapes(min_dims=0, max_dims=2, min_side=0),
        ),
        max_size=3,
    ),
)
def test_any_safetensors_file_is_read_or_corrupt(
    found: dict[str, str], tensors: dict[str, NDArray[Any]]
) -> None:
    with contextlib.suppress(CorruptArtifactError):
        update = decode_update(serialize(tensors, found))
        assert all(value.dtype == np.float32 for value in update.change.values())


@pytest.mark.parametrize(
    ("field", "text", "message"),
    [
        ("format", "other", "format 'other'"),
        ("version", "2", "version '2'"),
        ("round", "-1", "round is '-1'"),
        ("round", "1" * 5000, "round is"),
        ("nonce", "AB" * 16, "nonce"),
        ("weight", "many", "weight is 'many'"),
        ("user", "me", "metadata"),
    ],
)
def test_a_wrong_field_is_named(field: str, text: str, message: str) -> None:
    data = sent()
    changed = serialize(parse(data), parse_metadata(data) | {field: text})
    with pytest.raises(CorruptArtifactError, match=message):
        decode_update(changed)


@pytest.mark.parametrize("weight", ["nan", "-3.0", "inf", "1e300"])
def test_the_servers_validation_sees_the_weight_that_came(weight: str) -> None:
    data = sent()
    changed = serialize(parse(data), parse_metadata(data) | {"weight": weight})
    np.testing.assert_equal(decode_update(changed).header.weight, float(weight))


@pytest.mark.parametrize("scale", [np.nan, np.inf, 3e38])
def test_the_servers_validation_sees_values_that_are_not_finite(scale: float) -> None:
    data = sent()
    tensors = parse(data) | {SCALES: np.array([scale], np.float32)}
    decoded = decode_update(serialize(tensors, parse_metadata(data)))
    assert not np.isfinite(decoded.change["a"]).any()


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({}, "no tensor"),
        ({SCALES: np.zeros(0, np.float32)}, "no tensor"),
        ({"a": np.ones(2, np.int8)}, "no scales"),
        ({"a": np.ones(2, np.int8), SCALES: np.ones(2, np.float32)}, r"expected float32 \[1\]"),
        ({"a": np.ones(2, np.int8), SCALES: np.ones(1, np.float64)}, "float64"),
        ({"a": np.ones(2, np.int16), SCALES: np.ones(1, np.float32)}, "int16"),
        ({"a": np.full(2, -128, np.int8), SCALES: np.ones(1, np.float32)}, "-128"),
    ],
)
def test_wrong_tensors_are_named(tensors: dict[str, NDArray[Any]], message: str) -> None:
    data = sent()
    with pytest.raises(CorruptArtifactError, match=message):
        decode_update(serialize(tensors, parse_metadata(data)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, "no tensor"),
        ({"a": np.array([np.nan], np.float32)}, "NaN"),
        ({"a": np.array([np.inf], np.float32)}, "NaN or infinity"),
        ({"a": np.ones(2)}, "float64"),
        ({SCALES: np.ones(2, np.float32)}, "other than"),
    ],
)
def test_a_change_that_cannot_be_sent_is_refused(change: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        sent(change)


@pytest.mark.parametrize("clip_norm", [0.0, -1.0, np.nan, np.inf])
def test_a_bound_must_be_a_number_above_zero(clip_norm: float) -> None:
    with pytest.raises(InvalidInputError, match="clip_norm"):
        sent(clip_norm=clip_norm)


@pytest.mark.parametrize(
    ("name", "value"),
    [*(("weight", value) for value in (0.0, -1.0, np.nan, np.inf)), ("round", -1), ("nonce", "x")],
)
def test_a_header_that_the_server_would_refuse_is_refused_here(name: str, value: Any) -> None:
    with pytest.raises(InvalidInputError):
        sent(header=replace(HEADER, **{name: value}))


@pytest.mark.parametrize("shape", [(3,), (2, 1)])
def test_a_residual_of_another_encoder_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInputError, match="another encoder"):
        sent(residual={"a": np.ones(shape, np.float32)})


def test_a_weight_is_the_number_of_examples_up_to_a_bound() -> None:
    assert (bounded_weight(3, 50), bounded_weight(400, 50)) == (3.0, 50.0)
    for examples, largest in [(0, 50), (-1, 50), (3, 0), (3, float("inf"))]:
        with pytest.raises(InvalidInputError):
            bounded_weight(examples, largest)
