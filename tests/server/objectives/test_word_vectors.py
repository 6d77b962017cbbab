"""Averages of word vectors, words in several scripts, and the file they are kept in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pocketquery.sdk.errors import ArtifactNotFoundError, CorruptArtifactError
from pocketquery.server.objectives.word_vectors import WordVectors, words_of

WORDS = WordVectors(("tree", "apple", "天"), np.array([[1, 0], [0, 2], [3, 3]], np.float32))


def test_a_text_is_the_mean_of_its_known_words_and_unknown_ones_are_counted() -> None:
    found, unknown = WORDS.averages(["Apple tree!", "an apple tree, an APPLE", "pear", "", "天"])
    expected = np.array([[0.5, 1], [1 / 3, 4 / 3], [0, 0], [0, 0], [3, 3]])
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert unknown == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("How's the «weather» — today?", ["how's", "the", "weather", "today"]),
        ("今日は？", ["今", "日", "は"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("...", []),
    ],
)
def test_words_are_cut_as_their_script_writes_them(text: str, words: list[str]) -> None:
    assert words_of(text) == words


def test_what_is_saved_is_read_again(tmp_path: Path) -> None:
    WORDS.save(tmp_path / "words.npz")
    found = WordVectors.load(tmp_path / "words.npz")
    assert found.words == WORDS.words
    assert np.array_equal(found.vectors, WORDS.vectors)


def test_files_without_word_vectors_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArtifactNotFoundError, match="no such file"):
        WordVectors.load(tmp_path / "words.npz")
    (tmp_path / "words.npz").write_bytes(b"PK no archive")
    with pytest.raises(CorruptArtifactError, match="holds no word vectors"):
        WordVectors.load(tmp_path / "words.npz")
    WordVectors(("a", "b"), WORDS.vectors).save(tmp_path / "short.npz")
    with pytest.raises(CorruptArtifactError, match="2 words and vectors of the shape"):
        WordVectors.load(tmp_path / "short.npz")
