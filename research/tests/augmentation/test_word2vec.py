"""Skip-gram: the loss by hand, the pairs against the plain loop, what is learnt, and its file."""

from __future__ import annotations

import math
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from pocketquery.sdk.errors import ArtifactNotFoundError, CorruptArtifactError, InvalidInputError
from pocketquery_research.augmentation.word2vec import (
    Word2VecConfig,
    WordVectors,
    _pairs,
    skip_gram_loss,
    train_word2vec,
    words_of,
)

SMALL = Word2VecConfig(
    dimension=16, min_count=1, subsampling=1.0, epochs=10, batch_size=512, learning_rate=0.01
)


def topics(count: int = 600) -> list[str]:
    """Texts over three topics of eight words each, which never meet."""
    rng = random.Random(0)
    return [
        " ".join(rng.choices([f"{topic}{i}" for i in range(8)], k=6))
        for topic in (rng.choice("abc") for _ in range(count))
    ]


def test_the_loss_by_hand() -> None:
    words, contexts = torch.tensor([[1.0, 0.0]]), torch.tensor([[2.0, 5.0]])
    negatives = torch.tensor([[[-1.0, 0.0], [3.0, 0.0]]])
    none = torch.zeros(1, 2, dtype=torch.bool)

    def sigmoid(x: float) -> float:
        return 1 / (1 + math.exp(-x))

    expected = -math.log(sigmoid(2)) - math.log(sigmoid(1)) - math.log(sigmoid(-3))
    found = skip_gram_loss(words, contexts, negatives, none)
    assert found.item() == pytest.approx(expected, rel=1e-6)
    # A word drawn that is the neighbour itself does not count.
    without = skip_gram_loss(words, contexts, negatives, torch.tensor([[False, True]]))
    assert without.item() == pytest.approx(expected + math.log(sigmoid(-3)), rel=1e-6)
    zero = skip_gram_loss(0 * words, contexts, negatives, none)
    assert zero.item() == pytest.approx(3 * math.log(2))


def test_the_gradient_is_right() -> None:
    torch.manual_seed(0)
    given = [torch.randn(*s, dtype=torch.float64, requires_grad=True) for s in ((3, 4), (3, 4))]
    negatives = torch.randn(3, 2, 4, dtype=torch.float64, requires_grad=True)
    same = torch.tensor([[False, False], [True, False], [False, True]])
    assert torch.autograd.gradcheck(
        lambda w, c, n: skip_gram_loss(w, c, n, same), (*given, negatives)
    )


def test_pairs_are_those_of_the_plain_loop() -> None:
    sentences = [[0, 1, 2, 3], [4], [], [5, 6]]
    found = _pairs(sentences, np.ones(7), 1, np.random.default_rng(0))
    expected = {(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2), (5, 6), (6, 5)}
    assert Counter(map(tuple, found.tolist())) == Counter(expected)


def test_near_words_are_paired_more_often() -> None:
    rng, found = np.random.default_rng(0), Counter[int]()
    for _ in range(3000):
        pairs = _pairs([[0, 1, 2, 3]], np.ones(4), 3, rng)
        found.update(int(context) for word, context in pairs.tolist() if word == 0)
    # The reach of 0 is 1, 2 or 3, evenly.
    assert found[1] == 3000
    assert found[2] == pytest.approx(2000, abs=120)
    assert found[3] == pytest.approx(1000, abs=120)


def test_frequent_words_are_left_out_and_what_is_left_moves_together() -> None:
    kept = np.array([0.0, 1.0, 1.0])
    pairs = _pairs([[1, 0, 2]], kept, 1, np.random.default_rng(0))
    assert sorted(map(tuple, pairs.tolist())) == [(1, 2), (2, 1)]
    assert len(_pairs([[0, 0]], kept, 2, np.random.default_rng(0))) == 0


def test_words_of_a_topic_come_to_lie_together() -> None:
    found = train_word2vec(topics(), SMALL)
    unit = found.vectors / np.linalg.norm(found.vectors, axis=1, keepdims=True)
    cosines = unit @ unit.T
    topic = np.array([word[0] for word in found.words])
    same = (topic[:, None] == topic) & ~np.eye(len(topic), dtype=bool)
    other = topic[:, None] != topic
    assert cosines[same].min() > cosines[other].max()
    assert cosines[same].mean() > cosines[other].mean() + 0.4


def test_equal_seeds_give_equal_vectors() -> None:
    config = Word2VecConfig(dimension=8, min_count=1, epochs=1, batch_size=64)
    one, again = (train_word2vec(topics(50), config).vectors for _ in range(2))
    assert np.array_equal(one, again)


def test_rare_words_are_unknown_and_frequent_ones_come_first() -> None:
    config = Word2VecConfig(dimension=4, min_count=2, epochs=1)
    assert train_word2vec(["b a b", "a b rare"], config).words == ("b", "a")
    with pytest.raises(InvalidInputError, match="no word of the 1 texts occurs 2 times"):
        train_word2vec(["each word once"], config)


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
