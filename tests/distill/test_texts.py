from __future__ import annotations

from pocketquery.distill.texts import query_like_texts, unique_texts
from pocketquery.sdk.index.documents import Document

TEXT = "Plants make sugar. They need light, water and air to do so on every single summer day. Ok."


def test_titles_sentences_pairs_and_spans() -> None:
    texts = list(query_like_texts([Document("a", TEXT, {"title": "Leaf"})], seed=1))
    first, second = "Plants make sugar.", TEXT[19:-4]
    assert texts[:4] == ["Leaf", first, second, f"{first} {second}"]
    span = texts[4]
    assert span in TEXT
    assert 3 <= len(span.split()) <= 8
    assert len(texts) == 5  # one word is no query-like sentence


def test_spans_follow_the_seed() -> None:
    documents = [Document("a", TEXT, {})] * 5
    assert list(query_like_texts(documents, 1)) == list(query_like_texts(documents, 1))
    assert list(query_like_texts(documents, 1)) != list(query_like_texts(documents, 2))


def test_unique_texts_keep_their_order() -> None:
    assert unique_texts([" b ", "a", "", "b", "  "]) == ["b", "a"]
