"""The claims of Auto-MLM (O1 to O5), in small.

    python research/claims/auto_mlm.py [--data FOLDER]

"Auto-MLM: Improved Contrastive Learning for Self-supervised Multi-lingual Knowledge Retrieval".

Trained on the schema-guided dialogues. Of a held-out exchange, the agent's answer is to be found
among itself and 99 others by the user's turn (``hit@1``), and CLINC150 is the knowledge base: ten
requests of each intent are its questions, a request of the test finds one of its own intent first
(``knowledge@1``) or among ten (``knowledge@10``).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from gate import intents
from numpy.typing import NDArray
from reporting import Definition, main
from study import Corpus, Scores, Trained
from texts.data_sets import SessionTest, services
from verdicts import Claim, above, margin_above, near

from pocketquery.server.corpus.groups import GroupList
from pocketquery.server.modeling import SentenceEncoder
from pocketquery_research.evaluation.classification import sample_rows
from pocketquery_research.evaluation.knowledge import hits_at

_METRICS = ("hit@1", "knowledge@1", "knowledge@10")
_OTHERS = 99
_DEVELOPED = 400  # sessions to choose by
_QUESTIONS = 10  # of an intent, in the knowledge base

Encode = Callable[[list[str]], NDArray[np.float32]]
Labelled = tuple[list[str], list[str]]
"""Texts, and the entry of each."""


def corpus(data: Path) -> Corpus:
    """What is trained, chosen and tested on."""
    sessions, test = services(data)
    rest, dev = _held_sessions(sessions)
    asked, base = _knowledge(data)

    def evaluate(trained: Trained) -> Scores:
        encode = trained.encoder.encode
        known = {f"knowledge@{k}": _entry_hits(encode, k, asked, base) for k in (1, 10)}
        return {"hit@1": answer_hits(encode, test.queries, test.answers), **known}

    def develop(encoder: SentenceEncoder) -> float:
        return float(answer_hits(encoder.encode, dev.queries, dev.answers).mean())

    return Corpus("services", rest, {}, evaluate, develop)


def claims() -> list[Claim]:
    """The paper's orderings, on every metric, the main one first."""
    return [claim for metric in _METRICS for claim in _claims(metric)]


def _claims(metric: str) -> list[Claim]:
    suffix = f", {metric}"
    cut = ("cl", "cl_auto_0.5", "cl_auto")  # 0, .5, 1
    sweep = ("cl", "cl_auto_0.1", "cl_auto_0.5", "cl_auto", "cl_auto_2")  # 0, .1, .5, 1, 2
    return [
        Claim(
            f"O1{suffix}",
            "CL + Auto-MLM > CL > MLM",
            [above("cl_auto", "cl", metric), above("cl", "mlm", metric)],
            [above("cl_auto", "cl_twice", metric)],
        ),
        Claim(
            f"O2{suffix}",
            "CL + MLM ~ CL, and CL + Auto-MLM > CL + MLM",
            [near("cl_mlm", "cl", metric, 0.01), above("cl_auto", "cl_mlm", metric)],
            [near("cl_mlm", "cl_twice", metric, 0.01)],
        ),
        Claim(
            f"O3{suffix}",
            "Auto-MLM alone > MLM alone",
            [above("auto", "mlm", metric)],
            [above("auto", "mlm_twice", metric)],
        ),
        Claim(
            f"O4{suffix}",
            "of the weights 0, 0.1, 0.5, 1, 2 no end is the best, and of 0, 0.5, 1 the worst is 0",
            [
                margin_above("the best is 0.1, 0.5 or 1", sweep, metric, _best_inside),
                margin_above("the worst of 0, 0.5 and 1 is 0", cut, metric, _first_worst),
            ],
        ),
        Claim(
            f"O5{suffix}",
            "CL > CMLM and CL > SimCSE",
            [above("cl", "cmlm", metric), above("cl", "simcse", metric)],
            [above("cl_twice", "simcse", metric)],
        ),
    ]


def _best_inside(means: NDArray[np.float64]) -> NDArray[np.float64]:
    """By how much the best of the inner rows of (arms, samples) is above both ends."""
    margin: NDArray[np.float64] = means[1:-1].max(axis=0) - np.maximum(means[0], means[-1])
    return margin


def _first_worst(means: NDArray[np.float64]) -> NDArray[np.float64]:
    """By how much the first of (arms, samples) is below all others."""
    margin: NDArray[np.float64] = means[1:].min(axis=0) - means[0]
    return margin


def answer_hits(
    encode: Callable[[list[str]], NDArray[np.float32]], queries: list[str], answers: list[str]
) -> NDArray[np.float64]:
    """Whether each query's answer is the nearest among its own and 99 others, drawn once."""
    asked, said = encode(queries), encode(answers)
    rng = np.random.default_rng(0)
    hits = np.empty(len(queries))
    for row, vector in enumerate(asked):
        others = rng.choice(len(answers), _OTHERS + 1, replace=False)
        others = others[[answers[other] != answers[row] for other in others]][:_OTHERS]
        best = (said[others] @ vector).max()
        hits[row] = said[row] @ vector > best
    return hits


def _held_sessions(sessions: GroupList) -> tuple[GroupList, SessionTest]:
    """All sessions but some, of which each gives an exchange to choose by."""
    every = max(2, len(sessions) // _DEVELOPED)
    rest, queries, answers = [], [], []
    for row in range(len(sessions)):
        group = sessions[row]
        places = [i for i, role in enumerate(group.roles[:-1]) if role == "user"]
        if row % every or not places:
            rest.append(group)
        else:
            queries.append(group.texts[places[0]])
            answers.append(group.texts[places[0] + 1])
    return GroupList(rest, "sessions"), SessionTest(queries, answers)


def _knowledge(data: Path) -> tuple[Labelled, Labelled]:
    """Questions of the knowledge base, a few of each intent, and every other test request."""
    train, test = intents(data)
    rows = sample_rows(train.classes, _QUESTIONS, np.random.default_rng(0))
    base = [train.texts[row] for row in rows], [str(train.classes[row]) for row in rows]
    asked = list(test.texts[::2]), [str(one) for one in test.classes[::2]]
    return asked, base


def _entry_hits(encode: Encode, k: int, asked: Labelled, base: Labelled) -> NDArray[np.float64]:
    """Whether each text finds a question of its own entry among its nearest k."""
    return hits_at(k, encode(asked[0]), asked[1], encode(base[0]), base[1])


STUDY = Definition("auto_mlm", "services", corpus, claims, "hit@1")

if __name__ == "__main__":
    raise SystemExit(main(STUDY))
