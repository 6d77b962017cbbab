"""The claims of GUR (O20 to O25), in small.

    python benchmarks/claims/gur.py [--corpora wiki scifact made_up] [--data FOLDER]

"Generate to Understand for Representation": infilling and contrast over pairs that share a long
substring. ``GUR-X`` is the full objective minus X: here ``no_lm``, ``no_cl``, ``no_lcs``.

* ``wiki``: pairs mined from Wikipedia paragraphs, but the held-out articles', and from a manual of
  software. Asked are SQuAD's questions on the held-out articles over all paragraphs; classes are
  the six of those articles that have enough sentences, told by their titles (``zero_shot``) or
  from 10 or 100 sentences each (``few_shot``, ``hundred_shot``: by a linear classifier on vectors
  that stay as they are; ``few_tuned``, ``hundred_tuned``: by fine-tuning all of the encoder).
* ``scifact``: pairs mined from SciFact's abstracts, Wikipedia articles and the manual. Asked are
  SciFact's claims; the classes are those of ``wiki``, without fine-tuning.
* ``made_up``: titled documents; a title is to find the sentence that repeats some of it, classes
  are topics.

``lm_loss`` is the infilling loss on held-out pairs. Two arms are no training at all: ``random`` is
the weights as drawn, ``bm25`` BM25 in the encoder's place. ``low_recall@10`` and ``high_recall@10``
are over the questions that share the fewest and the most words with their passage.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from data_sets import manual, squad
from numpy.typing import NDArray
from passage_tests import passage_test
from reporting import main
from retrieval_test import RetrievalTest, bm25_ranks, dense_ranks, rank_scores
from study import Corpus, Scores, Trained
from title_fixture import make_titled_documents
from verdicts import Claim, Results, Verdict, above, all_of, far_above, near, not_below

from pocketquery.server.corpus import split_sentences
from pocketquery.server.corpus.groups import Group, GroupList
from pocketquery.server.corpus.mining.lcs_pairs import LcsConfig, mine_pairs
from pocketquery.server.corpus.readers.labelled_texts import LabelledTexts
from pocketquery.server.evaluation.classification import few_shot, zero_shot_classes
from pocketquery.server.objectives.gur import Gur

_SHOTS = {
    "few_shot": (10, "probe"),
    "hundred_shot": (100, "probe"),
    "few_tuned": (10, "fine_tuning"),
    "hundred_tuned": (100, "fine_tuning"),
}
"""Metric -> labelled texts of a class and how they are learnt from."""
_TUNED = ("wiki", "made_up")  # fine-tuning takes longer than all the rest
_ASKED = 5_000  # made-up titles
_POOL, _TESTED = 140, (50, 200)  # texts of a class to sample from; least and most to be scored on


@dataclass(frozen=True)
class _Task:
    """What is asked of an arm on a corpus."""

    retrieval: RetrievalTest
    train: LabelledTexts
    test: LabelledTexts
    held_out: GroupList


def corpus(name: str, data: Path) -> Corpus:
    """Documents to mine and the tasks; the pairs with and without the LCS filter."""
    documents, task = _titles() if name == "made_up" else _public(name, data)
    groups = [documents[row] for row in range(len(documents))]
    mined = {"lcs": LcsConfig(), "any": LcsConfig(use_lcs=False, candidates="title")}
    sources = {
        source: GroupList(list(mine_pairs(groups, config)), "pairs")
        for source, config in mined.items()
    }
    overlap = _overlap(task.retrieval)
    shots = _shots(name)
    return Corpus(
        name, documents, sources, lambda trained: _evaluate(trained, task, overlap, shots)
    )


def claims(name: str) -> list[Claim]:
    """The paper's orderings."""
    overlap = Claim(
        "O25",
        "full > BM25 where question and passage share few words, BM25 better where many",
        all_of(above("full", "bm25", "low_recall@10"), above("bm25", "full", "high_recall@10")),
    )
    return [
        *([overlap] if name != "made_up" else []),  # made-up questions all share two words of four
        Claim(
            "O20",
            "full ~ no LM >> no CL, in recall@100 and zero-shot",
            all_of(
                near("full", "no_lm", "recall@100", 0.02),
                near("full", "no_lm", "zero_shot", 0.02),
                far_above("no_lm", "no_cl", "recall@100"),
                far_above("full", "no_cl", "recall@100"),
                far_above("no_lm", "no_cl", "zero_shot"),
                far_above("full", "no_cl", "zero_shot"),
            ),
        ),
        Claim(
            "O21",
            "full >= no LCS - 0.01 in recall, and > in zero-shot",
            all_of(
                not_below("full", "no_lcs", "recall@100", 0.01),
                above("full", "no_lcs", "zero_shot"),
            ),
        ),
        *(
            Claim(
                f"O22, {metric}",
                "ten a class: full > no CL and full > no LM",
                all_of(above("full", "no_cl", metric), above("full", "no_lm", metric)),
            )
            for metric, (examples, _) in _shots(name).items()
            if examples == 10
        ),
        Claim("O23", "the infilling loss of full within 2 % of no CL", _no_conflict),
        *(
            Claim(
                f"O24, {metric}",
                "a hundred a class: all arms within 0.03",
                all_of(*(near("full", arm, metric, 0.03) for arm in ("no_lm", "no_cl", "no_lcs"))),
            )
            for metric, (examples, _) in _shots(name).items()
            if examples == 100
        ),
    ]


def _shots(name: str) -> dict[str, tuple[int, str]]:
    return {m: s for m, s in _SHOTS.items() if s[1] == "probe" or name in _TUNED}


