from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketquery.sdk.arrays import Floats
from pocketquery.sdk.errors import (
    ArtifactError,
    ArtifactNotFoundError,
    CorruptArtifactError,
    InvalidInputError,
    UnsupportedVersionError,
)
from pocketquery.sdk.index.vector_file import (
    append_vectors,
    create_vectors,
    merged_sums,
    quantize,
    sums_of,
    without_vectors,
)
from pocketquery.sdk.index.vectors import QueryVector, Vectors, best, best_of_blocks, unit_rows


def clustered(count: int, dimension: int = 64, seed: int = 0) -> Floats:
    """Unit vectors around a few centres, so that neighbours exist."""
    random = np.random.default_rng(seed)
    centres = random.standard_normal((20, dimension))
    vectors = centres[random.integers(0, 20, count)] + random.standard_normal((count, dimension))
    return unit_rows(vectors, dimension, "vectors")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "vectors.u8"


def stored(path: Path, vectors: Floats) -> Vectors:
    create_vectors(path, vectors.shape[1])
    append_vectors(path, 0, quantize(vectors))
    return Vectors(path, vectors.shape[1], len(vectors))


def test_a_vector_comes_back_to_half_a_step(path: Path) -> None:
    vectors = clustered(300)
    back = stored(path, vectors).floats(slice(0, 300))
    step = np.abs(vectors).max(axis=1, keepdims=True) / 127
    assert (np.abs(back - vectors) <= step * 0.501).all()


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 70), st.integers(0, 2**32 - 1))
def test_quantizing_is_bounded_for_any_dimension(dimension: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    raw = random.standard_normal((4, dimension)) * 10.0 ** random.integers(-6, 6)
    vectors = unit_rows(raw, dimension, "vectors")
    rows = quantize(vectors)
    assert rows.shape == (4, dimension + 4)
    codes = rows[:, :dimension].astype(int) - 128
    assert (np.abs(codes).max(axis=1) == 127).all()


def test_search_finds_what_exact_search_finds(path: Path) -> None:
    vectors, queries = clustered(3000), clustered(50, seed=1)
    index = stored(path, vectors)
    shared = []
    for query in queries:
        rows, scores = index.search(query, 10)
        exact = vectors @ query
        shared.append(len(set(rows) & set(np.argsort(-exact)[:10])) / 10)
        np.testing.assert_allclose(scores, exact[rows], atol=0.006)
        assert (np.diff(scores) <= 0).all()
    assert np.mean(shared) >= 0.98


def test_search_equals_the_slow_reference_on_the_stored_values(path: Path) -> None:
    index = stored(path, clustered(500))
    floats = index.floats(slice(0, 500))
    for query in clustered(20, seed=2):
        rows, _ = index.search(query, 5)
        assert rows.tolist() == np.argsort(-(floats @ query), kind="stable")[:5].tolist()


def test_only_allowed_rows_are_found(path: Path) -> None:
    index = stored(path, clustered(500))
    allowed = np.zeros(500, bool)
    allowed[[3, 77, 401]] = True
    rows, scores = index.search(clustered(1, seed=3)[0], 10, allowed)
    assert sorted(rows.tolist()) == [3, 77, 401]
    assert np.isfinite(scores).all()


@settings(max_examples=60, deadline=None)
@given(
    count=st.integers(0, 70),
    few=st.integers(1, 9),
    block=st.integers(1, 40),
    k=st.integers(1, 80),
    share=st.sampled_from([None, 0.0, 0.1, 0.9]),
    seed=st.integers(0, 2**32 - 1),
)
def test_blocks_of_any_size_find_what_one_finds(
    count: int, few: int, block: int, k: int, share: float | None, seed: int
) -> None:
    random = np.random.default_rng(seed)
    vectors = clustered(few, 16, seed)[random.integers(0, few, count)]  # many are equal
    allowed = None if share is None else random.random(count) < share
    (query,) = clustered(1, 16, seed + 1)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        whole = stored(Path(folder) / "vectors.u8", vectors)
        expected = whole.search(query, k, allowed)
        patch.setattr("pocketquery.sdk.index.vectors._BLOCK", block)
        found = Vectors(whole.path, 16, count).search(query, k, allowed)
        del whole
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])


