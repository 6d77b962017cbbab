"""Words filled in by a masked language model that was taught one thing."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer
from tokenizers.decoders import Metaspace
from tokenizers.models import Unigram
from transformers import PreTrainedTokenizerFast

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.augmentation.contextual import Contextual
from pocketquery.server.augmentation.whole_words import WholeWords
from pocketquery.server.modeling import SentenceEncoder
from tests.server.augmentation.small_models import masked_language_model
from tests.tiny_models import WORDS, sentences, wordpiece_tokenizer


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
