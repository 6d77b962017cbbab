from __future__ import annotations

import copy
import json
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sentencepiece import SentencePieceProcessor
from tokenizers import Tokenizer as ReferenceTokenizer
from transformers import BertConfig, BertModel

from pocketquery.distill.pruning.vocabulary import (
    PrunedVocabulary,
    prune_vocabulary,
    slice_embeddings,
)
from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError
from pocketquery.sdk.tokenizers.tokenizer import Tokenizer, open_tokenizer
from tests.sdk.diverse_text import SPECIALS, added_token, diverse_strings, rich_wordpiece
from tests.sdk.multilingual_model import made_up_texts, train_model

LENGTH = 64
WORDPIECE = rich_wordpiece()
SENTENCEPIECE = train_model()
CORPUS = ["the sea in the first world", "who won the world", "tion and ing", "café, who?", "世界"]
SAMPLE = made_up_texts(30, seed=11)


def _vectors(model: BertModel, batch: Sequence[list[int]]) -> NDArray[np.float32]:
    with torch.no_grad():
        outputs = [model(torch.tensor([ids])).last_hidden_state.mean(1) for ids in batch]
    return np.asarray(torch.cat(outputs).numpy(), dtype=np.float32)


def _model(size: int) -> BertModel:
    torch.manual_seed(3)
    config = BertConfig(
        vocab_size=size,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=LENGTH,
    )
    return BertModel(config, add_pooling_layer=False).eval()


def _pruned_model(model: BertModel, kept: NDArray[np.int64]) -> BertModel:
    pruned = _model(len(kept))
    state = model.state_dict()
    name = "embeddings.word_embeddings.weight"
    pruned.load_state_dict(state | {name: slice_embeddings(state[name], kept)})
    return pruned.eval()


def _opened(pruned: PrunedVocabulary, kind: str) -> Tokenizer:
    return open_tokenizer(kind, pruned.tokenizer_file, LENGTH, pruned.options)


@pytest.mark.parametrize(
    ("kind", "mode"),
    [("wordpiece", "rebuild"), ("sentencepiece", "rebuild"), ("sentencepiece", "remap")],
)
def test_texts_of_kept_pieces_keep_ids_and_vectors(kind: str, mode: str) -> None:
    data, texts, more = {
        "wordpiece": (WORDPIECE, CORPUS, list(diverse_strings(3000, seed=1))),
        "sentencepiece": (SENTENCEPIECE, SAMPLE, made_up_texts(500, seed=12)),
    }[kind]
    pruned = prune_vocabulary(data, kind, iter(texts), mode=mode, coverage=1.0)
    before, after = open_tokenizer(kind, data, LENGTH), _opened(pruned, kind)
    new = {int(old): number for number, old in enumerate(pruned.retained)}
    batch = [(before.encode(text), after.encode(text)) for text in [*texts, *more]]
    kept = [(old, ids) for old, ids in batch if new.keys() >= set(old)]
    assert len(texts) < len(kept) < len(batch)
    for old, ids in kept:
        assert ids == [new[number] for number in old]
        assert after.tokens(ids) == before.tokens(old)

    model = _model(before.vocabulary_size)
    small = _pruned_model(model, pruned.retained)
    sample = kept[:60]
    expected = _vectors(model, [old for old, _ in sample])
    np.testing.assert_allclose(_vectors(small, [ids for _, ids in sample]), expected, atol=1e-6)


def test_no_word_becomes_unknown() -> None:
    pruned = prune_vocabulary(WORDPIECE, "wordpiece", CORPUS)
    before, after = open_tokenizer("wordpiece", WORDPIECE, 500), _opened(pruned, "wordpiece")
    assert pruned.statistics["size_after"] < pruned.statistics["size_before"]
    for text in diverse_strings(5000, seed=2):
        for word in text.split():
            if before.unknown_id not in before.encode(word)[:LENGTH]:
                assert after.unknown_id not in after.encode(word), ascii(word)


@given(st.text())
def test_no_text_becomes_unknown(text: str) -> None:
    for before, after in PAIRS:
        if before.unknown_id not in before.encode(text):
            assert after.unknown_id not in after.encode(text)


