"""The claim of Query-BERT about alignment (O10), in small.

    python research/claims/alignment.py [--corpora squad made_up] [--data FOLDER]

*Query-BERT*: a light query side is aligned to the space of a frozen document encoder, here
all-MiniLM-L6-v2, first towards its vectors of the queries, then against hard negatives. Of
unseen questions (``squad``: about other articles) ``margin`` is the cosine to the right
paragraph less the mean cosine to those that BM25 ranks high, ``recall@10`` among all paragraphs.

* ``squad``: paragraphs of Wikipedia articles. Word vectors are trained on these, on the pages that
  the starts have read and on the training questions; the first stage reads sentences of the same.
* ``made_up``: a knowledge base with near misses, asked in wordings that training did not see. Word
  vectors are trained on sessions about it.

The arm ``teacher`` is the document encoder on both sides.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from data_sets import pages
from fixtures.session_fixture import make_sessions
from gate import checked_leg
from numpy.typing import NDArray
from passage_tests import passage_test
from reporting import Definition, main
from retrieval_test import RetrievalTest, dense_ranks, triples_of
from starts import WORK, Start, declared, fingerprint
from study import Corpus, Scores, Study, Trained
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
        self._starts = {
            arm: Start(settings["start"])
            for arm, settings in self.settings["arms"].items()
            if settings["kind"] == "encoder"
        }
        self._legs = {arm: checked_leg(start) for arm, start in self._starts.items()}
        trained = {arm: start.trained(self._legs[arm]) for arm, start in self._starts.items()}
        self._named = " ".join(fingerprint(encoder) for encoder in trained.values())
        self.start_said = f"{', '.join(self.settings['arms'][arm]['start'] for arm in trained)}"

    def begin_stored(self) -> None:
        self.begin(trains=False)

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
            encoder = self._starts[arm].trained(self._legs[arm])
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


def corpus(name: str, data: Path) -> Corpus:
    """Texts to lead towards the teacher, questions with hard negatives, and the test."""
    documents, test = _knowledge() if name == "made_up" else passage_test("squad", data)
    read = [documents[row] for row in range(len(documents))]
    more, _ = pages(data)
    read += [more[row] for row in range(len(more))] if name == "squad" else []
    sentences = dict.fromkeys(text for group in read for text in group.texts)
    questions = [text for text, _ in test.training]
    texts = [*questions, *random.Random(0).sample(list(sentences), len(sentences))]
    texts = texts[: declared("alignment")["texts"]]
    queries = [Group(f"text-{i}", (text,)) for i, text in enumerate(dict.fromkeys(texts))]
    held = RetrievalTest(test.passages, test.test, test.test)
    negatives = _negatives(held)
    return Corpus(
        name,
        GroupList(read + queries[: len(questions)], "documents"),
        {"texts": GroupList(queries, "queries"), "triples": triples_of(test)},
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


STUDY = Definition(
    "alignment", ("squad", "made_up"), corpus, claims, lambda name: "margin", AlignmentStudy
)

if __name__ == "__main__":
    raise SystemExit(main(STUDY))
