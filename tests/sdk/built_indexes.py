"""Indexes of any documents, as ``pocketquery index`` builds them, and whether two are equal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from pocketquery.sdk.index.builder import COMMITTED_TOGETHER, create_index
from pocketquery.sdk.index.documents import Document
from pocketquery.sdk.index.index import open_index
from pocketquery.sdk.index.search import Mode
from tests.sdk.small_index import DIMENSION, SPACE, WordEncoder, vectors_of

MODES: tuple[Mode, ...] = ("dense", "lexical", "hybrid")
TEXTS = st.text(alphabet="abé 日本語,.", max_size=40)
FIELDS = st.dictionaries(
    st.sampled_from(["tenant", "region", "title"]),
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.5, 1e300, 2**70, "a", "b", "é", "", "a/b", "日本"])
    | st.lists(st.sampled_from(["a", "b", 1]), max_size=3),
)


def build(path: Path, documents: Sequence[Document], **options: Any) -> Path:
    """An index of ``documents`` at ``path``; ``options`` are those of ``create_index``."""
    options = {"language": "english"} | options
    with create_index(path, space_id=SPACE, dimension=DIMENSION, **options) as builder:
        for start in range(0, len(documents), COMMITTED_TOGETHER):
            some = documents[start : start + COMMITTED_TOGETHER]
            builder.add(some, vectors_of(some))
    return path


def assert_same_hits(left: Path, right: Path, texts: Sequence[str]) -> None:
    """The same documents, and hits, scores and their order in every mode, filtered or not."""
    encoder = WordEncoder()
    with open_index(left, encoder=encoder) as a, open_index(right, encoder=encoder) as b:
        assert len(a) == len(b)
        assert list(a.documents()) == list(b.documents())
        for text in filter(str.strip, [*texts[:5], "a b", "日本 bridge"]):
            for mode in MODES:
                for condition in (None, {"tenant": {"$ne": "a"}}):
                    hits = [one.search(text, 20, mode=mode, filter=condition) for one in (a, b)]
                    assert hits[0] == hits[1], (text, mode, condition)