def _pair(data: bytes, kind: str, texts: list[str]) -> tuple[Tokenizer, Tokenizer]:
    pruned = prune_vocabulary(data, kind, texts)
    return open_tokenizer(kind, data, LENGTH), _opened(pruned, kind)


PAIRS = [
    _pair(WORDPIECE, "wordpiece", CORPUS),
    _pair(SENTENCEPIECE, "sentencepiece", SAMPLE),
    _pair(train_model(byte_fallback=True, vocab_size=700), "sentencepiece", SAMPLE),
]

PIECES = st.sets(
    st.text(alphabet="abc", min_size=1, max_size=3).flatmap(
        lambda p: st.sampled_from([p, "##" + p])
    )
)


TEMPLATE = json.loads(WORDPIECE) | {"model": json.loads(WORDPIECE)["model"] | {"vocab": {}}}


def _vocabulary(pieces: list[str]) -> bytes:
    """A ``tokenizer.json`` of just these pieces, well-formed or not."""
    document = copy.deepcopy(TEMPLATE)
    vocabulary = {piece: number for number, piece in enumerate([*SPECIALS, *pieces])}
    document["model"]["vocab"] = vocabulary
    document["added_tokens"] = [added_token(token, vocabulary[token]) for token in SPECIALS]
    specials = document["post_processor"]["special_tokens"]
    specials["[CLS]"]["ids"], specials["[SEP]"]["ids"] = [2], [3]
    return json.dumps(document).encode("utf-8")


@settings(deadline=None)
@given(PIECES, st.lists(st.text(alphabet="abc", min_size=1, max_size=6), min_size=1, max_size=9))
def test_vocabularies_that_lack_their_own_characters(pieces: set[str], words: list[str]) -> None:
    """The words of the corpus stay spellable even so; for a closed vocabulary any word does."""
    data = _vocabulary(sorted(pieces))
    pruned = prune_vocabulary(data, "wordpiece", words[:5], coverage=0.5)
    before, after = open_tokenizer("wordpiece", data, LENGTH), _opened(pruned, "wordpiece")
    singles = {form for p in pieces for form in _spelled(p)}
    for word in words if singles <= pieces else words[:5]:
        if before.unknown_id not in before.encode(word):
            assert after.unknown_id not in after.encode(word)


def _spelled(piece: str) -> list[str]:
    if piece.startswith("##"):
        return ["##" + character for character in piece[2:]]
    return [piece[0], *("##" + character for character in piece[1:])]


def test_lost_words_are_restored() -> None:
    """Without "ab", longest-first would cut "abcd" a ##bc, and "##d" does not exist."""
    data = _vocabulary(["a", "x", "##b", "##c", "ab", "##cd", "##bc", "##x", "axx"])
    pruned = prune_vocabulary(data, "wordpiece", ["abcd"] + ["xbc"] * 500, coverage=0.9)
    ours = _opened(pruned, "wordpiece")
    assert ours.tokens(ours.encode("abcd")) == ["[CLS]", "ab", "##cd", "[SEP]"]
    tokens = ours.tokens(range(ours.vocabulary_size))
    assert "##bc" in tokens
    assert "axx" not in tokens


def test_what_always_stays() -> None:
    pruned = prune_vocabulary(WORDPIECE, "wordpiece", ["the"], coverage=1.0)
    full = json.loads(WORDPIECE)["model"]["vocab"]
    small = json.loads(pruned.tokenizer_file)["model"]["vocab"]
    assert {*SPECIALS, "the"} <= small.keys()
    assert {p for p in full if len(p.removeprefix("##")) == 1} <= small.keys()
    assert all(full[piece] == pruned.retained[number] for piece, number in small.items())
    assert sorted(small.values()) == list(range(len(small))) == list(range(len(pruned.retained)))
    assert pruned.retained.dtype == np.int64


@pytest.mark.slow
def test_the_library_reads_the_new_file() -> None:
    data = _with_padding(rich_wordpiece())
    pruned = prune_vocabulary(data, "wordpiece", CORPUS)
    theirs = ReferenceTokenizer.from_str(pruned.tokenizer_file.decode("utf-8"))
    assert theirs.get_vocab_size() == len(pruned.retained)
    assert theirs.padding["pad_id"] == theirs.token_to_id("[PAD]")
    theirs.no_padding()
    theirs.enable_truncation(LENGTH)
    ours = _opened(pruned, "wordpiece")
    for text in diverse_strings(2000, seed=3):
        assert ours.encode(text) == theirs.encode(text).ids, ascii(text)


