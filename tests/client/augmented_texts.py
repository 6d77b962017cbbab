"""Texts for the tests of augmenters: any Unicode, and queries in many scripts."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import strategies as st

from pocketquery.client.views.augmenter_choice import BUILT_IN
from pocketquery.client.views.augmenters import Augmenter, RuleAugmenter
from pocketquery.client.views.typing_augmenters import DropoutView, NoiseCase, Typo, Unfinished
from pocketquery.client.views.word_augmenters import NeighbourSwap, Shuffle, WordDrop

ANYTHING = st.one_of(
    st.text(max_size=30),
    st.text("ab CD\u0301\u200d\u3000é東京のแม่한글ß\n", max_size=20),
)
SEEDS = st.integers(0, 2**32)

QUERIES = [
    "What is the capital of France?",
    "как приготовить борщ",
    "हिन्दी में कैसे लिखें",
    "한국어 검색 엔진",
    "日本語の検索エンジン",
    "iPhoneの充電ができない 原因",
    "如何办理护照",
    "วิธีทำต้มยำกุ้ง",
    "كيف حالك يا صديقي",
    "Πού είναι η βιβλιοθήκη;",
]

AUGMENTERS: list[Augmenter] = [
    Typo(0.3),
    WordDrop(0.3),
    WordDrop(0.1, at_least=0),
    NeighbourSwap(2),
    Shuffle(),
    Unfinished(),
    NoiseCase(),
    DropoutView(),
]

assert {augmenter.name for augmenter in AUGMENTERS} == set(BUILT_IN)


@dataclass(frozen=True)
class German(RuleAugmenter):
    """A plug-in for one language that needs a file."""

    path: str = ""
    table: dict[str, str] = field(default_factory=lambda: {"bank": "geldinstitut"})
    name = "german"
    languages = frozenset({"de"})

    def available(self) -> tuple[bool, str]:
        return (not self.path or Path(self.path).exists()), f"there is no file {self.path}"

    def rewrite(self, text: str, rng: random.Random) -> str:
        return self.table.get(text, text)


def views(augmenter: Augmenter, text: str, count: int = 60) -> set[str]:
    """The different views that ``count`` generators give."""
    return {augmenter.augment(text, random.Random(seed)).text for seed in range(count)}
