"""The claim of Query-BERT about alignment (O10), in small.

    python benchmarks/claims/alignment.py [--corpora squad made_up] [--data FOLDER]

*Query-BERT*: a light query side is aligned to the space of a frozen document encoder, here
all-MiniLM-L6-v2, first towards its vectors of the queries, then against hard negatives. Of
unseen questions (``squad``: about other articles) ``margin`` is the cosine to the right
paragraph less the mean cosine to those that BM25 ranks high, ``recall@10`` among all paragraphs.

* ``squad``: paragraphs of Wikipedia articles. Word vectors and warm starts are trained on the
  paragraphs and the training questions.
* ``made_up``: a knowledge base with near misses, asked in wordings that training did not see. Word
  vectors and warm starts are trained on sessions about it.

The arm ``teacher`` is the document encoder on both sides.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from passage_tests import passage_test
from reporting import main
from retrieval_test import RetrievalTest, dense_ranks, triples_of
from session_fixture import make_sessions
from study import WORK, Corpus, Scores, Study, Trained
from verdicts import Claim, above, all_of

from pocketquery.distill import (
    AlignmentConfig,
    EncoderTower,
    WordAverage,
    align,
    alignment_data,
    with_alignment_head,
)
from pocketquery.sdk.index.documents import Document
from pocketquery.server.corpus.groups import Group, GroupList
from pocketquery.server.evaluation import encode_documents
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.word2vec import Word2VecConfig, WordVectors, train_word2vec

_LADDER = ("w2v_linear", "w2v_dan", "nano", "mini", "teacher")
_STAGES = ("align_qd", "align_nce")


class AlignmentStudy(Study):
    """Arms that are query sides, aligned alike."""

    def train(self, arm: str, seed: int, run: Path | None = None) -> Trained:
        settings = self.settings["arms"][arm]
        teacher = SentenceEncoder.load("demo")
        if settings["kind"] == "teacher":
            return Trained(arm, seed, teacher)
        cache = WORK / self.name / self.corpus.name / "vectors"
        data = alignment_data(teacher, self.corpus.sources["triples"], cache)
        tower = self._tower(settings, teacher, seed)
        options = {**self.settings["align"], **settings.get("align", {})}
        for loss in _STAGES:
            align(tower, data, AlignmentConfig(loss=loss, seed=seed, **options))
        return Trained(arm, seed, tower)

    def _tower(self, settings: Mapping[str, Any], teacher: SentenceEncoder, seed: int) -> Any:
        if settings["kind"] == "encoder":
            shaped = Study(self.name, self.corpus)
            shaped.settings = {**self.settings, **settings["shape"]}
            return EncoderTower(with_alignment_head(shaped.start(), teacher, seed), "full")
        words = self._words(seed)
        if settings["layers"] > 1:
            return WordAverage.dan(words, teacher.dimension, seed)
        return WordAverage(words, teacher.dimension, seed=seed)

    def _words(self, seed: int) -> WordVectors:
        """Word vectors of what the warm starts read; kept, as two arms stand on them."""
        kept = WORK / self.name / self.corpus.name / f"words-{seed}.npz"
        if not kept.is_file():
            read = self.corpus.warm
            texts = [" ".join(read[row].texts) for row in range(len(read))]
            train_word2vec(texts, Word2VecConfig(seed=seed, subsampling=1e-3)).save(kept)
        return WordVectors.load(kept)


def corpus(name: str, data: Path) -> Corpus:
    """Questions with their passage and hard negatives, and the test."""
    documents, test = _knowledge() if name == "made_up" else passage_test("squad", data)
    asked = [Group(f"question-{i}", (text,)) for i, (text, _) in enumerate(test.training)]
    read = [documents[row] for row in range(len(documents))] + asked
    held = RetrievalTest(test.passages, test.test, test.test)
    negatives = _negatives(held)
    return Corpus(
        name,
        GroupList(read, "documents"),
        {"triples": triples_of(test)},
        lambda trained: _evaluate(trained, held, negatives),
    )


def _knowledge() -> tuple[GroupList, RetrievalTest]:
    sessions, found = make_sessions(4_000, seed=0)
    read = [Group(one.id, one.texts) for one in (sessions[row] for row in range(len(sessions)))]
    queries = zip(found.queries, found.query_entries, strict=True)
    rows = {entry: row for row, entry in enumerate(found.question_entries[::2])}
    test = RetrievalTest(
        found.questions[::2],  # one wording of each entry
        [(text, rows[entry]) for text, entry in found.asked],
        [(text, rows[entry]) for text, entry in queries],
    )
    return GroupList(read, "documents"), test


def claims(name: str) -> list[Claim]:
    """The report's ladder."""
    return [
        Claim(
            f"O10, {metric}",
            "word vectors, linear < DAN < nano < mini with shared layers < the document encoder",
            all_of(*(above(better, worse, metric) for worse, better in pairwise(_LADDER))),
        )
        for metric in ("margin", "recall@10")
    ]


def _negatives(test: RetrievalTest) -> dict[str, list[int]]:
    """Of every test question the rows of its hard negatives."""
    rows = {text: row for row, text in enumerate(test.passages)}
    triples = triples_of(test)
    groups = (triples[row] for row in range(len(triples)))
    return {group.texts[0]: [rows[text] for text in group.texts[2:]] for group in groups}


def _evaluate(trained: Trained, test: RetrievalTest, negatives: Mapping[str, list[int]]) -> Scores:
    documents = [Document(str(row), text) for row, text in enumerate(test.passages)]
    passages = encode_documents(SentenceEncoder.load("demo"), documents, cache=WORK / "vectors")
    texts, right = [text for text, _ in test.test], [row for _, row in test.test]
    asked = trained.encoder.encode(texts)
    cosines: NDArray[np.float32] = asked @ passages.T  # (questions, passages)
    margins = [
        row[positive] - row[negatives[text]].mean()
        for row, positive, text in zip(cosines, right, texts, strict=True)
        if negatives.get(text)
    ]
    ranks = dense_ranks(asked, passages, right)
    return {
        "margin": np.array(margins, dtype=np.float64),
        "recall@10": (ranks <= 10).astype(np.float64),
    }


if __name__ == "__main__":
    raise SystemExit(
        main(
            "alignment", ("squad", "made_up"), corpus, claims, lambda name: "margin", AlignmentStudy
        )
    )
