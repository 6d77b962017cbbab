from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketquery import sdk
from pocketquery.sdk.encoder import Encoder
from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError
from pocketquery.sdk.tokenizers.wordpiece import WordPieceTokenizer
from tests.sdk.tiny_bundle import (
    DIMENSION,
    MAX_LENGTH,
    SPACE_ID,
    golden_ids,
    reference_vector,
    tiny_files,
    trained_adapter,
    write_tiny_bundle,
)

TEXTS = ["how do plants make sugar", "the sea", "x", "", "Zürich! " * 30]


@pytest.fixture(scope="module")
def encoder(tiny_bundle: Path) -> Encoder:
    return sdk.load(tiny_bundle)


def test_it_says_what_it_is(encoder: Encoder) -> None:
    assert encoder.name == "tiny"
    assert encoder.version == "1"
    assert encoder.space_id == SPACE_ID
    assert encoder.dimension == DIMENSION
    assert encoder.max_length == MAX_LENGTH
    assert encoder.manifest.license == "Apache-2.0"
    assert repr(encoder) == (
        "Encoder(name='tiny', version='1', languages='unknown', dimension=16, "
        f"max_length={MAX_LENGTH}, space_id='{SPACE_ID}')"
    )


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_gives_the_vector_of_its_ids(encoder: Encoder, text: str) -> None:
    assert encoder.tokenize(text) == golden_ids(text)
    vector = encoder.encode(text)
    assert vector.dtype == np.float32
    assert vector.shape == (DIMENSION,)
    np.testing.assert_allclose(vector, reference_vector(golden_ids(text)), atol=1e-6)
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-6)


def test_a_list_gives_a_row_for_each_equal_to_the_bit(encoder: Encoder) -> None:
    vectors = encoder.encode(TEXTS)
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(TEXTS), DIMENSION)
    for text, vector in zip(TEXTS, vectors, strict=True):
        assert np.array_equal(vector, encoder.encode(text))
    assert encoder.encode([]).shape == (0, DIMENSION)
    assert np.array_equal(encoder.encode(tuple(TEXTS)), vectors)


def test_an_empty_and_a_blank_text_are_the_special_tokens_alone(encoder: Encoder) -> None:
    assert encoder.tokenize("") == encoder.tokenize(" \t\n") == [2, 3]
    assert np.array_equal(encoder.encode(""), encoder.encode("   "))


@given(text=st.text())
def test_any_unicode_gives_a_unit_vector(encoder: Encoder, text: str) -> None:
    vector = encoder.encode(text)
    assert np.isfinite(vector).all()
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)
    assert encoder.tokenize(text) == golden_ids(text)


@given(text=st.text(alphabet=st.characters(categories=["Cc", "Cf", "Zs"]), max_size=8))
def test_the_tokenizer_judges_control_characters(encoder: Encoder, text: str) -> None:
    assert encoder.tokenize(text) == golden_ids(text)


