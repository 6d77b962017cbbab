from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sentencepiece import SentencePieceProcessor

from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError
from pocketquery.sdk.tokenizers.sentencepiece_model import SentencePieceTokenizer
from pocketquery.server.modeling.sentencepiece_tokenizer import xlm_roberta_tokenizer
from tests.sdk.diverse_text import diverse_strings
from tests.sdk.multilingual_model import made_up_texts, train_model

LITERALS = ["<s>", "</s>", "<pad>", "<unk>", "<mask>", "< mask>", "<s", "</s></s>"]


@pytest.fixture(scope="module")
def model() -> bytes:
    return train_model()


@pytest.fixture(scope="module")
def reference(model: bytes, tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("xlm-roberta") / "sentencepiece.bpe.model"
    Path(path).write_bytes(model)
    return xlm_roberta_tokenizer(path)


def test_layout_of_xlm_roberta(model: bytes) -> None:
    ours = SentencePieceTokenizer(model, 16)
    pieces = SentencePieceProcessor(model_proto=model)
    size = pieces.get_piece_size()
    assert ours.vocabulary_size == size + 2
    assert ours.tokens([0, 1, 2, 3, size + 1]) == ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    assert ours.tokens(range(4, size + 1)) == [pieces.id_to_piece(i) for i in range(3, size)]
    assert ours.encode("") == [0, 2]
    assert ours.encode("Ω≈") == [0, pieces.piece_to_id("▁") + 1, 3, 2]


def test_a_known_sentence(model: bytes) -> None:
    """Each number of the model one higher: off by one would ruin every imported embedding."""
    pieces = SentencePieceProcessor(model_proto=model)
    text = made_up_texts(1, seed=4)[0]
    assert 0 not in pieces.encode(text)
    expected = [0, *(number + 1 for number in pieces.encode(text)), 2]
    assert SentencePieceTokenizer(model, 512).encode(text) == expected


def test_same_ids_as_transformers(model: bytes, reference: Any) -> None:
    ours = SentencePieceTokenizer(model, 512)
    rng = random.Random(6)
    parts = [
        *made_up_texts(200, seed=5),
        *LITERALS,
        " ",
        "  ",
        "\n",
        "é",
        "e\u0301",
        "ﬁ",
        "\0",
        "▁",
        "日",
    ]
    for _ in range(3000):
        text = "".join(rng.choices(parts, k=rng.randint(1, 6)))
        _assert_same(model, ours.encode(text), reference(text)["input_ids"], text)


def test_same_ids_as_transformers_on_strings_of_every_kind(model: bytes, reference: Any) -> None:
    """Wherever both normalise alike: transformers maps whole graphemes, sentencepiece the text."""
    ours, pieces = SentencePieceTokenizer(model, 9999), SentencePieceProcessor(model_proto=model)
    normalize = reference.backend_tokenizer.normalizer.normalize_str
    compared = 0
    for text in diverse_strings(5000, seed=7):
        parts = re.split("|".join(LITERALS[:5]), text)
        if all(_same(pieces.normalize(part), normalize(part)) for part in parts):
            _assert_same(model, ours.encode(text), reference(text)["input_ids"], text)
            compared += 1
    assert compared > 4500


def _assert_same(model: bytes, ours: list[int], theirs: list[int], text: str) -> None:
    """The same ids, or two segmentations that are equally probable to the last bit of a float."""
    if ours != theirs:
        pieces = SentencePieceProcessor(model_proto=model)
        scores = [
            sum(pieces.get_score(i - 1) for i in ids if 3 < i <= pieces.get_piece_size())
            for ids in (ours, theirs)
        ]
        assert scores[0] == pytest.approx(scores[1], rel=1e-6), ascii(text)
        assert ours.count(3) == theirs.count(3), ascii(text)


def _same(ours: str, theirs: str) -> bool:
    return ours.strip("▁") == theirs.replace(" ", "▁").strip("▁")


@given(st.text(max_size=30))
def test_plain_is_the_model_itself(text: str) -> None:
    pieces = SentencePieceProcessor(model_proto=PLAIN)
    ours = SentencePieceTokenizer(PLAIN, 999, "plain")
    assert ours.encode(text) == [pieces.bos_id(), *pieces.encode(text), pieces.eos_id()]


PLAIN = train_model(model_type="bpe", byte_fallback=True, vocab_size=600)


def test_plain_without_beginning_and_end() -> None:
    model = train_model(bos_id=-1, eos_id=-1)
    ours, pieces = (
        SentencePieceTokenizer(model, 9, "plain"),
        SentencePieceProcessor(model_proto=model),
    )
    text = made_up_texts(1, seed=8)[0]
    assert ours.encode(text) == pieces.encode(text)[:9]
    assert ours.vocabulary_size == pieces.get_piece_size()
    assert ours.tokens([0, 5]) == ["<unk>", pieces.id_to_piece(5)]


def test_truncation_keeps_the_special_tokens(model: bytes) -> None:
    text = " ".join(made_up_texts(5, seed=9))
    whole = SentencePieceTokenizer(model, 999).encode(text)
    for max_length in (3, 4, 10, len(whole) - 1, len(whole)):
        ids = SentencePieceTokenizer(model, max_length).encode(text)
        assert ids == [*whole[: max_length - 1], 2][:max_length]


def test_pieces_from_known_pieces_on_are_unknown(model: bytes) -> None:
    text = " ".join(made_up_texts(20, seed=10))
    whole = SentencePieceTokenizer(model, 999).encode(text)
    part = SentencePieceTokenizer(model, 999, known_pieces=200)
    assert part.encode(text) == [number if number <= 200 else 3 for number in whole]
    assert part.encode("<mask>") == [0, 201, 2]
    assert part.vocabulary_size == 202
    assert part.tokens([201]) == ["<mask>"]


def test_xlm_roberta_needs_its_specials_first() -> None:
    model = train_model(unk_id=1, bos_id=0)
    with pytest.raises(CorruptArtifactError, match=r"at \(1, 0, 2\), expected them at \(0, 1, 2\)"):
        SentencePieceTokenizer(model, 9)
    assert SentencePieceTokenizer(model, 9, "plain").encode("")[0] == 0


@pytest.mark.parametrize("cut", [0, 1, 100, -3])
def test_damaged_models(model: bytes, cut: int) -> None:
    with pytest.raises(CorruptArtifactError, match=r"tokenizer\.model: found \d+ bytes"):
        SentencePieceTokenizer(model[:cut], 9)


def test_not_a_model() -> None:
    with pytest.raises(CorruptArtifactError, match="not a sentencepiece model"):
        SentencePieceTokenizer(b'{"model": {}}', 9)


def test_bad_arguments(model: bytes) -> None:
    with pytest.raises(InvalidInputError, match="found the layout 'bert'"):
        SentencePieceTokenizer(model, 9, "bert")
    with pytest.raises(InvalidInputError, match="max_length is 2, expected at least 3"):
        SentencePieceTokenizer(model, 2)
    for known in (3, 10_000, True):
        with pytest.raises(InvalidInputError, match="known_pieces is"):
            SentencePieceTokenizer(model, 9, known_pieces=known)
    with pytest.raises(InvalidInputError, match="found the id -1"):
        SentencePieceTokenizer(model, 9).tokens([-1])


def test_lone_surrogates_are_refused(model: bytes) -> None:
    with pytest.raises(InvalidInputError, match="lone surrogates"):
        SentencePieceTokenizer(model, 9).encode("a\ud800b")
