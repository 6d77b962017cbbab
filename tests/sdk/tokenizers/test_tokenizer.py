from __future__ import annotations

import subprocess
import sys

import pytest

from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError
from pocketquery.sdk.tokenizers.sentencepiece_model import SentencePieceTokenizer
from pocketquery.sdk.tokenizers.tokenizer import open_tokenizer
from pocketquery.sdk.tokenizers.wordpiece import WordPieceTokenizer
from tests.sdk.diverse_text import rich_wordpiece
from tests.sdk.multilingual_model import made_up_texts, train_model

WORDPIECE = rich_wordpiece()


@pytest.fixture(scope="module")
def model() -> bytes:
    return train_model()


def test_wordpiece() -> None:
    ours = open_tokenizer("wordpiece", WORDPIECE, 8, {})
    assert ours.encode("the sea " * 9) == WordPieceTokenizer(WORDPIECE, 8).encode("the sea " * 9)


def test_sentencepiece(model: bytes) -> None:
    text = made_up_texts(1, seed=3)[0]
    cases: list[tuple[dict[str, object], SentencePieceTokenizer]] = [
        ({}, SentencePieceTokenizer(model, 8)),
        ({"layout": "plain"}, SentencePieceTokenizer(model, 8, "plain")),
        ({"known_pieces": 50}, SentencePieceTokenizer(model, 8, known_pieces=50)),
    ]
    for options, expected in cases:
        ours = open_tokenizer("sentencepiece", model, 8, options)
        assert ours.encode(text) == expected.encode(text)
        assert ours.vocabulary_size == expected.vocabulary_size


def test_refusals(model: bytes) -> None:
    with pytest.raises(InvalidInputError, match="found the tokenizer kind 'bpe', expected"):
        open_tokenizer("bpe", WORDPIECE, 8)
    with pytest.raises(InvalidInputError, match=r"options \['layout'\]"):
        open_tokenizer("wordpiece", WORDPIECE, 8, {"layout": "plain"})
    with pytest.raises(InvalidInputError, match=r"options \['shift'\]"):
        open_tokenizer("sentencepiece", model, 8, {"shift": 1})
    with pytest.raises(InvalidInputError, match=r"found the layout \['plain'\]"):
        open_tokenizer("sentencepiece", model, 8, {"layout": ["plain"]})
    with pytest.raises(CorruptArtifactError):
        open_tokenizer("sentencepiece", WORDPIECE, 8)
    with pytest.raises(CorruptArtifactError):
        open_tokenizer("wordpiece", model, 8)


def test_wordpiece_loads_no_other_package() -> None:
    code = (
        "import sys; from pocketquery.sdk.tokenizers.tokenizer import open_tokenizer; "
        "print(sorted({'sentencepiece', 'tokenizers', 'transformers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
