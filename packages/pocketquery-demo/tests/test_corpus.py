from __future__ import annotations

from pocketquery_demo.corpus import (
    HELD_OUT_ARTICLES,
    article,
    is_held_out,
    read_demo_corpus,
)


def test_the_split_leaves_whole_articles_out() -> None:
    corpus = read_demo_corpus()
    assert {article(d.id) for d in corpus.documents} > HELD_OUT_ARTICLES
    assert not any(is_held_out(d.id) for d in corpus.training_documents)
    for part, held_out in ((corpus.training, False), (corpus.held_out, True)):
        judged = {document for grades in part.judgements.values() for document in grades}
        assert {is_held_out(document) for document in judged} == {held_out}
