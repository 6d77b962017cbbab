"""The claim of Query-BERT about alignment (O10), in small.

    python research/claims/alignment.py [--data FOLDER]

*Query-BERT*: a light query side is aligned to the space of a frozen document encoder, here
all-MiniLM-L6-v2, first towards its vectors of the queries, then against hard negatives. Of SQuAD's
questions about other articles ``margin`` is the cosine to the right paragraph less the mean cosine
to those that BM25 ranks high, ``recall@10`` among all paragraphs. Word vectors are trained on the
paragraphs, on the pages that the starts have read and on the training questions; the first stage
reads sentences of the same. The arm ``teacher`` is the document encoder on both sides.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from gate import checked_leg
from numpy.typing import NDArray
from reporting import Definition, main
from retrieval_test import RetrievalTest, dense_ranks, triples_of
from starts import WORK, Start, declared, fingerprint
from study import Corpus, Scores, Study, Trained
from texts.data_sets import pages
from texts.passage_tests import passage_test
from verdicts import Claim, above

from pocketquery.sdk.index.documents import Document
from pocketquery.server.corpus.groups import Group, GroupList
from pocketquery.server.evaluation import encode_documents
from pocketquery.server.modeling import SentenceEncoder
from pocketquery_research.alignment import (
    AlignmentConfig,
    EncoderTower,
    WordAverage,
    align,
    alignment_data,
    with_alignment_head,
)
from pocketquery_research.augmentation.word2vec import Word2VecConfig, WordVectors, train_word2vec

_LADDER = ("w2v_linear", "w2v_dan", "nano", "mini", "teacher")
_STAGES = {"align_qd": "texts", "align_nce": "triples"}  # loss -> what is read


class AlignmentStudy(Study):
    """Arms that are query sides, aligned alike; encoders begin with their own shape's start."""

    def begin(self, *, trains: bool = True) -> None:
        """Each encoder's start is held to its gate when the arm is asked for."""
        self.start_said = "each encoder its own"

    def begin_stored(self) -> None:
        self.begin(trains=False)

    def missing(self, arm: str) -> list[int]:
        try:
            return super().missing(arm)
        except SystemExit:  # its start has not passed
            return self.seeds(arm)

    def _key(self, arm: str) -> str:
        settings = self.settings["arms"][arm]
        self._named = ""
        if settings["kind"] == "encoder":
            self._named = fingerprint(self._start_of(arm))
        return super()._key(arm)

    def _start_key(self) -> str:
        return self._named

    def _start_of(self, arm: str) -> SentenceEncoder:
        start = Start(self.settings["arms"][arm]["start"])
        return start.trained(checked_leg(start))

    def begin_anywhere(self) -> None:
        raise SystemExit(
            "alignment.py has no estimate; expected a study whose arms have objectives"
        )

    def train(self, arm: str, seed: int, run: Path | None = None) -> Trained:
        settings = self.settings["arms"][arm]
        teacher = SentenceEncoder.load("demo")
        if settings["kind"] == "teacher":
            return Trained(arm, seed, teacher)
        cache = self._folder() / "vectors"
        if run is not None:
            run.mkdir(parents=True, exist_ok=True)
        tower = self._tower(arm, teacher, seed)
        options = {**self.settings["align"], **settings.get("align", {})}
        for loss, source in _STAGES.items():
            data = alignment_data(teacher, self.corpus.sources[source], cache)
            checkpoint = None if run is None else run / f"{loss}.pt"
            config = AlignmentConfig(loss=loss, seed=seed, **options)
            align(tower, data, config, checkpoint=checkpoint)
        return Trained(arm, seed, tower)

    def _tower(self, arm: str, teacher: SentenceEncoder, seed: int) -> Any:
        settings = self.settings["arms"][arm]
        if settings["kind"] == "encoder":
            encoder = self._start_of(arm)
            encoder.max_length = self.settings["max_length"]
            return EncoderTower(with_alignment_head(encoder, teacher, seed), "full")
        words = self._words(seed)
        if settings["layers"] > 1:
            return WordAverage.dan(words, teacher.dimension, seed)
        return WordAverage(words, teacher.dimension, seed=seed)

    def _words(self, seed: int) -> WordVectors:
        """Word vectors of what the warm starts read; kept, as two arms stand on them."""
        kept = self._folder() / f"words-{seed}.npz"
        if not kept.is_file():
            kept.parent.mkdir(parents=True, exist_ok=True)
            read = self.corpus.texts
            texts = [" ".join(read[row].texts) for row in range(len(read))]
            train_word2vec(texts, Word2VecConfig(seed=seed, subsampling=1e-3)).save(kept)
        return WordVectors.load(kept)


def corpus(data: Path) -> Corpus:
    """Texts to lead towards the teacher, questions with hard negatives, and the test."""
    documents, test = passage_test(data)
    more, _ = pages(data)
    read = [
        group for part in (documents, more) for group in (part[row] for row in range(len(part)))
    ]
    sentences = dict.fromkeys(text for group in read for text in group.texts)
    questions = [text for text, _ in test.training]
    texts = [*questions, *random.Random(0).sample(list(sentences), len(sentences))]
    texts = texts[: declared("alignment")["texts"]]
    queries = [Group(f"text-{i}", (text,)) for i, text in enumerate(dict.fromkeys(texts))]
    held = RetrievalTest(test.passages, test.test, test.test)
    negatives = _negatives(held)
    return Corpus(
        "squad",
        GroupList(read + queries[: len(questions)], "documents"),
        {"texts": GroupList(queries, "queries"), "triples": triples_of(test)},
        lambda trained: _evaluate(trained, held, negatives),
    )


def claims() -> list[Claim]:
    """The report's ladder."""
    return [
        Claim(
            f"O10, {metric}",
            "word vectors, linear < DAN < nano < mini with shared layers < the document encoder",
            [above(better, worse, metric) for worse, better in pairwise(_LADDER)],
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


STUDY = Definition("alignment", "squad", corpus, claims, "margin", AlignmentStudy)

if __name__ == "__main__":
    raise SystemExit(main(STUDY))
