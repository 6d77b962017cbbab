from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from pocketquery.client.views.augmenter_choice import choose
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.objectives.augmenter_catalogue import CATALOGUE
from pocketquery_research.augmentation.lexicon import LexiconConfig, nearest_words, write_lexicon
from pocketquery_research.augmentation.rules.synonyms import read_synonyms
from pocketquery_research.augmentation.word2vec import Word2VecConfig, WordVectors, train_word2vec

WORDS = ("the", "car", "auto", "bus", "rare", "b2b", "x", "駅")
ANGLES = np.deg2rad([0, 0, 10, 40, 1, 2, 3, 4])
VECTORS = WordVectors(WORDS, np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1).astype(np.float32))
TEXTS = ["the " * 900, "car " * 20, "auto " * 10, "bus " * 10, "rare", "b2b x 駅 " * 10]
OPEN = LexiconConfig(most_share=1.0, most_ratio=1e6, least_count=1)


def test_filters_are_what_they_say() -> None:
    strict = LexiconConfig(most_share=0.1)
    assert nearest_words(VECTORS, TEXTS, strict) == {
        "car": ("auto", "bus"),
        "auto": ("car", "bus"),
        "bus": ("auto", "car"),
    }
    assert nearest_words(VECTORS, TEXTS, OPEN)["car"] == ("the", "rare", "auto", "bus")
    near = LexiconConfig(most_share=0.1, least_cosine=0.9)
    assert nearest_words(VECTORS, TEXTS, near) == {"car": ("auto",), "auto": ("car",)}
    one = LexiconConfig(most_share=0.1, neighbours=1)
    assert nearest_words(VECTORS, TEXTS, one) == {
        "car": ("auto",),
        "auto": ("car",),
        "bus": ("auto",),
    }
    ratio = LexiconConfig(most_share=0.1, most_ratio=1.5)
    assert nearest_words(VECTORS, TEXTS, ratio) == {"auto": ("bus",), "bus": ("auto",)}
    assert nearest_words(VECTORS, [], strict) == {}


def test_words_used_alike_are_found_in_a_corpus_and_used(tmp_path: Path) -> None:
    rng = random.Random(0)
    frames = {
        "car": ["drive my {} to the garage", "park a {} near the road"],
        "cat": ["feed my {} with milk", "my {} sleeps on the sofa"],
    }
    names = {"car": ("car", "auto"), "cat": ("cat", "kitten")}
    texts = []
    for _ in range(1500):
        kind = rng.choice(["car", "cat"])
        texts.append(rng.choice(frames[kind]).format(rng.choice(names[kind])))
    config = Word2VecConfig(dimension=16, window=2, subsampling=1.0, batch_size=512, epochs=20)
    vectors = train_word2vec(texts, config)
    table = nearest_words(vectors, texts, LexiconConfig(most_share=0.5, neighbours=1))
    pairs = (("car", "auto"), ("auto", "car"), ("cat", "kitten"), ("kitten", "cat"))
    assert [table[word] for word, _ in pairs] == [(other,) for _, other in pairs]
    file = tmp_path / "words.tsv"
    write_lexicon(file, table)
    assert read_synonyms(file) == table
    lexicon = choose({"name": "lexicon", "path": str(file), "rate": 1.0}, CATALOGUE)
    assert lexicon.augment("Kitten!", rng).text == "Cat!"
    assert vars(choose({"name": "lexicon", "path": str(file)}, CATALOGUE))["rate"] == 0.1


def test_a_file_of_something_else_is_left_alone(tmp_path: Path) -> None:
    place = tmp_path / "words.tsv"
    place.write_text("car\tautomobile\n")
    for strange in (place, tmp_path):
        with pytest.raises(InvalidInputError, match=r"left alone|is a folder"):
            write_lexicon(strange, {"a": ("b",)})
    assert place.read_text() == "car\tautomobile\n"
    for words in ({"a": ("b",)}, {}):
        write_lexicon(tmp_path / "new.tsv", words)
    assert read_synonyms(tmp_path / "new.tsv") == {}
