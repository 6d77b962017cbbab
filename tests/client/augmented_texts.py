"""Texts for the tests of augmenters: any Unicode, and queries in many scripts."""

from __future__ import annotations

import random

from hypothesis import strategies as st

from pocketquery.client.views.augmenter_choice import BUILT_IN
from pocketquery.client.views.augmenters import Augmenter
from pocketquery.client.views.question_templates import Template
from pocketquery.client.views.synonyms import Synonyms
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

TABLE = {"capital": ["metropolis", "seat"], "検索": ["探索"], "борщ": ["суп"], "護": ["保"]}

AUGMENTERS: list[Augmenter] = [
    Typo(0.3),
    WordDrop(0.3),
    WordDrop(0.1, at_least=0),
    NeighbourSwap(2),
    Shuffle(),
    Unfinished(),
    Synonyms(TABLE, rate=1.0),
    Template(),
    NoiseCase(),
    DropoutView(),
]

assert {augmenter.name for augmenter in AUGMENTERS} == set(BUILT_IN)


def views(augmenter: Augmenter, text: str, count: int = 60) -> set[str]:
    """The different views that ``count`` generators give."""
    return {augmenter.augment(text, random.Random(seed)).text for seed in range(count)}
