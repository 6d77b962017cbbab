"""Texts rewritten by sequence-to-sequence models: paraphrase, back-translation, style transfer."""

from __future__ import annotations

import random
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from pocketquery.client.views.augmenters import Strength
from pocketquery.sdk.validation import check_fields, number, one_of, whole
from pocketquery_research.augmentation.local_models import load_model, missing_model
from pocketquery_research.augmentation.model_augmenter import ModelAugmenter

__all__ = ["BackTranslation", "Paraphrase", "StyleTransfer"]

_PROMPTS = {"bart": "", "t5": "paraphrase: ", "pegasus": ""}


@dataclass(frozen=True, kw_only=True)
class _Generating(ModelAugmenter):
    """Settings of generation.

    Attributes:
        beams: of beam search, which gives one view however often it is asked; 0: sampling.
        top_p: sampling: from the likeliest tokens that have this probability together.
        temperature: of sampling.
        max_length: tokens read, and tokens written at most.
        keeps_meaning: whether its views are light; None: as this kind of model is known.
    """

    beams: int = 0
    top_p: float = 0.95
    temperature: float = 1.0
    max_length: int = 64
    keeps_meaning: bool | None = None

    def __post_init__(self) -> None:
        check_fields(
            self,
            max_length=whole(),
            beams=whole(0),
            top_p=number(above=0, most=1),
            temperature=number(above=0),
        )

    @property
    @abstractmethod
    def requires(self) -> tuple[str, ...]:
        """Folders of its models, in the order they are used."""

    @property
    def strength(self) -> Strength:
        """Light, unless it was said to be otherwise."""
        return "heavy" if self.keeps_meaning is False else "light"

    def available(self) -> tuple[bool, str]:
        """Whether the models are here."""
        missing = next(filter(None, map(missing_model, self.requires)), "")
        return not missing, missing

    def rewrite(self, texts: list[str], rng: random.Random) -> list[str]:
        """Each text through one model after another."""
        for model, tokenizer in self._models:
            texts = self._generated(model, tokenizer, texts, rng.getrandbits(63))
        return texts

    @torch.inference_mode()
    def _generated(self, model: Any, tokenizer: Any, texts: list[str], seed: int) -> list[str]:
        options: dict[str, Any] = {"num_beams": max(self.beams, 1), "do_sample": not self.beams}
        if not self.beams:
            options |= {"top_p": self.top_p, "top_k": 0, "temperature": self.temperature}
        batch = tokenizer(
            [self._prompted(text) for text in texts],
            padding=True,
            truncation=True,
            max_length=self.max_length,
            return_tensors="pt",
        ).to(self.device)
        # transformers samples from torch's global generators only.
        devices = [] if self.device == "cpu" else list(range(torch.cuda.device_count()))
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(seed)
            made = model.generate(
                input_ids=batch["input_ids"],
                attention_mask=batch["attention_mask"],
                max_new_tokens=self.max_length,
                **options,
            )
        decoded: list[str] = tokenizer.batch_decode(made, skip_special_tokens=True)
        return [" ".join(text.split()) for text in decoded]

    def _prompted(self, text: str) -> str:
        return text

    @cached_property
    def _models(self) -> list[tuple[Any, Any]]:
        from transformers import AutoModelForSeq2SeqLM

        return [load_model(AutoModelForSeq2SeqLM, folder, self.device) for folder in self.requires]


@dataclass(frozen=True, kw_only=True)
class Paraphrase(_Generating):
    """A neural paraphrase, by a BART, T5 or Pegasus that was trained for it. Light.

    Attributes:
        model: its folder.
        kind: which of them; its name, and the prompt it expects.
        prompt: before each text; None: the kind's.
    """

    model: str
    kind: str = "pegasus"
    prompt: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self, kind=one_of(*sorted(_PROMPTS)))

    @property
    def name(self) -> str:
        """The kind."""
        return self.kind

    @property
    def requires(self) -> tuple[str, ...]:
        """The model."""
        return (self.model,)

    def _prompted(self, text: str) -> str:
        return (_PROMPTS[self.kind] if self.prompt is None else self.prompt) + text


@dataclass(frozen=True, kw_only=True)
class BackTranslation(_Generating):
    """Translated into another language and back, as by the WMT19 models. Light.

    Attributes:
        there: folder of the model into the other language.
        back: folder of the model out of it.
    """

    there: str
    back: str
    name = "back_translation"

    @property
    def requires(self) -> tuple[str, ...]:
        """Both models."""
        return (self.there, self.back)


@dataclass(frozen=True, kw_only=True)
class StyleTransfer(_Generating):
    """Formal made casual, or the reverse, by a model trained for it. Heavy, as *Query-BERT* has it.

    Attributes:
        model: its folder.
        prompt: before each text.
    """

    model: str
    prompt: str = "transfer Casual to Formal: "
    name = "style_transfer"

    @property
    def strength(self) -> Strength:
        """Heavy, unless it was said to be otherwise."""
        return "light" if self.keeps_meaning else "heavy"

    @property
    def requires(self) -> tuple[str, ...]:
        """The model."""
        return (self.model,)

    def _prompted(self, text: str) -> str:
        return self.prompt + text
