"""Words filled in by a masked language model that was taught one thing."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from tokenizers.decoders import Metaspace
from tokenizers.models import Unigram
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from pocketquery.sdk.errors import InvalidInputError, UnknownModelError
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.mlm_head import MLM_HEAD, save_mlm_head
from pocketquery.server.objectives import build_objective
from pocketquery.server.objectives.mlm import Mlm
from pocketquery.server.objectives.shared.span_masking import sentinel_ids
from pocketquery_research.augmentation.contextual import Contextual
from pocketquery_research.augmentation.whole_words import WholeWords
from research.tests.augmentation.small_models import masked_language_model
from tests.tiny_models import (
    WORDS,
    bert_teacher,
    electra_teacher,
    sentences,
    wordpiece_tokenizer,
)


def views(augmenter: Contextual, text: str, count: int = 40) -> set[str]:
    """The different views that ``count`` generators give."""
    return {augmenter.augment(text, random.Random(seed)).text for seed in range(count)}


def contextual(models: Path, **options: Any) -> Contextual:
    return Contextual(model=str(models / "mlm"), **options)


def test_a_word_becomes_what_the_model_expects_and_never_itself(models: Path) -> None:
    last = {
        view
        for view in views(contextual(models, top_k=1), "the castle rock")
        if view[:10] == "the castle"
    }
    assert last == {"the castle sky"}
    found = views(contextual(models, top_k=1), "the Castle: (Rock?)", 60)
    assert any(view.endswith("(Sky?)") for view in found)


def test_top_k_is_how_many_words_there_are_to_choose_from(tmp_path: Path) -> None:
    masked_language_model(tmp_path)  # untaught, so that nothing is much likelier than the rest
    for top_k in (1, 3):
        found = views(Contextual(model=str(tmp_path), top_k=top_k), "rock", 200)
        assert len(found) == top_k
        assert "rock" not in found


def test_the_rate_is_the_share_of_words(models: Path) -> None:
    text = " ".join(WORDS[:20])
    for rate, count in ((0.0, 1), (0.2, 4), (1.0, 20)):
        view = contextual(models, rate=rate).augment(text, random.Random(0)).text
        changed = sum(a != b for a, b in zip(text.split(), view.split(), strict=True))
        assert changed == count


def test_with_a_teacher_only_what_it_does_not_notice_stays(models: Path) -> None:
    teacher = SentenceEncoder.load(models / "teacher")
    texts = sentences(30)
    free = contextual(models, rate=0.5)
    tried = [one.text for one in free.augment_batch(texts, random.Random(0))]
    cosines = (teacher.encode(texts) * teacher.encode(tried)).sum(axis=1)
    least = float(sorted(cosines)[len(cosines) // 2])
    light = contextual(models, rate=0.5, teacher=str(models / "teacher"), least_cosine=least)
    kept = [one.text for one in light.augment_batch(texts, random.Random(0))]
    after = (teacher.encode(texts) * teacher.encode(kept)).sum(axis=1)
    assert min(cosines) < least - 0.01
    assert min(after) >= least - 1e-5
    assert sum(a != b for a, b in zip(texts, kept, strict=True)) > len(texts) / 2
    assert (free.strength, light.strength) == ("heavy", "light")


def test_a_teacher_that_allows_everything_or_nothing(models: Path) -> None:
    text, options = sentences(1)[0], {"rate": 1.0, "teacher": str(models / "teacher")}
    free = contextual(models, rate=1.0).augment(text, random.Random(0))
    assert contextual(models, least_cosine=-1, **options).augment(text, random.Random(0)) == free
    strict = contextual(models, least_cosine=1, **options).augment(text, random.Random(0))
    assert strict.text == text


def test_company_in_the_batch_does_not_matter(models: Path) -> None:
    """With one choice a word, only the places are random: those of the first text drawn first."""
    one = contextual(models, top_k=1)
    alone = one.augment("the castle rock", random.Random(0))
    batch = one.augment_batch(["the castle rock", " ".join(WORDS)], random.Random(0))
    assert batch[0] == alone


def test_what_has_no_words_or_a_mask_in_it_stays(models: Path) -> None:
    for text in ("42 !?", "the [MASK] rock"):
        assert views(contextual(models), text, 3) == {text}


def pretrained(folder: Path) -> tuple[SentenceEncoder, Mlm]:
    """What ``pretrain`` writes: an encoder, and beside it the head that filled its masks."""
    encoder = bert_teacher(layers=1, width=32)
    encoder.tokenizer.model_max_length = 10**9
    objective = build_objective("mlm", encoder)
    assert isinstance(objective, Mlm)
    torch.nn.init.normal_(objective.head.bias)
    encoder.save(folder)
    save_mlm_head(folder, [objective])
    return encoder, objective


@pytest.mark.parametrize("grown", [False, True])
def test_an_encoder_that_was_pretrained_here_fills_masks_with_its_own_head(
    tmp_path: Path, grown: bool
) -> None:
    encoder, objective = pretrained(tmp_path)
    if grown:  # as where gur is built after mlm: the table is longer than the head's bias
        sentinel_ids(encoder, 4)
        encoder.save(tmp_path)
        save_mlm_head(tmp_path, [objective])
    batch = encoder.tokenize(["[MASK]"])
    with torch.no_grad():
        states = encoder.states(batch["input_ids"], batch["attention_mask"])
        logits = objective.head(states, encoder)[0, 1]  # (vocabulary,)
    rows, words = WholeWords.of(encoder.tokenizer).spaced
    first, second = (words[place] for place in logits[rows].topk(2).indices.tolist())
    for seed in (0, 1):  # whatever is drawn meanwhile
        torch.manual_seed(seed)
        augmenter = Contextual(model=str(tmp_path), top_k=1)
        assert views(augmenter, "castle", 3) == {first if first != "castle" else second}
        assert views(augmenter, first, 3) == {second}


def test_a_text_longer_than_an_encoder_of_ours_keeps_its_end(tmp_path: Path) -> None:
    """Though its tokenizer does not know how many positions there are."""
    encoder, _ = pretrained(tmp_path)
    assert AutoTokenizer.from_pretrained(tmp_path).model_max_length > encoder.max_length
    augmenter = Contextual(model=str(tmp_path), rate=1.0)
    view = augmenter.augment(" ".join(WORDS * 20), random.Random(0)).text
    assert view.split()[100:] == (WORDS * 20)[100:]
    assert view.split()[:40] != (WORDS * 20)[:40]


def test_a_head_of_another_encoder_is_refused(tmp_path: Path) -> None:
    pretrained(tmp_path)
    bert_teacher(layers=1, width=16).save(tmp_path / "other")
    (tmp_path / MLM_HEAD).rename(tmp_path / "other" / MLM_HEAD)
    with pytest.raises(UnknownModelError, match=r"made for another encoder \(.*expected 16x16"):
        Contextual(model=str(tmp_path / "other")).augment("castle", random.Random(0))


@pytest.mark.parametrize("kind", [bert_teacher, electra_teacher])
def test_an_encoder_without_a_head_is_refused_not_given_a_new_one(
    tmp_path: Path, kind: Callable[[], SentenceEncoder]
) -> None:
    kind().save(tmp_path)
    with pytest.raises(UnknownModelError, match="drawn at random") as found:
        Contextual(model=str(tmp_path)).augment("castle", random.Random(0))
    assert str(tmp_path) in str(found.value)


@pytest.mark.parametrize("lost", ["cls.predictions.transform.dense.weight", "cls.predictions.bias"])
def test_a_head_that_is_there_in_part_is_refused(tmp_path: Path, lost: str) -> None:
    masked_language_model(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    del weights[lost]
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UnknownModelError, match=re.escape(lost)):
        Contextual(model=str(tmp_path)).augment("castle", random.Random(0))


def test_a_text_longer_than_the_model_keeps_its_end(models: Path) -> None:
    text = " ".join(WORDS * 20)
    view = contextual(models, rate=1.0).augment(text, random.Random(0)).text
    assert view.split()[100:] == text.split()[100:]
    assert view.split()[:50] != text.split()[:50]


def test_whole_words_of_vocabularies_that_mark_continuations() -> None:
    words = WholeWords.of(wordpiece_tokenizer())
    assert set(WORDS) <= set(words.spaced[1])
    assert not {"[MASK]", "a", "7", "##ter", "ter"} & set(words.spaced[1])
    assert words.unspaced[1] == ()


def test_whole_words_of_vocabularies_that_mark_beginnings() -> None:
    pieces = ["<unk>", "<mask>", "▁water", "ter", "▁a", "▁5th", "駅", "▁東京", "▁don't", "▁"]
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(Unigram([(p, -float(n)) for n, p in enumerate(pieces)], 0)),
        unk_token="<unk>",
        mask_token="<mask>",
    )
    tokenizer.backend_tokenizer.decoder = Metaspace()
    words = WholeWords.of(tokenizer)
    assert (words.spaced[0].tolist(), words.spaced[1]) == ([2], ("water",))
    assert (words.unspaced[0].tolist(), words.unspaced[1]) == ([6, 7], ("駅", "東京"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate": 2}, "rate is 2"),
        ({"top_k": 0}, "top_k is 0"),
        ({"least_cosine": 2}, "cosine is 2"),
    ],
)
def test_settings_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Contextual(model="x", **options)
