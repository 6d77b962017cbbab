"""Vocabularies trained here: whole text in, the same ids on server and device."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sentencepiece import SentencePieceProcessor

from pocketquery.sdk.errors import CorpusError, InvalidInputError
from pocketquery.sdk.tokenizers.tokenizer import Tokenizer, open_tokenizer
from pocketquery.server.corpus import Group, GroupList
from pocketquery.server.corpus.new_tokenizer import (
    TokenizerConfig,
    default_vocabulary,
    train_tokenizer,
)
from pocketquery.server.modeling import SentenceEncoder, new_encoder

WORDS = "water castle geology rock teacher school pharmacy empire trade television".split()
KANJI = "水城地質岩教師学校薬帝国貿易放送日本語中"


def corpus() -> GroupList:
    """Synthetic English and Japanese, and eight lines of Russian."""
    rng = random.Random(0)
    english = [" ".join(rng.choices(WORDS, k=6)) + "." for _ in range(300)]
    japanese = ["".join(rng.choices(KANJI, k=12)) + "。" for _ in range(300)]
    russian = ["вода и замок", "школа и учитель"] * 4
    texts = {"en": english, "ja": japanese, "ru": russian}
    groups = [
        Group(f"{lang}{i}", (text,), lang=lang)
        for lang, lines in texts.items()
        for i, text in enumerate(lines)
    ]
    return GroupList(groups, "queries")


@pytest.fixture(scope="module", params=["unigram", "wordpiece"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def folder(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("trained") / kind
    train_tokenizer(corpus(), place, TokenizerConfig(kind=kind, vocabulary=600, max_length=32))
    return place


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def device(kind: str, folder: Path) -> Tokenizer:
    if kind == "wordpiece":
        return open_tokenizer("wordpiece", (folder / "tokenizer.json").read_bytes(), 512)
    return open_tokenizer("sentencepiece", (folder / "sentencepiece.bpe.model").read_bytes(), 512)


def test_specials_stand_where_encoders_expect_them(kind: str, tokenizer: Any) -> None:
    assert tokenizer.is_fast
    assert tokenizer.model_max_length == 32
    assert len(tokenizer) <= 600
    names = ["<s>", "<pad>", "</s>", "<unk>"] if kind == "unigram" else ["[PAD]", "[UNK]", "[CLS]"]
    assert tokenizer.convert_ids_to_tokens(range(len(names))) == names
    assert tokenizer.mask_token_id == (len(tokenizer) - 1 if kind == "unigram" else 4)
    ids = tokenizer("water")["input_ids"]
    assert (ids[0], ids[-1]) == (tokenizer.cls_token_id, tokenizer.sep_token_id)


def test_frequent_words_are_pieces_and_every_text_can_be_spelled(kind: str, tokenizer: Any) -> None:
    begin = "▁" if kind == "unigram" else ""
    assert tokenizer.tokenize("castle geology") == [begin + "castle", begin + "geology"]
    for text in ("water, the 39th!", "地質学校薬", "вода и школа"):
        assert tokenizer.unk_token_id not in tokenizer(text)["input_ids"]
    snowman = tokenizer.tokenize("☃")
    assert snowman == (["▁", "<0xE2>", "<0x98>", "<0x83>"] if kind == "unigram" else ["[UNK]"])


TEXTS = st.lists(
    st.one_of(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
        st.sampled_from([*WORDS, *KANJI, "вода", "☃", "<0x41>", "ﬁ", "Ａ", "e\u0301", "\u200b"]),
    ),
    max_size=8,
).map("".join)


@given(TEXTS)
def test_server_and_device_cut_alike(tokenizer: Any, device: Tokenizer, text: str) -> None:
    specials = [*tokenizer.all_special_tokens]
    if not any(special in text for special in specials):
        assert device.encode(text) == tokenizer(text, verbose=False)["input_ids"]


def test_two_orders_of_the_same_pieces_are_cut_alike(tokenizer: Any, device: Tokenizer) -> None:
    """Equally likely cuts: which is taken must not hang on rounding."""
    for unit in ("a", "ab", "水", "水城", "o", "00"):
        for times in range(1, 40):
            text = unit * times
            assert device.encode(text) == tokenizer(text, verbose=False)["input_ids"]


def test_scores_add_up_exactly(kind: str, folder: Path) -> None:
    if kind == "wordpiece":
        assert not (folder / "sentencepiece.bpe.model").exists()
        return
    model = SentencePieceProcessor(model_file=str(folder / "sentencepiece.bpe.model"))
    scores = [model.get_score(number) for number in range(model.get_piece_size())]
    assert all(score * 1024 == round(score * 1024) for score in scores)
    assert len(set(scores)) > 50


def test_the_same_corpus_gives_the_same_vocabulary(
    kind: str, tokenizer: Any, tmp_path: Path
) -> None:
    config = TokenizerConfig(kind=kind, vocabulary=600)
    again = train_tokenizer(corpus(), tmp_path / "again", config)
    assert again.get_vocab() == tokenizer.get_vocab()
    other = GroupList([Group("a", (" ".join(WORDS[:4]),))] * 9, "queries")
    # A second one takes the first one's place.
    assert train_tokenizer(other, tmp_path / "again", config).get_vocab() != again.get_vocab()


def test_small_languages_are_heard(kind: str, tmp_path: Path) -> None:
    """Forty lines beside four hundred get more pieces as equals (exponent 0) than as they are."""
    english, russian = made_up_lines("abcdefghij", 400), made_up_lines("абвгдежзик", 40)
    groups = [Group(text, (text,), lang="en") for text in english]
    groups += [Group(text, (text,), lang="ru") for text in russian]
    pieces, size = [], 450 if kind == "unigram" else 250
    for exponent in (0.0, 1.0):
        config = TokenizerConfig(kind=kind, vocabulary=size, exponent=exponent, coverage=1.0)
        made = train_tokenizer(GroupList(groups, "queries"), tmp_path / "t", config)
        pieces.append(sum(len(made.tokenize(text)) for text in russian))
    assert pieces[0] < 0.7 * pieces[1]


def made_up_lines(letters: str, count: int) -> list[str]:
    """Lines of six of sixty words."""
    rng = random.Random(0)
    words = ["".join(rng.choices(letters, k=5)) for _ in range(60)]
    return [" ".join(rng.choices(words, k=6)) for _ in range(count)]


def test_an_encoder_is_made_on_it_and_comes_back(kind: str, folder: Path, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    encoder = new_encoder("nano", AutoTokenizer.from_pretrained(folder), max_length=16)
    encoder.save(tmp_path / "model")
    again = SentenceEncoder.load(tmp_path / "model")
    assert again.space_id == encoder.space_id
    text = ["water ☃ 水城 " * 9]
    assert (again.encode(text) == encoder.encode(text)).all()
    assert again.tokenizer.tokenize("☃") == encoder.tokenizer.tokenize("☃")


def test_lower_case_is_folded_or_kept(tmp_path: Path) -> None:
    source = GroupList([Group(str(i), ("Café Müller",)) for i in range(20)], "queries")
    for lowercase, expected in ((True, ["cafe", "muller"]), (False, ["Café", "Müller"])):
        config = TokenizerConfig(kind="wordpiece", vocabulary=300, lowercase=lowercase)
        made = train_tokenizer(source, tmp_path / str(lowercase), config)
        assert made.tokenize("Café Müller") == expected


def test_long_texts_count(tmp_path: Path) -> None:
    """Sentencepiece would leave out texts above 4,192 bytes without a word."""
    long = " ".join(made_up_lines("абвгдежзик", 100))
    source = GroupList([Group("a", (long,)), Group("b", ("aside",))], "queries")
    made = train_tokenizer(source, tmp_path / "t", TokenizerConfig(vocabulary=500))
    assert not any(piece.startswith("<0x") for piece in made.tokenize("где"))


def test_what_cannot_be_trained(tmp_path: Path, kind: str) -> None:
    config = TokenizerConfig(kind=kind, vocabulary=20)
    with pytest.raises(InvalidInputError, match="no vocabulary of"):
        train_tokenizer(corpus(), tmp_path / "t", config)
    with pytest.raises(CorpusError, match="no text to train"):
        train_tokenizer(GroupList([Group("a", (" ",))], "queries"), tmp_path / "t", config)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(InvalidInputError, match="is not a tokenizer's folder"):
        train_tokenizer(corpus(), tmp_path, config)  # a model's folder


def test_a_vocabulary_too_small_for_its_letters_is_refused_with_the_least_that_does(
    tmp_path: Path,
) -> None:
    def train(size: int) -> Any:
        config = TokenizerConfig(kind="wordpiece", vocabulary=size, coverage=1.0)
        return train_tokenizer(corpus(), tmp_path / "t", config)

    with pytest.raises(InvalidInputError, match=r"alone are \d+; expected at least") as caught:
        train(150)
    assert not (tmp_path / "t").exists()
    least = int(str(caught.value).split("alone are ")[1].split(";")[0])
    with pytest.raises(InvalidInputError, match=f"alone are {least};"):
        train(least - 1)
    made = train(least)
    assert len(made) == least
    assert made.unk_token_id not in made("地質学校薬, вода и школа! #1 zebra")["input_ids"]


def test_sizes_and_settings() -> None:
    sizes = [default_vocabulary(count) for count in (0, 1, 2, 5, 6, 15, 16)]
    assert sizes == [8_000, 8_000, 16_000, 16_000, 32_000, 32_000, 64_000]
    with pytest.raises(InvalidInputError, match='kind is "bpe"'):
        TokenizerConfig(kind="bpe")
    for options in ({"vocabulary": -1}, {"coverage": 0.0}, {"coverage": 1.1}):
        with pytest.raises(InvalidInputError, match="expected a positive number"):
            TokenizerConfig(**options)