def test_a_long_text_is_not_cut_whole(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    text = " ".join(f"plant{number}" for number in range(100_000))  # each of them new
    cut: list[str] = []
    pieces = WordPieceTokenizer.pieces

    def counted(tokenizer: WordPieceTokenizer, word: str) -> tuple[int, ...]:
        cut.append(word)
        return pieces(tokenizer, word)

    monkeypatch.setattr(WordPieceTokenizer, "pieces", counted)
    assert len(encoder.tokenize(text)) == MAX_LENGTH
    assert 0 < len(cut) <= MAX_LENGTH
    assert np.array_equal(encoder.encode(text), encoder.encode(text[:1000]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda e: e.encode(None), "NoneType, expected a str or a list"),
        (lambda e: e.encode(3), "int, expected a str or a list"),
        (lambda e: e.encode(b"a"), "bytes, expected a str or a list"),
        (lambda e: e.encode(["a", None]), r"sentences\[1\] is a NoneType"),
        (lambda e: e.encode(["a", ["b"]]), r"sentences\[1\] is a list"),
        (lambda e: e.encode("a\ud800"), r"U\+D800 at position 1"),
        (lambda e: e.encode(["a", "b", "\udfff"]), r"sentences\[2\].*U\+DFFF at position 0"),
        (lambda e: e.tokenize(3), "int, expected a str"),
        (lambda e: e.encode("a", prompt_name="passage"), "knows: 'document', 'query'"),
        (lambda e: e.encode("a", prompt=3), "the prompt is a int"),
        (lambda e: e.encode("a", batch_size=0), "batch_size is 0"),
        (lambda e: e.encode("a", batch_size="8"), "batch_size is '8', expected a whole number"),
        (lambda e: e.encode("a", truncate_dim=0), "truncate_dim is 0, expected .*1 to 16"),
        (lambda e: e.encode("a", truncate_dim=17), "truncate_dim is 17, expected .*1 to 16"),
        (lambda e: e.encode("a", truncate_dim=2.5), "truncate_dim is 2.5, expected .*1 to 16"),
        (lambda e: e.encode("a", prompt_name=["query"]), "prompt_name is \\['query'\\]"),
    ],
)
def test_bad_input_is_refused_with_the_reason(
    encoder: Encoder, call: Callable[[Any], object], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        call(encoder)


def test_prompts_go_before_the_text(encoder: Encoder, tmp_path: Path) -> None:
    plain, asked = encoder.encode("the sea"), encoder.encode("query: the sea")
    assert not np.array_equal(plain, asked)
    assert np.array_equal(encoder.encode("the sea", prompt_name="query"), asked)
    assert np.array_equal(encoder.encode("the sea", prompt="query: "), asked)
    assert np.array_equal(encoder.encode("the sea", prompt="", prompt_name="query"), plain)
    assert np.array_equal(encoder.encode(["x", "the sea"], prompt_name="query")[1], asked)
    assert np.array_equal(encoder.encode_query("the sea"), asked)
    assert np.array_equal(encoder.encode_query("the sea", prompt_name="document"), plain)
    assert np.array_equal(encoder.encode_query(["the sea"], prompt="")[0], plain)
    default = sdk.load(write_tiny_bundle(tmp_path / "b", default_prompt_name="query"))
    assert np.array_equal(default.encode("the sea"), asked)
    assert np.array_equal(default.encode("the sea", prompt_name="document"), plain)
    without = sdk.load(write_tiny_bundle(tmp_path / "c", prompts={}))
    assert np.array_equal(without.encode_query("the sea"), plain)


def test_a_truncated_vector_is_normalised_again_unless_told_otherwise(encoder: Encoder) -> None:
    whole = encoder.encode(TEXTS)
    cut = encoder.encode(TEXTS, truncate_dim=4)
    assert cut.shape == (len(TEXTS), 4)
    assert cut.dtype == np.float32
    expected = whole[:, :4] / np.linalg.norm(whole[:, :4], axis=1, keepdims=True)
    np.testing.assert_allclose(cut, expected, atol=1e-6)
    raw = encoder.encode(TEXTS, truncate_dim=4, normalize_embeddings=False)
    assert np.array_equal(raw, whole[:, :4])
    assert encoder.encode("x", truncate_dim=4).shape == (4,)


def test_the_progress_bar_goes_to_stderr(
    encoder: Encoder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pocketquery.sdk.progress._SECONDS_BETWEEN_LINES", 0.0)
    vectors = encoder.encode(TEXTS, show_progress_bar=True, batch_size=2)
    out, err = capsys.readouterr()
    assert out == ""
    assert f"{len(TEXTS)}/{len(TEXTS)}" in err
    assert np.array_equal(vectors, encoder.encode(TEXTS))


def test_eight_threads_get_what_one_gets(encoder: Encoder) -> None:
    texts = [f"{text} {n}" for n in range(40) for text in TEXTS]
    expected = encoder.encode(texts)
    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(lambda _: np.stack(list(map(encoder.encode, texts))), range(8)):
            assert np.array_equal(found, expected)


def test_the_bundles_adapter_moves_the_vectors(encoder: Encoder, tmp_path: Path) -> None:
    adapter = trained_adapter()
    adapted = sdk.load(write_tiny_bundle(tmp_path / "b", adapter=adapter))
    expected = reference_vector(golden_ids("the sea"), adapter)
    np.testing.assert_allclose(adapted.encode("the sea"), expected, atol=1e-6)
    assert not np.allclose(adapted.encode("the sea"), encoder.encode("the sea"))


def test_more_threads_inside_a_call_give_the_same_text(tiny_bundle: Path, encoder: Encoder) -> None:
    threaded = sdk.load(tiny_bundle, num_threads=2)
    np.testing.assert_allclose(threaded.encode(TEXTS), encoder.encode(TEXTS), atol=1e-6)


def test_no_more_threads_than_cores(tiny_bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import onnxruntime

    made, session = [], onnxruntime.InferenceSession

    def noted(model: bytes, options: onnxruntime.SessionOptions, **rest: Any) -> Any:
        made.append(options.intra_op_num_threads)
        return session(model, options, **rest)

    monkeypatch.setattr(onnxruntime, "InferenceSession", noted)
    sdk.load(tiny_bundle, num_threads=100_000)
    assert made == [os.cpu_count()]


@pytest.mark.parametrize("name", sorted(tiny_files()))
def test_a_tampered_file_is_named_unless_hashes_are_skipped(tmp_path: Path, name: str) -> None:
    path = write_tiny_bundle(tmp_path / "b")
    data = bytearray((path / name).read_bytes())
    data[-5] ^= 1
    (path / name).write_bytes(data)
    if name == "golden.json":  # no part of encoding; verify reads it
        sdk.load(path)
        with pytest.raises(CorruptArtifactError, match=name):
            sdk.verify(path)
        return
    with pytest.raises(CorruptArtifactError, match=f"{name} has SHA-256"):
        sdk.load(path)
