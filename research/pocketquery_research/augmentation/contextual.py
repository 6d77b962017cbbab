"""Words replaced by what a masked language model would put in their place."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from pocketquery.client.views.augmenters import Strength
from pocketquery.client.views.text_units import Units, cut, is_unspaced
from pocketquery.sdk.validation import check_fields, number, whole
from pocketquery.server.modeling import SentenceEncoder
from pocketquery_research.augmentation.local_models import (
    load_masked_model,
    load_teacher,
    missing_model,
    missing_teacher,
    teacher_folders,
)
from pocketquery_research.augmentation.model_augmenter import ModelAugmenter
from pocketquery_research.augmentation.rules.word_edges import bare, dressed
from pocketquery_research.augmentation.whole_words import WholeWords

__all__ = ["Contextual"]

Replacement = tuple[int, str]  # which unit, and what it becomes


@dataclass(frozen=True, kw_only=True)
class Contextual(ModelAugmenter):
    """A share of the words masked and filled by the model, drawn from its ``top_k`` best words.

    Heavy: what fits the place may mean the opposite. Light with a ``teacher``: of the
    replacements, one after another, those stay that leave the text's vector where it was.

    Attributes:
        model: folder of a masked language model: in Hugging Face layout with its head, or what
            ``pocketquery pretrain`` wrote with the objective ``mlm``.
        rate: share of the words, at least one.
        top_k: whole words the model chooses among, by its probabilities; never the word itself.
        teacher: folder of a sentence encoder, or ``"demo"``; ``""``: every replacement stays.
        least_cosine: between text and view, in the teacher's space.

    Raises:
        InvalidInputError: ``rate`` is no share, ``top_k`` no count, ``least_cosine`` no cosine.
    """

    model: str
    rate: float = 0.15
    top_k: int = 10
    teacher: str = ""
    least_cosine: float = 0.9
    name = "contextual"

    def __post_init__(self) -> None:
        check_fields(self, rate=number(0, 1), top_k=whole(), least_cosine=number(-1, 1))

    @property
    def strength(self) -> Strength:
        """Light where a teacher watches."""
        return "light" if self.teacher else "heavy"

    @property
    def requires(self) -> tuple[str, ...]:
        """Model and teacher."""
        return (self.model, *teacher_folders(self.teacher))

    def available(self) -> tuple[bool, str]:
        """Whether both are here."""
        missing = missing_model(self.model) or (self.teacher and missing_teacher(self.teacher))
        return not missing, missing

    def rewrite(self, texts: list[str], rng: random.Random) -> list[str]:
        """Each text with some words replaced."""
        units = [cut(text) for text in texts]
        places = [self._places(one, rng) for one in units]
        replacements = self._replacements(units, places, rng)
        if self.teacher:
            return self._kept(texts, units, replacements)
        return [_replaced(*one) for one in zip(units, replacements, strict=True)]

    def _places(self, units: Units, rng: random.Random) -> list[int]:
        """Which units are masked, in their order."""
        mask = self._loaded[1].mask_token
        words = [p for p, unit in enumerate(units.texts) if any(map(str.isalpha, unit))]
        if not words or any(mask in unit for unit in units.texts):
            return []
        return sorted(rng.sample(words, min(max(round(self.rate * len(words)), 1), len(words))))

    @torch.inference_mode()
    def _replacements(
        self, units: list[Units], places: list[list[int]], rng: random.Random
    ) -> list[list[Replacement]]:
        model, tokenizer = self._loaded
        masked = [
            _replaced(one, [(place, tokenizer.mask_token) for place in chosen])
            for one, chosen in zip(units, places, strict=True)
        ]
        batch = tokenizer(masked, padding=True, truncation=True, return_tensors="pt")
        batch = batch.to(self.device)
        logits = model(**batch).logits.float().cpu()  # (texts, length, vocabulary)
        spots = (batch["input_ids"] == tokenizer.mask_token_id).cpu()
        return [
            # A mask beyond the model's length has no prediction, and its word stays.
            [
                (place, self._drawn(one.texts[place], scores, rng))
                for place, scores in zip(chosen, logits[row][spots[row]], strict=False)
            ]
            for row, (one, chosen) in enumerate(zip(units, places, strict=True))
        ]

    def _drawn(self, unit: str, scores: torch.Tensor, rng: random.Random) -> str:
        """A word for ``unit`` by scores (vocabulary,); ``unit`` where the vocabulary has none."""
        rows, words = self._words.unspaced if is_unspaced(unit[:1]) else self._words.spaced
        if not words:
            return bare(unit)
        best = scores[rows].topk(min(self.top_k + 2, len(words)))  # one more in either case
        own = bare(unit).casefold()
        fits: list[tuple[str, torch.Tensor]] = [
            (words[place], score)
            for place, score in zip(best.indices.tolist(), best.values, strict=True)
            if words[place].casefold() != own
        ][: self.top_k]
        if not fits:
            return bare(unit)
        probabilities: list[float] = torch.stack([score for _, score in fits]).softmax(0).tolist()
        return rng.choices([word for word, _ in fits], probabilities)[0]

    def _kept(
        self, texts: list[str], units: list[Units], replacements: list[list[Replacement]]
    ) -> list[str]:
        """The texts with those replacements that the teacher hardly notices."""
        accepted: list[list[Replacement]] = [[] for _ in texts]
        before = self._teacher.encode(texts)  # (texts, dim)
        for turn in range(max(map(len, replacements), default=0)):
            rows = [row for row, found in enumerate(replacements) if turn < len(found)]
            tried = [[*accepted[row], replacements[row][turn]] for row in rows]
            views = [_replaced(units[row], one) for row, one in zip(rows, tried, strict=True)]
            cosines = (self._teacher.encode(views) * before[rows]).sum(axis=1)  # (rows,)
            for row, one, cosine in zip(rows, tried, cosines, strict=True):
                if cosine >= self.least_cosine:
                    accepted[row] = one
        return [_replaced(*one) for one in zip(units, accepted, strict=True)]

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        return load_masked_model(self.model, self.device)

    @cached_property
    def _words(self) -> WholeWords:
        return WholeWords.of(self._loaded[1])

    @cached_property
    def _teacher(self) -> SentenceEncoder:
        return load_teacher(self.teacher, self.device)


def _replaced(units: Units, replacements: list[Replacement]) -> str:
    """The text with words in the places of others, in their punctuation and capitals."""
    texts = list(units.texts)
    for place, word in replacements:
        texts[place] = dressed(texts[place], word)
    return units.arranged(texts)
