"""Views of questions, written once: two light ones, and a heavy one that people wrote.

``paraphrase`` fills masked words by the start, which has learnt masked words; ``back_translation``
says the question in another form, with synonyms out of WordNet's lists (a copy that the user has:
Debian's package wordnet-base, unpacked, in ``POCKETQUERY_WORDNET``). What a teacher finds far from
its question is tried again, and at last left as it was; where that is so for more than a fifth of
the questions, there is nothing to learn from and the run ends. The heavy views are
``forum_duplicate``, another question that the forum marked as asking the same, and word order.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from texts.wordnet_lists import read_first_senses

from pocketquery.client.views.augmenters import Augmenter, Strength
from pocketquery.server.modeling import SentenceEncoder
from pocketquery_research.augmentation.contextual import Contextual
from pocketquery_research.augmentation.fill import fill
from pocketquery_research.augmentation.local_models import load_teacher
from pocketquery_research.augmentation.model_augmenter import ModelAugmenter
from pocketquery_research.augmentation.rules.question_templates import Template
from pocketquery_research.augmentation.rules.synonyms import Synonyms
from pocketquery_research.augmentation.variant_cache import VariantCache

__all__ = ["BackTranslation", "ForumDuplicate", "Paraphrase", "add_duplicates", "written_views"]

_TRIES = 6
_VARIANTS = 3  # of each question and slot
_MOST_UNCHANGED = 0.2
_LEXICON = "POCKETQUERY_WORDNET"


@dataclass(frozen=True, kw_only=True)
class _NearView(ModelAugmenter):
    """Tries to rewrite a text until a teacher finds the view near enough.

    Attributes:
        teacher: folder of a sentence encoder, or ``"demo"``.
        least_cosine: between text and view, in the teacher's space.
    """

    teacher: str = "demo"
    least_cosine: float = 0.85

    @property
    def strength(self) -> Strength:
        return "light"

    def available(self) -> tuple[bool, str]:
        missing = [path for path in self.requires if not Path(path).exists()]
        return not missing, f"{', '.join(missing)} is missing" if missing else ""

    def rewrite(self, texts: list[str], rng: random.Random) -> list[str]:
        """Each text as it is first found changed and near; itself where it never is."""
        found = list(texts)
        before = self._teacher.encode(texts)  # (texts, dim)
        for _ in range(_TRIES):
            open_ = [row for row, text in enumerate(texts) if found[row] == text]
            if not open_:
                break
            views = self.tried([texts[row] for row in open_], rng)
            cosines = (self._teacher.encode(views) * before[open_]).sum(axis=1)  # (rows,)
            for row, view, cosine in zip(open_, views, cosines, strict=True):
                if cosine >= self.least_cosine:
                    found[row] = view
        return found

    def tried(self, texts: list[str], rng: random.Random) -> list[str]:
        """One rewriting of each."""
        raise NotImplementedError

    @cached_property
    def _teacher(self) -> SentenceEncoder:
        return load_teacher(self.teacher, self.device)


@dataclass(frozen=True, kw_only=True)
class Paraphrase(_NearView):
    """Words filled in by a masked language model.

    Attributes:
        model: folder of what ``pocketquery pretrain`` wrote with the objective ``mlm``.
    """

    model: str
    name = "paraphrase"

    @property
    def requires(self) -> tuple[str, ...]:
        return (self.model,)

    def tried(self, texts: list[str], rng: random.Random) -> list[str]:
        return [one.text for one in self._filling.augment_batch(texts, rng)]

    @cached_property
    def _filling(self) -> Contextual:
        return Contextual(model=self.model, rate=0.2, top_k=10)


@dataclass(frozen=True, kw_only=True)
class BackTranslation(_NearView):
    """Another form of the question, and synonyms of the first sense that each word has.

    Attributes:
        words: folder of WordNet's lists.
    """

    words: str
    name = "back_translation"

    @property
    def requires(self) -> tuple[str, ...]:
        return (self.words,)

    def tried(self, texts: list[str], rng: random.Random) -> list[str]:
        formed = [Template().augment(text, rng, "en").text for text in texts]
        return [self._synonyms.augment(text, rng, "en").text for text in formed]

    @cached_property
    def _synonyms(self) -> Synonyms:
        return Synonyms(table=read_first_senses(Path(self.words)), rate=0.3)


@dataclass(frozen=True, kw_only=True)
class ForumDuplicate(ModelAugmenter):
    """Names, in a cache, the marked duplicates of questions; by itself it knows none."""

    name = "forum_duplicate"
    requires = ()

    def available(self) -> tuple[bool, str]:
        return True, ""

    def rewrite(self, texts: list[str], rng: random.Random) -> list[str]:
        return texts


def written_views(
    cache: Path, model: Path, duplicates: Mapping[str, Sequence[str]]
) -> dict[str, str]:
    """Write the views of questions, those that are missing.

    Args:
        cache: file of the views.
        model: folder of the start.
        duplicates: question -> those that are marked as asking the same; all that training draws.

    Returns:
        ``light`` and ``heavy`` as options of the objective, two augmenters each.

    Raises:
        SystemExit: there are no synonym lists, or too many light views are their question.
    """
    words = os.environ.get(_LEXICON, "")
    if not (Path(words) / "index.noun").is_file():
        raise SystemExit(
            f'{_LEXICON} is "{words}", which holds no WordNet lists; expected a folder with '
            "index.noun and data.noun. Next: unpack Debian's wordnet-base and name its folder "
            "usr/share/wordnet"
        )
    slots = [Paraphrase(model=str(model)), BackTranslation(words=words)]
    cache.parent.mkdir(parents=True, exist_ok=True)
    with VariantCache(cache) as opened:
        unchanged = {slot.name: _unchanged(opened, slot, list(duplicates)) for slot in slots}
        add_duplicates(opened, slots, duplicates)
    print(f"unchanged views: {', '.join(f'{n} {share:.3f}' for n, share in unchanged.items())}")
    _check(unchanged)
    cached = [
        {"name": "cached", "path": str(cache), "augmenter": one.name}
        for one in (*slots, ForumDuplicate())
    ]
    return {"light": json.dumps(cached[:2]), "heavy": json.dumps([cached[2], "shuffle"])}


def add_duplicates(
    cache: VariantCache, slots: Sequence[Augmenter], duplicates: Mapping[str, Sequence[str]]
) -> None:
    """A heavy view is made of a light one, so the duplicates stand for all of these, too."""
    identity = cache.introduce(ForumDuplicate())
    light = [cache.introduce(slot) for slot in slots]
    for question, same in duplicates.items():
        views = {view for one in light for view in cache.variants(question, one).values()}
        rows = [
            (text, number, other)
            for text in sorted({question, *views})
            for number, other in enumerate(same)
        ]
        cache.add(identity, rows)


def _unchanged(cache: VariantCache, slot: ModelAugmenter, questions: Sequence[str]) -> float:
    """The share of the questions' views that are the question, after filling what is missing."""
    fill(cache, slot, questions, variants=_VARIANTS, lang="en")
    identity = cache.introduce(slot)
    views = [(text, view) for text in questions for view in cache.variants(text, identity).values()]
    return sum(text == view for text, view in views) / len(views)


def _check(unchanged: Mapping[str, float]) -> None:
    alarming = [name for name, share in unchanged.items() if share > _MOST_UNCHANGED]
    if alarming:
        raise SystemExit(
            f"of the views by {' and '.join(alarming)}, "
            f"{', '.join(f'{unchanged[name]:.0%}' for name in alarming)} are the question itself; "
            f"expected {_MOST_UNCHANGED:.0%} at most. Next: a start trained longer, fuller synonym "
            "lists, or a lower least_cosine in views.py"
        )