@settings(max_examples=60, deadline=None)
@given(
    count=st.integers(1, 300),
    dimension=st.sampled_from([1, 2, 16, 96]),
    likeness=st.sampled_from([0.0, 1.0, 30.0]),
    spikes=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_scan_is_off_by_no_more_than_the_slack_says(
    count: int, dimension: int, likeness: float, spikes: bool, seed: int
) -> None:
    random = np.random.default_rng(seed)
    raw = random.standard_normal((count + 1, dimension)) + likeness
    if spikes:  # one number is nearly all of a vector
        raw[np.arange(count + 1), random.integers(0, dimension, count + 1)] += 100
    vectors = unit_rows(raw, dimension, "vectors")
    query = QueryVector(vectors[-1])
    with tempfile.TemporaryDirectory() as folder:
        index = stored(Path(folder) / "vectors.u8", vectors[:-1])
        ((_, coarse),) = index.near(query)
        exact = index.cosines(query, np.arange(count))
        floats = index.floats(np.arange(count)).astype(np.float64)
        some = random.permutation(count)[: count // 2 + 1]
        np.testing.assert_array_equal(index.cosines(query, some), exact[some])
        rows, scores = index.search(vectors[-1], count)
        first, _ = index.search(vectors[-1], 1 + count // 3)
        del index
    assert np.abs(coarse - exact).max() <= query.slack / 2
    np.testing.assert_allclose(exact, floats @ vectors[-1].astype(np.float64), atol=1e-6)
    assert rows.tolist() == np.argsort(-exact, kind="stable").tolist()
    assert first.tolist() == rows[: 1 + count // 3].tolist()
    np.testing.assert_array_equal(scores, exact[rows])


def test_equal_scores_keep_the_order_of_the_rows(path: Path) -> None:
    index = stored(path, np.repeat(clustered(1), 9, axis=0))
    rows, _ = index.search(clustered(1)[0], 4)
    assert rows.tolist() == [0, 1, 2, 3]


def test_k_above_the_count_gives_all(path: Path) -> None:
    index = stored(path, clustered(7))
    assert len(index.search(clustered(1)[0], 100)[0]) == 7


def test_an_empty_file_finds_nothing(path: Path) -> None:
    create_vectors(path, 64)
    assert len(Vectors(path, 64, 0).search(clustered(1)[0], 3)[0]) == 0


def test_appending_overwrites_what_was_never_committed(path: Path) -> None:
    vectors = clustered(30)
    stored(path, vectors[:10])
    append_vectors(path, 10, quantize(vectors[10:25]))
    append_vectors(path, 10, quantize(vectors[25:30]))
    back = Vectors(path, 64, 15).floats(slice(0, 15))
    np.testing.assert_allclose(back, np.concatenate([vectors[:10], vectors[25:]]), atol=0.01)
    assert path.stat().st_size == 64 + 15 * 68


def test_a_file_is_at_most_a_third_of_float32(path: Path) -> None:
    stored(path, clustered(1000, dimension=384))
    assert path.stat().st_size <= 0.3 * 1000 * 384 * 4


@pytest.mark.parametrize("size", [0, 10, 63, 64, 64 + 9 * 68, 64 + 10 * 68 - 1])
def test_a_truncated_file_is_named(path: Path, size: int) -> None:
    stored(path, clustered(10))
    with path.open("r+b") as file:
        file.truncate(size)
    with pytest.raises(CorruptArtifactError, match=r"vectors\.u8"):
        Vectors(path, 64, 10)


@pytest.mark.parametrize("position", [0, 8, 12, 30, 62])
def test_a_changed_header_is_named(path: Path, position: int) -> None:
    stored(path, clustered(10))
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptArtifactError, match=r"vectors\.u8"):
        Vectors(path, 64, 10)


def test_another_dimension_is_refused(path: Path) -> None:
    create_vectors(path, 32)
    with pytest.raises(CorruptArtifactError, match="dimension 32"):
        Vectors(path, 64, 0)


def test_a_newer_version_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("pocketquery.sdk.index.vector_file._VERSION", 2)
        create_vectors(path, 64)
    with pytest.raises(UnsupportedVersionError, match="version 2"):
        Vectors(path, 64, 0)


def test_a_missing_file_is_named(path: Path) -> None:
    with pytest.raises(ArtifactNotFoundError, match=r"vectors\.u8"):
        Vectors(path, 64, 0)


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        (np.ones((2, 3)), r"shape \(2, 3\), expected \(n, 4\)"),
        (np.ones(4), "shape"),
        (np.array([[1, 2, 3, 4], [1, np.nan, 0, 0]]), r"given\[1\]"),
        (np.array([[1, 2, 3, np.inf]]), r"given\[0\]"),
        (np.zeros((1, 4)), "all zeros"),
        (np.array([["a", "b", "c", "d"]]), "dtype"),
        ([[1, 2, 3, 4], [1]], "given"),
        (None, "given"),
    ],
)
def test_bad_vectors_are_named(vectors: object, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        unit_rows(vectors, 4, "given")


def test_unit_rows_have_length_one() -> None:
    rows = unit_rows([[3.0, 4.0], [1e-30, 0.0], [1e30, 1e30]], 2, "vectors")
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(rows[0], [0.6, 0.8])


@given(st.lists(st.floats(-9, 9, width=32), max_size=40), st.integers(1, 50))
def test_best_are_the_highest(scores: list[float], k: int) -> None:
    array = np.array(scores, np.float32)
    chosen = array[best(array, k)]
    assert sorted(chosen.tolist()) == sorted(scores)[max(0, len(scores) - k) :]


@given(st.lists(st.integers(0, 4), min_size=1, max_size=40), st.integers(1, 45))
def test_of_equal_scores_the_first_are_chosen(scores: list[int], k: int) -> None:
    array = np.array(scores, np.float32)
    expected = np.argsort(-array, kind="stable")[:k]
    assert best(array, k).tolist() == sorted(expected.tolist())


@pytest.mark.parametrize("scale", [np.nan, np.inf, -np.inf, -0.001, 0.0, 0.1, 1e-45, 3e38])
def test_a_scale_that_no_vector_has_is_never_a_score(path: Path, scale: float) -> None:
    stored(path, clustered(10))
    data = bytearray(path.read_bytes())
    data[64 + 4 * 68 - 4 : 64 + 4 * 68] = np.float32(scale).tobytes()
    path.write_bytes(data)
    index = Vectors(path, 64, 10)
    if scale == np.float32(1e-45):  # tiny, but a number
        assert np.isfinite(index.search(clustered(1)[0], 10)[1]).all()
        return
    for use in (
        index.placed,
        lambda: index.search(clustered(1)[0], 3),
        lambda: index.floats(np.array([3])),
    ):
        with pytest.raises(CorruptArtifactError, match=r"vectors\.u8.*scale"):
            use()


def test_a_row_without_a_vector_is_near_to_nothing(path: Path) -> None:
    vectors = clustered(200)
    missing = np.zeros(200, bool)
    missing[[0, 7, 199]] = True
    create_vectors(path, 64)
    append_vectors(path, 0, without_vectors(quantize(vectors), missing))
    index = Vectors(path, 64, 200)
    assert np.array_equal(index.placed(), ~missing)
    for query in (vectors[0], -vectors[7], clustered(1)[0]):
        rows, scores = index.search(query, 200)
        assert sorted(rows) == np.flatnonzero(~missing).tolist()
        np.testing.assert_allclose(scores, vectors[rows] @ query, atol=0.01)
        assert index.search(query, 5, missing)[0].tolist() == []
    assert not index.floats(missing).any()
    assert not index.cosines(QueryVector(vectors[0]), np.flatnonzero(missing)).any()


def test_a_scale_that_changes_after_the_first_search_is_noticed(path: Path) -> None:
    index = stored(path, clustered(10))
    index.search(clustered(1)[0], 3)
    with path.open("r+b") as file:
        file.seek(64 + 68 - 4)
        file.write(np.float32(np.nan).tobytes())
    with pytest.raises(CorruptArtifactError, match="scale"):
        index.search(clustered(1)[0], 10)


def test_nothing_is_written_through_a_link(path: Path, tmp_path: Path) -> None:
    stored(tmp_path / "theirs", clustered(10))
    before = (tmp_path / "theirs").read_bytes()
    for make in (path.symlink_to, path.hardlink_to):
        make(tmp_path / "theirs")
        with pytest.raises(ArtifactError, match="is a link"):
            append_vectors(path, 0, quantize(clustered(1)))
        assert len(Vectors(path, 64, 10)) == 10  # reading is no harm
        path.unlink()
    assert (tmp_path / "theirs").read_bytes() == before


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(0, 700), min_size=1, max_size=4),
    st.integers(1, 40),
    st.integers(1, 400),
    st.floats(0, 1),
    st.integers(0, 2**32 - 1),
)
def test_the_best_of_blocks_are_the_best_of_all(
    sizes: list[int], most: int, levels: int, masked: float, seed: int
) -> None:
    random = np.random.default_rng(seed)
    scores = random.integers(0, levels, sum(sizes)).astype(float)  # many are equal
    scores[random.random(len(scores)) < masked] = -np.inf
    starts = np.cumsum([0, *sizes])
    blocks = [(int(a), scores[a:b]) for a, b in pairwise(starts)]
    rows, found = best_of_blocks(blocks, most)
    allowed = np.flatnonzero(scores > -np.inf)
    assert rows.tolist() == allowed[best(scores[allowed], most)].tolist()
    assert found.tolist() == scores[rows].tolist()


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 60), st.integers(0, 60), st.integers(1, 20), st.integers(0, 2**32 - 1))
def test_a_sum_of_rows_depends_on_no_order(count: int, cut: int, most: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    vectors = unit_rows(random.standard_normal((count, 8)) + 1, 8, "vectors") if count else None
    rows = np.zeros((0, 12), np.uint8) if vectors is None else quantize(vectors)
    missing = random.random(count) < 0.2
    rows = without_vectors(rows, missing)
    languages = random.integers(0, 3, count).astype(np.uint16) * 7
    file = Path("vectors.u8")
    whole = sums_of([rows], languages, 8, file)
    order = random.permutation(count)
    pieces = [rows[order[start : start + most]] for start in range(0, count, most)]
    np.testing.assert_array_equal(sums_of(pieces, languages[order], 8, file), whole)
    rest = sums_of([rows[cut:]], languages[cut:], 8, file)
    first = sums_of([rows[:cut]], languages[:cut], 8, file)
    np.testing.assert_array_equal(merged_sums(first, rest), whole)
    rest[:, 1:] *= -1
    np.testing.assert_array_equal(merged_sums(whole, rest), first)
    assert whole[:, 0].tolist() == sorted(set(languages[~missing].tolist()))
    for number, counted, *total in whole.tolist():
        own = ~missing & (languages == number)
        assert counted == own.sum()
        expected = np.zeros(8) if vectors is None else vectors[own].astype(np.float64).sum(axis=0)
        np.testing.assert_allclose(np.array(total) / 2**32, expected, atol=0.01 * max(count, 1))
