from __future__ import annotations

import contextlib
import json
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from pocketquery.sdk.bundle.safetensors import parse, parse_metadata, parse_whole, serialize
from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError

DTYPES = ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?"]

arrays = st.sampled_from(DTYPES).flatmap(
    lambda dtype: hnp.arrays(np.dtype(dtype), hnp.array_shapes(min_dims=0, min_side=0, max_dims=4))
)
names = st.text(max_size=12).filter(lambda name: name != "__metadata__" and name.isprintable())
tensors = st.dictionaries(names, arrays, max_size=5)


def same(left: dict[str, NDArray[Any]], right: dict[str, NDArray[Any]]) -> bool:
    return left.keys() == right.keys() and all(
        left[n].dtype == right[n].dtype
        and left[n].shape == right[n].shape
        and left[n].tobytes() == right[n].tobytes()
        for n in left
    )


@given(tensors)
def test_round_trip(content: dict[str, NDArray[Any]]) -> None:
    assert same(parse(serialize(content)), content)


@given(tensors)
def test_the_reference_package_reads_what_we_write(content: dict[str, NDArray[Any]]) -> None:
    assert same(safetensors.numpy.load(serialize(content)), content)


@given(tensors)
def test_we_read_what_the_reference_package_writes(content: dict[str, NDArray[Any]]) -> None:
    assert same(parse(safetensors.numpy.save(content)), content)


@given(st.dictionaries(names, st.text().filter(str.isprintable), max_size=4))
def test_metadata_round_trip(metadata: dict[str, str]) -> None:
    data = serialize({"a": np.zeros(2, np.float32)}, metadata)
    assert parse_metadata(data) == metadata
    assert list(parse(data)) == ["a"]


def test_the_order_of_tensors_does_not_change_the_bytes() -> None:
    a, b = np.ones(3, np.float32), np.ones(2, np.int8)
    assert serialize({"a": a, "b": b}) == serialize({"b": b, "a": a})


def test_big_endian_and_strided_arrays_are_written_as_their_values() -> None:
    value = np.arange(12, dtype=">f4").reshape(3, 4)[:, ::2]
    read = parse(serialize({"a": value}))["a"]
    assert np.array_equal(read, value)
    assert read.flags.writeable


@given(st.binary(max_size=200))
def test_arbitrary_bytes_never_crash(data: bytes) -> None:
    with contextlib.suppress(CorruptArtifactError):
        parse(data)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 70) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
)
specs = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["F32", "BOOL", "I8", "BF16", 3]),
        "shape": st.lists(st.integers(-1, 5) | st.just(2**63), max_size=3) | json_values,
        "data_offsets": st.lists(st.integers(-1, 70), min_size=2, max_size=3) | json_values,
    }
)


@given(
    st.dictionaries(st.text(max_size=5), specs | json_values, max_size=3) | json_values,
    st.binary(max_size=64),
)
def test_arbitrary_headers_never_crash_and_agree_with_the_package(header: Any, body: bytes) -> None:
    data = container(header, body)
    try:
        ours = parse(data)
    except CorruptArtifactError:
        return
    # What we accept, the package accepts too and reads alike.
    assert same(ours, safetensors.numpy.load(data))


@given(
    st.dictionaries(st.text(max_size=4), st.text(max_size=4), max_size=3) | json_values,
    st.dictionaries(st.sampled_from(["a", "b", "__metadata__"]), specs | json_values, max_size=2),
    st.sampled_from([b"}", b"", b"}}", b',"a":1}', b",}", b" }", b',"\\u005f_metadata__":{}}']),
    st.binary(max_size=16),
)
def test_a_layout_that_is_remembered_is_the_one_that_is_read(
    metadata: Any, others: dict[str, Any], end: bytes, body: bytes
) -> None:
    """A blank before the first name has the header read in one piece, and changes nothing else."""
    parts = [json.dumps({name: value})[1:-1].encode() for name, value in others.items()]
    told = json.dumps(metadata, ensure_ascii=False).encode()
    rest = b",".join([b'"__metadata__":' + told, *parts]) + end
    found: list[Any] = []
    for text in (b"{" + rest, b"{ " + rest):
        try:
            found.append(parse_whole(container(text, body)))
        except CorruptArtifactError as error:
            found.append(type(error))
    if isinstance(found[0], type) or isinstance(found[1], type):
        assert found[0] is found[1]
    else:
        assert same(found[0][0], found[1][0])
        assert found[0][1] == found[1][1]


