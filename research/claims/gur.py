"""The claims of GUR (O20 to O25), in small.

    python research/claims/gur.py [--data FOLDER]

"Generate to Understand for Representation": infilling and contrast over pairs that share a long
substring. ``GUR-X`` is the full objective minus X: here ``no_lm``, ``no_cl``, ``no_lcs``.
Candidates are a title and a sentence below it in all arms; ``no_lcs`` takes any of them.

Pairs are mined from Wikipedia pages, none of which SQuAD asks about, and from a manual of
software. Asked are SQuAD's questions on held-out articles over all paragraphs. Classes are
CLINC150's intents: told by their names (``zero_shot``) or from 10 or 100 requests each
(``few_shot``, ``hundred_shot``), by a linear classifier on vectors that stay as they are.

``lm_loss`` is the infilling loss on each of some held-out pairs. What is written is compared with
what stood there, by F1 of the words: ``blanks`` of two words in those pairs, and, of the arm
``titles``, which learns to write titles beside, ``titles`` of SQuAD's paragraphs. Two arms are no
training at all: ``random`` is the weights as drawn, ``bm25`` BM25 in the encoder's place.
``low_recall@10`` and ``high_recall@10`` are over the questions that share the fewest and the most
words with their passage, a third each; ``duplicates`` are forum questions marked as duplicates, the
third of them whose titles share the fewest words: of each, whether it is among the ten nearest of
all titles.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from gate import intents
from numpy.typing import NDArray
from reporting import Definition, main
from retrieval_test import RetrievalTest, bm25_ranks, dense_ranks, rank_scores
from study import Corpus, Scores, Trained
from texts.data_sets import exchange_duplicates, manual, pages, squad
from texts.passage_tests import passage_test
from verdicts import Claim, above, far_above, near, not_below, ours, sum_above

from pocketquery.server.corpus import split_sentences
from pocketquery.server.corpus.groups import Group, GroupList
from pocketquery.server.corpus.mining.lcs_pairs import LcsConfig, mine_pairs
from pocketquery.server.corpus.mining.rankers import Bm25Ranker
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives.gur import Gur
from pocketquery_research.evaluation.classification import few_shot, zero_shot_classes
from pocketquery_research.evaluation.generation import blank_scores, title_scores
from pocketquery_research.evaluation.labelled_texts import LabelledTexts, label_text
from pocketquery_research.objectives.infilling import Infiller

Encode = Callable[[list[str]], NDArray[np.float32]]
_SHOTS = {"few_shot": 10, "hundred_shot": 100}
"""Metric -> labelled texts of a class."""
_DEVELOPED = 500  # questions to choose by
_PAGES = 2_000  # of Wikipedia, that pairs are mined from
_PAIRS_A_TITLE = 10  # that the arm which writes titles draws
_WRITTEN = 200  # titles, and texts with a blank


@dataclass(frozen=True)
class _Task:
    """What is asked of an arm on a corpus.

    ``duplicates`` are pairs of titles that share few words, among ``titles``; none: not asked.
    ``titled`` are titles and what they are of; none: no titles are written.
    """

    retrieval: RetrievalTest
    train: LabelledTexts
    test: LabelledTexts
    held_out: GroupList
    duplicates: Sequence[tuple[str, str]] = ()
    titles: Sequence[str] = ()
    titled: Sequence[tuple[str, str]] = ()


def corpus(data: Path) -> Corpus:
    """Documents to mine and the tasks; the pairs with and without the LCS filter."""
    documents, task = _documents_and_task(data)
    groups = [documents[row] for row in range(len(documents))]
    mined = {
        "lcs": LcsConfig(candidates="title"),
        "any": LcsConfig(candidates="title", use_lcs=False),
    }
    sources = {
        source: GroupList(list(mine_pairs(groups, config)), "pairs")
        for source, config in mined.items()
    }
    pairs = [sources["lcs"][row] for row in range(len(sources["lcs"]))]
    titled = [group for group in groups if group.title and len(group.texts) > 2]
    few = random.Random(0).sample(titled, min(len(titled), len(pairs) // _PAIRS_A_TITLE))
    sources["titled"] = GroupList(pairs + few, "documents")
    chosen_by = task.retrieval.training[:: max(1, len(task.retrieval.training) // _DEVELOPED)]
    overlap = _overlap(task.retrieval)
    return Corpus(
        "wiki",
        documents,
        sources,
        lambda trained: _evaluate(trained, task, overlap),
        lambda encoder: _found(encoder, task.retrieval.passages, chosen_by),
    )


def claims() -> list[Claim]:
    """The paper's orderings."""
    return [
        Claim(
            "O20",
            "full ~ no LM >> no CL, in recall@100 and zero-shot",
            [
                *(near("full", "no_lm", metric, 0.02) for metric in ("recall@100", "zero_shot")),
                *(
                    far_above(arm, "no_cl", metric)
                    for metric in ("recall@100", "zero_shot")
                    for arm in ("no_lm", "full")
                ),
            ],
        ),
        Claim(
            "O21",
            "full >= no LCS - 0.01 in recall, and > in zero-shot",
            [
                not_below("full", "no_lcs", "recall@100", 0.01),
                above("full", "no_lcs", "zero_shot"),
            ],
        ),
        Claim(
            "O22",
            "ten a class: full > no CL and full > no LM",
            [above("full", "no_cl", "few_shot"), above("full", "no_lm", "few_shot")],
        ),
        Claim(
            "O23",
            "the infilling loss of full within 2 % of no CL",
            [
                ours(
                    sum_above(
                        "1.02 times no_cl's loss less full's is above 0",
                        [(1.02, "no_cl_last", "lm_loss"), (-1, "full_last", "lm_loss")],
                    )
                )
            ],
        ),
        Claim(
            "O24",
            "a hundred a class: all arms within 0.03",
            [ours(near("full", arm, "hundred_shot", 0.03)) for arm in ("no_lm", "no_cl", "no_lcs")],
        ),
        Claim(
            "O25",
            "full > BM25 where two texts share few words, BM25 better where they share many",
            [
                ours(above("full", "bm25", "duplicates")),
                ours(above("bm25", "full", "high_recall@10")),
            ],
            [above("full", "bm25", "low_recall@10")],
        ),
    ]