def _with_padding(data: bytes) -> bytes:
    theirs = ReferenceTokenizer.from_str(data.decode("utf-8"))
    theirs.enable_padding(pad_id=theirs.token_to_id("[PAD]"), pad_token="[PAD]", length=16)
    return str(theirs.to_str()).encode("utf-8")


def test_tokens_outside_the_vocabulary_come_last() -> None:
    document = json.loads(_vocabulary(["a", "##a", "aa", "aaa"]))
    document["added_tokens"] += [added_token("<x>", 9), added_token("<y>", 10)]
    document["post_processor"] = {"type": "BertProcessing", "cls": ["<x>", 9], "sep": ["<y>", 10]}
    pruned = prune_vocabulary(json.dumps(document).encode(), "wordpiece", ["aaa"], coverage=0.9)
    assert pruned.retained.tolist() == [0, 1, 2, 3, 4, 5, 6, 8, 9, 10]
    assert _opened(pruned, "wordpiece").encode("aa<x>") == [8, 5, 6, 8, 9]
    theirs = ReferenceTokenizer.from_str(pruned.tokenizer_file.decode("utf-8"))
    assert theirs.encode("aa<x>").ids == [8, 5, 6, 8, 9]


SMALL = _vocabulary([*"ab", "##a", "##b", *(f"a{c}" * 3 for c in "abcdefgh"), "ab", "##ab"])


def test_target_size() -> None:
    for data, kind, texts in [
        (SMALL, "wordpiece", ["abab", "ab", "aab"]),
        (SENTENCEPIECE, "sentencepiece", SAMPLE),
    ]:
        least = len(prune_vocabulary(data, kind, texts, coverage=1e-9).retained)
        pruned = prune_vocabulary(data, kind, texts, target_size=least + 3)
        assert len(pruned.retained) == least + 3 == _opened(pruned, kind).vocabulary_size
        with pytest.raises(InvalidInputError, match=f"expected at least {least}"):
            prune_vocabulary(data, kind, texts, target_size=least - 1)


def test_the_most_frequent_pieces_stay() -> None:
    data = _vocabulary(["a", "##a", "aa", "aaa", "aaaa", "aaaaa"])
    words = ["aa"] * 3 + ["aaa"] * 5 + ["aaaa"] * 3
    assert prune_vocabulary(data, "wordpiece", words, target_size=8).retained[-1] == 8
    assert prune_vocabulary(data, "wordpiece", words, target_size=9).retained.tolist()[-2:] == [
        7,
        8,
    ]
    assert prune_vocabulary(data, "wordpiece", words, coverage=0.7).retained.tolist()[-2:] == [7, 8]
    assert len(prune_vocabulary(data, "wordpiece", words, coverage=1.0).retained) == 10


def test_statistics() -> None:
    data = _vocabulary(["a", "##a", "aa", "aaa", "aaaa"])
    pruned = prune_vocabulary(data, "wordpiece", ["aa aa z", "aa aaaaaaaa"], coverage=0.8)
    assert pruned.statistics == {
        "size_before": 10,
        "size_after": 8,
        "words": 5,
        "distinct_words": 3,
        "coverage": pytest.approx(8 / 9),
        "before": {"pieces_per_word": pytest.approx(9 / 5), "unknown_rate": pytest.approx(1 / 9)},
        "after": {"pieces_per_word": pytest.approx(11 / 5), "unknown_rate": pytest.approx(1 / 11)},
    }
    json.dumps(pruned.statistics)


def test_remap_keeps_the_segmentation() -> None:
    pruned = prune_vocabulary(SENTENCEPIECE, "sentencepiece", SAMPLE[:3], mode="remap")
    before = open_tokenizer("sentencepiece", SENTENCEPIECE, LENGTH)
    after = _opened(pruned, "sentencepiece")
    new = {int(old): number for number, old in enumerate(pruned.retained)}
    texts = made_up_texts(200, seed=13)
    for text in [*texts, "<mask> a</s>"]:
        assert after.encode(text) == [new.get(number, 3) for number in before.encode(text)]
    assert any(3 in after.encode(text) for text in texts)


