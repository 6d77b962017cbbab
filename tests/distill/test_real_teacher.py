"""Distillation from the real teacher on real questions: minutes, hence slow."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pocketquery.distill import StudentConfig, TrainingConfig, distill
from pocketquery.sdk.index.documents import content
from pocketquery.server.evaluation import rank_exactly, score_rankings
from pocketquery.server.modeling import SentenceEncoder
from pocketquery_demo.corpus import read_demo_corpus

pytestmark = [pytest.mark.very_slow, pytest.mark.timeout(1800)]

CONFIG = TrainingConfig(
    steps=150, batch_size=64, learning_rate=5e-4, max_length=32, nearest=4, train_vocabulary=False
)


@pytest.mark.parametrize(
    ("shape", "config", "least"),
    [
        ("3x384", CONFIG, 0.85),
        ("2x128", replace(CONFIG, steps=400, learning_rate=2e-3, train_vocabulary=True), 0.30),
    ],
)
def test_a_short_distillation_keeps_much_of_the_teachers_retrieval(
    tmp_path: Path, shape: str, config: TrainingConfig, least: float
) -> None:
    corpus = read_demo_corpus()
    teacher = SentenceEncoder.load("demo")
    questions = [query.text for query in corpus.training.queries][::2]
    ranked = [content(document) for document in corpus.training_documents][::4]
    distill(
        teacher,
        questions,
        tmp_path / "s",
        documents=ranked,
        student=StudentConfig(shape),
        config=config,
    )
    student = SentenceEncoder.load(tmp_path / "s")

    # Every fourth paragraph of the held-out articles, and the questions on them.
    documents = [d for d in corpus.documents if d not in corpus.training_documents][::4]
    ids = [document.id for document in documents]
    vectors = teacher.encode_document([content(document) for document in documents])
    judgements = {
        query.id: corpus.held_out.judgements[query.id]
        for query in corpus.held_out.queries
        if set(corpus.held_out.judgements[query.id]) & set(ids)
    }
    queries = [query for query in corpus.held_out.queries if query.id in judgements]

    def quality(encoder: SentenceEncoder) -> float:
        found = rank_exactly(
            encoder.encode_query([query.text for query in queries]), vectors, ids, 10, seed=0
        )
        rankings = {query.id: ranking for query, ranking in zip(queries, found, strict=True)}
        return score_rankings(judgements, rankings).means()["ndcg@10"]

    assert quality(student) / quality(teacher) > least