def _public(name: str, data: Path) -> tuple[GroupList, _Task]:
    """Documents without the articles that are the classes; questions as the set asks them."""
    found = squad(data)
    held = {_article(document) for _, document in found.test}
    paragraphs = [found.documents[row] for row in range(len(found.documents))]
    classes: dict[str, list[str]] = defaultdict(list)
    unseen = [group for group in paragraphs if _article(group.id) in held]
    for group in unseen:
        classes[group.texts[0]] += group.texts[1:]
    samples = [(text, title) for title, texts in classes.items() for text in texts]
    train, test = _halves(samples)
    read, retrieval = passage_test("squad" if name == "wiki" else name, data)
    seen = [read[row] for row in range(len(read)) if _article(read[row].id) not in held]
    seen += manual(data)
    return GroupList(seen, "documents"), _Task(retrieval, train, test, _held_pairs(unseen))


def _article(document: str) -> str:
    return document.rsplit("#", 1)[0]


def _titles() -> tuple[GroupList, _Task]:
    documents, found = make_titled_documents(3_000, seed=0, held_out=10_000)
    titles, sentences = found.titles[:_ASKED], found.sentences[:_ASKED]
    retrieval = RetrievalTest(sentences, [], list(zip(titles, range(_ASKED), strict=True)))
    samples = [(text, found.labels[topic]) for text, topic in found.samples]
    train, test = _halves(samples)
    held = [
        Group(str(row), pair, (), "en")
        for row, pair in enumerate(zip(titles[:256], sentences[:256], strict=True))
    ]
    return documents, _Task(retrieval, train, test, GroupList(held, "pairs"))


def _halves(samples: list[tuple[str, str]]) -> tuple[LabelledTexts, LabelledTexts]:
    """Samples to learn from and to be scored on, of every class that has enough for both."""
    by_class: dict[str, list[str]] = defaultdict(list)
    for text, name in samples:
        by_class[name].append(text)
    least, most = _TESTED
    rng = random.Random(0)
    train: list[tuple[str, str]] = []
    test: list[tuple[str, str]] = []
    for name, texts in sorted(by_class.items()):
        rng.shuffle(texts)
        if len(texts) >= _POOL + least:
            train += [(text, name) for text in texts[:_POOL]]
            test += [(text, name) for text in texts[_POOL : _POOL + most]]
    return _labelled(train), _labelled(test)


def _labelled(samples: list[tuple[str, str]]) -> LabelledTexts:
    return LabelledTexts.of([text for text, _ in samples], [name for _, name in samples])


def _held_pairs(paragraphs: Sequence[Group]) -> GroupList:
    """Neighbouring sentences of the last paragraphs, on which infilling is measured."""
    pairs = []
    for group in paragraphs[-256:]:
        sentences = group.texts[1:] if len(group.texts) > 2 else split_sentences(group.texts[-1])
        if len(sentences) > 1:
            pairs.append(Group(group.id, tuple(sentences[:2]), (), "en"))
    return GroupList(pairs, "pairs")


def _overlap(test: RetrievalTest) -> NDArray[np.float64]:
    """Share of each question's words that its passage has, float64 (questions,)."""
    shares = []
    for question, row in test.test:
        words = set(question.lower().split())
        shares.append(len(words & set(test.passages[row].lower().split())) / len(words))
    return np.array(shares)


def _evaluate(
    trained: Trained,
    task: _Task,
    overlap: NDArray[np.float64],
    shots: Mapping[str, tuple[int, str]],
) -> Scores:
    test = task.retrieval
    if trained.arm == "bm25":
        return _bucketed(bm25_ranks(test), overlap)
    encode = trained.encoder.encode
    asked = encode([text for text, _ in test.test])
    ranks = dense_ranks(asked, encode(test.passages), [row for _, row in test.test])
    right = zero_shot_classes(encode, task.train.names, task.test.texts) == task.test.classes
    scores = _bucketed(ranks, overlap) | {"zero_shot": right.astype(np.float64)}
    for name, (examples, head) in shots.items():
        found = few_shot(trained.encoder, task.train, task.test, per_class=examples, head=head)
        scores[name] = np.mean([one.right for one in found], axis=0)
    return scores | _lm_loss(trained, task.held_out)


def _bucketed(ranks: NDArray[np.int64], overlap: NDArray[np.float64]) -> Scores:
    low, high = np.quantile(overlap, [1 / 3, 2 / 3])
    hits = (ranks <= 10).astype(np.float64)
    return rank_scores(ranks) | {
        "low_recall@10": hits[overlap <= low],
        "high_recall@10": hits[overlap >= high],
    }


def _lm_loss(trained: Trained, held_out: GroupList) -> Scores:
    """The infilling loss on held-out pairs, masked alike for every arm; one figure a seed."""
    for objective in trained.objectives:
        if isinstance(objective, Gur) and objective.config.variant != "no_lm":
            drawn = [objective.draw(held_out[i], random.Random(i)) for i in range(len(held_out))]
            examples = [example for example in drawn if example is not None]
            batch = objective.collate(examples, np.random.default_rng(0))
            with torch.no_grad():
                found = objective.eval().loss(trained.encoder.eval(), batch)
            return {"lm_loss": np.array([float(found.parts["lm"])])}
    return {}


def _no_conflict(results: Results) -> Verdict:
    full, alone = (float(results[arm]["lm_loss"].mean()) for arm in ("full", "no_cl"))
    shown = f"infilling loss {full:.4f} with the contrast, {alone:.4f} without"
    return Verdict(full <= 1.02 * alone, shown)


if __name__ == "__main__":
    raise SystemExit(
        main("gur", ("wiki", "scifact", "made_up"), corpus, claims, lambda name: "recall@100")
    )
