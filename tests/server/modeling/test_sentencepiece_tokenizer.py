"""XLM-R's numbering of a sentencepiece model, of which off-by-one would ruin every embedding."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import sentencepiece
from tokenizers.models import Unigram
from transformers import XLMRobertaTokenizerFast

from pocketquery.sdk.errors import CorruptArtifactError
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.loading import load_tokenizer
from pocketquery.server.modeling.sentencepiece_tokenizer import (
    as_written,
    check_sentencepiece,
    xlm_roberta_tokenizer,
)
from pocketquery.server.modeling.tokenizer_file import save_tokenizer
from tests.sdk.handmade_sentencepiece import REFUSED
from tests.tiny_models import sentences, xlmr_teacher


def trained(folder: Path, **options: object) -> Path:
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences()),
        model_prefix=str(folder / "m"),
        hard_vocab_limit=False,
        minloglevel=2,
        num_threads=1,
        **options,
    )
    return folder / "m.model"


@pytest.mark.parametrize("name", ["a NUL in a piece", "a step that leads out"])
def test_what_the_library_would_not_survive_is_refused(tmp_path: Path, name: str) -> None:
    file = tmp_path / "sentencepiece.bpe.model"
    file.write_bytes(REFUSED[name])
    with pytest.raises(CorruptArtifactError, match=r"bpe\.model: tokenizer\.model: found"):
        xlm_roberta_tokenizer(file)
    xlmr_teacher(tmp_path / "teacher").save(tmp_path / "saved")
    for path in (tmp_path / "saved").rglob("tokenizer.json"):
        path.unlink()
    places = list((tmp_path / "saved").rglob("*.model"))
    assert places
    for path in places:
        path.write_bytes(REFUSED[name])
    with pytest.raises(CorruptArtifactError, match="are not a sentencepiece model"):
        SentenceEncoder.load(tmp_path / "saved")
    with pytest.raises(CorruptArtifactError):
        check_sentencepiece(places[0].parent)
    (places[0].parent / "tokenizer.json").touch()
    check_sentencepiece(places[0].parent)
    check_sentencepiece("a-name/on-the-hub")


def test_ids_are_the_models_plus_one(tmp_path: Path) -> None:
    file = trained(tmp_path, vocab_size=100)
    tokenizer = xlm_roberta_tokenizer(file, model_max_length=64)
    model = sentencepiece.SentencePieceProcessor(model_file=str(file))
    text = "water oxygen of the castle 7"
    pieces = model.encode(text)
    assert len(pieces) > 4
    assert tokenizer(text)["input_ids"] == [0, *(piece + 1 for piece in pieces), 2]
    assert tokenizer.convert_ids_to_tokens([0, 1, 2, 3]) == ["<s>", "<pad>", "</s>", "<unk>"]
    assert tokenizer.convert_ids_to_tokens(4) == model.id_to_piece(3)
    assert tokenizer.mask_token_id == model.get_piece_size() + 1 == len(tokenizer) - 1
    assert tokenizer("☃")["input_ids"][-2] == 3
    assert tokenizer.model_max_length == 64


def test_ordinary_texts_are_cut_as_the_library_cuts_them(tmp_path: Path) -> None:
    file = trained(tmp_path, vocab_size=100).rename(tmp_path / "sentencepiece.bpe.model")
    library = XLMRobertaTokenizerFast.from_pretrained(tmp_path)
    texts = [*sentences(50), "ＷＡＴＥＲ　ｏｆ ﬁsh", "two  blanks ", "a<mask>b </s>"]
    assert xlm_roberta_tokenizer(file)(texts)["input_ids"] == library(texts)["input_ids"]


def test_a_tokenizer_is_as_it_was_written(tmp_path: Path) -> None:
    tokenizer = xlm_roberta_tokenizer(trained(tmp_path, vocab_size=400, byte_fallback=True))
    save_tokenizer(tokenizer, tmp_path)
    names = json.loads((tmp_path / "tokenizer_config.json").read_text())
    assert names["tokenizer_class"] == "PreTrainedTokenizerFast"  # of 4 and of 5
    written = tokenizer.backend_tokenizer.to_str()
    # As transformers 5 makes it of the pieces alone.
    tokenizer.backend_tokenizer.normalizer = None
    tokenizer.backend_tokenizer.model = Unigram(_pieces(written), unk_id=3)
    assert tokenizer("the  ☃ ")["input_ids"] != load_tokenizer(tmp_path)("the  ☃ ")["input_ids"]
    assert as_written(tokenizer, tmp_path).backend_tokenizer.to_str() == written
    assert as_written(tokenizer, tmp_path / "nowhere") is tokenizer


def _pieces(written: str) -> list[tuple[str, float]]:
    return [(piece, score) for piece, score in json.loads(written)["model"]["vocab"]]


def test_byte_pieces_are_used_and_survive_saving(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    file = trained(tmp_path, vocab_size=400, byte_fallback=True, required_chars="<>0x41E2")
    tokenizer = xlm_roberta_tokenizer(file)
    (tmp_path / "saved").mkdir()
    save_tokenizer(tokenizer, tmp_path / "saved")
    model = sentencepiece.SentencePieceProcessor(model_file=str(file))
    for text in ("the ☃ of é", "<0x41> and <0xE2>", "\u200b\u00adwater"):
        ids = [0, *(piece + 1 for piece in model.encode(text)), 2]
        assert tokenizer(text)["input_ids"] == ids
        assert AutoTokenizer.from_pretrained(tmp_path / "saved")(text)["input_ids"] == ids
    assert "<0xE2>" in tokenizer.tokenize("☃")
    assert "<0x41>" not in tokenizer.tokenize("<0x41>")