def test_arrays_that_are_not_copied_lie_in_the_file() -> None:
    content: dict[str, NDArray[Any]] = {
        "a": np.arange(6, dtype=np.int8).reshape(2, 3),
        "b": np.ones(2, np.float32),
    }
    data = serialize(content, {"made": "here"})
    for _ in range(2):
        tensors, metadata = parse_whole(data, copy=False)
        assert same(tensors, content)
        assert metadata == {"made": "here"}
        assert not any(one.flags.writeable or one.flags.owndata for one in tensors.values())


def container(header: object, body: bytes) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


def entry(dtype: str = "F32", shape: Any = (2,), offsets: Any = (0, 8)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "truncated"),
        (b"\x00" * 7, "truncated"),
        ((2**63).to_bytes(8, "little"), "truncated or not a safetensors file"),
        (container(b"\xff", b""), "not valid JSON"),
        (container(b"{", b""), "not valid JSON"),
        (container(b"[" * 100_000, b""), "not valid JSON"),
        (container([], b""), "not a JSON object"),
        (container(b'{"a":1,"a":1}', b""), "occurs twice"),
        (container({"__metadata__": {"a": 1}}, b""), "__metadata__"),
        (container({"a": {"dtype": "F32"}}, b""), "exactly dtype"),
        (container({"a": entry(dtype="BF16")}, b"\x00" * 8), "'BF16', expected one of"),
        (container({"a": entry(shape=[-2])}, b"\x00" * 8), "shape"),
        (container({"a": entry(shape=[True])}, b"\x00" * 8), "shape"),
        (container({"a": entry(offsets=[0])}, b"\x00" * 8), "begin, end"),
        (container({"a": entry(shape=[3])}, b"\x00" * 8), "span 8 bytes"),
        (container({"a": entry(offsets=[4, 12])}, b"\x00" * 12), "begins at 4, expected 0"),
        (container({"a": entry(), "b": entry()}, b"\x00" * 8), "begins at 0, expected 8"),
        (container({"a": entry()}, b"\x00" * 9), "9 are there"),
        (container({"a": entry()}, b"\x00" * 7), "7 are there"),
        (container({"a": entry("BOOL", [1], [0, 1])}, b"\x02"), "other than 0 and 1"),
        (container({"a": entry("F32", [0] * 100, [0, 0])}, b""), "tensor 'a'"),
        (container({"a": entry("F32", [10**18] * 300, [0, 0])}, b""), "at most 64"),
        (container({"a": entry("F32", [10**4000] * 2, [0, 0])}, b""), "integers from 0"),
        (container({"a": entry("F32", [2**63], [0, 0])}, b""), "integers from 0"),
        (container({"a": entry("F32", [2**62] * 64, [0, 0])}, b""), "span 0 bytes"),
        (container(b'{"a":' + b"[" * 900 + b"]" * 900 + b"}", b""), "safetensors"),
    ],
)
def test_a_broken_file_is_refused_with_the_reason(data: bytes, message: str) -> None:
    with pytest.raises(CorruptArtifactError, match=message):
        parse(data, "adapter.safetensors")


def test_every_truncation_is_refused() -> None:
    data = serialize({"a": np.ones((3, 4), np.float32), "b": np.ones(5, np.int8)})
    for length in range(len(data)):
        with pytest.raises(CorruptArtifactError):
            parse(data[:length])


@pytest.mark.parametrize("value", [np.zeros(2, complex), np.array(["a"]), np.array([None])])
def test_a_dtype_the_format_lacks_is_refused(value: NDArray[Any]) -> None:
    with pytest.raises(InvalidInputError, match="cannot hold"):
        serialize({"a": value})


def test_the_reserved_name_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="reserves"):
        serialize({"__metadata__": np.zeros(1)})