def _documents_and_task(data: Path) -> tuple[GroupList, _Task]:
    """Documents that SQuAD's questions are not about; intents to be told."""
    _, retrieval = passage_test(data)
    more, held_out = pages(data, _PAGES)
    seen = [*(more[row] for row in range(len(more))), *manual(data)]
    pairs, titles = exchange_duplicates(data)
    train, test = intents(data)
    named = _in_words(train), _in_words(test)
    paragraphs = squad(data).documents
    drawn = (paragraphs[i] for i in random.Random(0).sample(range(len(paragraphs)), _WRITTEN))
    titled = [(group.texts[0], " ".join(group.texts[1:])) for group in drawn]
    task = _Task(retrieval, *named, _held_pairs(held_out), _least_alike(pairs), titles, titled)
    return GroupList(seen, "documents"), task


def _in_words(labelled: LabelledTexts) -> LabelledTexts:
    """With the classes' names put into words, as a person would write them."""
    return replace(labelled, names=tuple(label_text(name) for name in labelled.names))


def _held_pairs(paragraphs: Sequence[str]) -> GroupList:
    """Neighbouring sentences of some paragraphs, on which infilling is measured."""
    cut = (split_sentences(text) for text in paragraphs)
    pairs = [tuple(sentences[:2]) for sentences in cut if len(sentences) > 1][:256]
    return GroupList([Group(str(row), pair, (), "en") for row, pair in enumerate(pairs)], "pairs")


