"""Real but tiny models and tokenizers, trained or drawn on the spot: no download, no mock."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertModel,
    BertTokenizerFast,
    ElectraConfig,
    ElectraModel,
    XLMRobertaConfig,
    XLMRobertaModel,
)

from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.sentencepiece_tokenizer import xlm_roberta_tokenizer
from tests.synthetic_sentences import WORDS as WORDS
from tests.synthetic_sentences import sentences as sentences


def wordpiece_tokenizer() -> Any:
    """A BERT tokenizer over :data:`WORDS`, their halves and single characters.

    Written down rather than trained: the trainer's result changes from run to run.
    """
    characters = list("abcdefghijklmnopqrstuvwxyz0123456789.,?!")
    halves = [piece for word in WORDS for piece in (word[:3], "##" + word[3:]) if len(word) > 4]
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *characters]
    pieces += ["##" + character for character in characters[:36]] + ["of", "the", *WORDS, *halves]
    vocabulary = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return BertTokenizerFast(tokenizer_object=tokenizer, model_max_length=64)


def bert_teacher(
    layers: int = 3, width: int = 64, seed: int = 0, **options: Any
) -> SentenceEncoder:
    """A randomly drawn BERT teacher; two calls with one seed give the same weights."""
    tokenizer = wordpiece_tokenizer()
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=2,
        intermediate_size=2 * width,
        max_position_embeddings=64,
        pad_token_id=0,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        # The default initialisation gives nearly the same vector to every text; spread them.
        config.initializer_range = 0.2
        model = BertModel(config, add_pooling_layer=False)
    return SentenceEncoder(model, tokenizer, max_length=48, name="tiny-bert", **options)


def electra_teacher() -> SentenceEncoder:
    """A randomly drawn ELECTRA, whose vocabulary table is narrower than its layers."""
    tokenizer = wordpiece_tokenizer()
    config = ElectraConfig(
        vocab_size=len(tokenizer),
        embedding_size=48,
        hidden_size=64,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=128,
        max_position_embeddings=64,
        initializer_range=0.2,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = ElectraModel(config)
    return SentenceEncoder(model, tokenizer, max_length=48, name="tiny-electra")


def xlmr_teacher(
    folder: Path, layers: int = 2, width: int = 64, texts: Sequence[str] = ()
) -> SentenceEncoder:
    """A randomly drawn XLM-R teacher over a sentencepiece model trained into ``folder``, of
    sentences and ``texts``."""
    folder.mkdir(parents=True, exist_ok=True)
    corpus = folder / "corpus.txt"
    corpus.write_text("\n".join([*sentences(), *texts]), encoding="utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(corpus),
        model_prefix=str(folder / "sentencepiece.bpe"),
        vocab_size=100,
        hard_vocab_limit=False,
        model_type="unigram",
        minloglevel=2,
    )
    tokenizer = xlm_roberta_tokenizer(folder / "sentencepiece.bpe.model", model_max_length=64)
    config = XLMRobertaConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=2,
        intermediate_size=2 * width,
        max_position_embeddings=66,
        pad_token_id=tokenizer.pad_token_id,
        initializer_range=0.2,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = XLMRobertaModel(config, add_pooling_layer=False)
    return SentenceEncoder(model, tokenizer, pooling="cls", max_length=48, name="tiny-xlmr")