def test_plain_layout() -> None:
    for mode in ("rebuild", "remap"):
        pruned = prune_vocabulary(SENTENCEPIECE, "sentencepiece", SAMPLE, layout="plain", mode=mode)
        after = _opened(pruned, "sentencepiece")
        pieces = SentencePieceProcessor(model_proto=SENTENCEPIECE)
        assert after.vocabulary_size == len(pruned.retained)
        assert after.tokens(range(len(pruned.retained))) == [
            pieces.id_to_piece(int(number)) for number in pruned.retained
        ]


def test_users_symbols_and_bytes_stay() -> None:
    data = train_model(byte_fallback=True, vocab_size=700, user_defined_symbols=["<city>"])
    pruned = prune_vocabulary(data, "sentencepiece", SAMPLE[:2], layout="plain")
    tokens = _opened(pruned, "sentencepiece").tokens(range(len(pruned.retained)))
    assert {"<unk>", "<s>", "</s>", "<city>", "<0x00>", "<0xFF>"} <= set(tokens)


def test_refusals() -> None:
    prune: Any = prune_vocabulary
    data = _vocabulary(["a", "##a", "aa"])
    with pytest.raises(InvalidInputError, match="found no word"):
        prune(data, "wordpiece", ["", " "])
    with pytest.raises(InvalidInputError, match="found the tokenizer kind 'bpe'"):
        prune(data, "bpe", CORPUS)
    with pytest.raises(InvalidInputError, match="found the mode 'cut'"):
        prune(SENTENCEPIECE, "sentencepiece", SAMPLE, mode="cut")
    with pytest.raises(InvalidInputError, match="for WordPiece"):
        prune(data, "wordpiece", CORPUS, mode="remap")
    for coverage in (0.0, 1.1, float("nan")):
        with pytest.raises(InvalidInputError, match="coverage is"):
            prune(data, "wordpiece", CORPUS, coverage=coverage)
    for kind in ("wordpiece", "sentencepiece"):
        with pytest.raises(CorruptArtifactError):
            prune(b"nothing of the kind", kind, CORPUS)


def test_models_that_merge_can_only_be_remapped() -> None:
    data = train_model(model_type="bpe")
    with pytest.raises(InvalidInputError, match='use mode="remap"'):
        prune_vocabulary(data, "sentencepiece", SAMPLE)
    pruned = prune_vocabulary(data, "sentencepiece", SAMPLE, mode="remap")
    assert pruned.statistics["size_after"] == len(pruned.retained)


def test_slice_embeddings() -> None:
    kept = np.array([0, 2, 3], dtype=np.int64)
    table = np.arange(8, dtype=np.float32).reshape(4, 2)
    np.testing.assert_array_equal(slice_embeddings(table, kept), table[[0, 2, 3]])
    tensor = torch.from_numpy(table).half()
    sliced = slice_embeddings(tensor, kept)
    assert sliced.dtype == torch.float16
    assert torch.equal(sliced, tensor[[0, 2, 3]])
    sliced[0, 0] = 9
    assert tensor[0, 0] == 0
    assert slice_embeddings(tensor[:, 0], kept).shape == (3,)
    with pytest.raises(InvalidInputError, match="found a table of 3 rows, expected more than 3"):
        slice_embeddings(table[:3], kept)


def test_the_same_corpus_gives_the_same_bytes() -> None:
    rng = random.Random(0)
    for data, kind, texts in [
        (_vocabulary(["a", "##a", "aa", "##aa"]), "wordpiece", ["aa", "aaaa", "a", "aaa"]),
        (SENTENCEPIECE, "sentencepiece", SAMPLE),
    ]:
        files = {
            prune_vocabulary(data, kind, rng.sample(texts, len(texts))).tokenizer_file
            for _ in range(3)
        }
        assert len(files) == 1


def test_characters_nobody_types_may_go() -> None:
    source = rich_wordpiece()
    texts = ["plain words only, and more plain words"] * 3
    whole = prune_vocabulary(source, "wordpiece", texts)
    fewer = prune_vocabulary(source, "wordpiece", texts, least_character=1)
    assert len(fewer.retained) < len(whole.retained)
    assert fewer.statistics["after"]["unknown_rate"] == 0.0