def _least_alike(pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The third of some pairs of texts that share the smallest part of their words."""
    shares = np.array([_share(first, second) for first, second in pairs])
    return [pairs[row] for row in np.flatnonzero(shares <= np.quantile(shares, 1 / 3)).tolist()]


def _share(text: str, other: str) -> float:
    """The share of a text's words that another has."""
    words = set(text.lower().split())
    return len(words & set(other.lower().split())) / len(words)


def _overlap(test: RetrievalTest) -> NDArray[np.float64]:
    """Share of each question's words that its passage has, float64 (questions,)."""
    return np.array([_share(question, test.passages[row]) for question, row in test.test])


def _found(
    encoder: SentenceEncoder, passages: list[str], asked: Sequence[tuple[str, int]]
) -> float:
    """recall@10 of some questions."""
    questions = encoder.encode([text for text, _ in asked])
    ranks = dense_ranks(questions, encoder.encode(passages), [row for _, row in asked])
    return float((ranks <= 10).mean())


def _evaluate(trained: Trained, task: _Task, overlap: NDArray[np.float64]) -> Scores:
    test = task.retrieval
    if trained.arm.endswith("_last"):
        return {"lm_loss": _written(trained, task)["lm_loss"]}
    if trained.arm == "bm25":
        return _bucketed(bm25_ranks(test), overlap) | _found_duplicates(None, task)
    encode = trained.encoder.encode
    asked = encode([text for text, _ in test.test])
    ranks = dense_ranks(asked, encode(test.passages), [row for _, row in test.test])
    right = zero_shot_classes(encode, task.train.names, task.test.texts) == task.test.classes
    scores = _bucketed(ranks, overlap) | {"zero_shot": right.astype(np.float64)}
    least = int(np.bincount(task.train.classes).min())
    for name, examples in _SHOTS.items():
        found = few_shot(
            trained.encoder,
            task.train,
            task.test,
            per_class=examples,
            head="probe",
            samplings=1 if least == examples else None,  # else all drawings are one
            seed=trained.seed,
        )
        scores[name] = np.mean([one.right for one in found], axis=0)
    return scores | _found_duplicates(encode, task) | _written(trained, task)


def _found_duplicates(encode: Encode | None, task: _Task) -> Scores:
    """Of titles whether a marked duplicate is among the ten nearest others; None: by BM25."""
    if not task.duplicates:
        return {}
    rows = {title: row for row, title in enumerate(task.titles)}
    pairs = [(rows[first], rows[second]) for first, second in task.duplicates]
    if encode is None:
        asked = [task.titles[first] for first, _ in pairs]
        rankings = Bm25Ranker(list(task.titles)).rank(asked, 11)
        hits = [
            second in [row for row in ranking if row != first][:10]
            for (first, second), ranking in zip(pairs, rankings, strict=True)
        ]
        return {"duplicates": np.array(hits, dtype=np.float64)}
    vectors = encode(list(task.titles))
    scores = vectors[[first for first, _ in pairs]] @ vectors.T  # (pairs, titles)
    scores[np.arange(len(pairs)), [first for first, _ in pairs]] = -2
    own = scores[np.arange(len(pairs)), [second for _, second in pairs]]
    return {"duplicates": ((scores >= own[:, None]).sum(axis=1) <= 10).astype(np.float64)}


def _bucketed(ranks: NDArray[np.int64], overlap: NDArray[np.float64]) -> Scores:
    low, high = np.quantile(overlap, [1 / 3, 2 / 3])
    hits = (ranks <= 10).astype(np.float64)
    return rank_scores(ranks) | {
        "low_recall@10": hits[overlap <= low],
        "high_recall@10": hits[overlap >= high],
    }


def _written(trained: Trained, task: _Task) -> Scores:
    """The infilling loss of each held-out pair, masked alike for every arm; what is written."""
    objective = next((one for one in trained.objectives if isinstance(one, Gur)), None)
    if objective is None or objective.decoder is None:
        return {}
    objective.eval()
    losses = []
    for row in range(len(task.held_out)):
        drawn = objective.draw(task.held_out[row], random.Random(row))
        if drawn is not None:
            batch = objective.collate([drawn], np.random.default_rng(row))
            with torch.no_grad():
                found = objective.loss(trained.encoder.eval(), batch)
            losses.append(float(found.parts["lm"]))
    infiller = Infiller(trained.encoder, objective.decoder)
    texts = [task.held_out[row].texts[1] for row in range(min(len(task.held_out), _WRITTEN))]
    scores = {"lm_loss": np.array(losses), "blanks": blank_scores(infiller, texts)}
    if objective.config.title_share and task.titled:
        scores["titles"] = title_scores(infiller, *map(list, zip(*task.titled, strict=True)))
    return scores


STUDY = Definition("gur", "wiki", corpus, claims, "recall@100")

if __name__ == "__main__":
    raise SystemExit(main(STUDY))
