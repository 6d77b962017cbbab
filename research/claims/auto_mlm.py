"""The claims of Auto-MLM (O1 to O5), in small.

    python research/claims/auto_mlm.py [--corpora services threads forum made_up] [--data FOLDER]

"Auto-MLM: Improved Contrastive Learning for Self-supervised Multi-lingual Knowledge Retrieval".

* ``services``: trained on the schema-guided dialogues; of a held-out exchange, the agent's answer
  is to be found among itself and 99 others by the user's turn (``hit@1``), and CLINC150 is the
  knowledge base: ten requests of each intent are its questions, a request of the test finds one of
  its own intent first (``knowledge@1``) or among ten (``knowledge@10``).
* ``threads``: trained on help threads of a chat; of a held-out thread, the first answer is to be
  found among itself and 99 others by the first turn (``hit@1``).
* ``forum``: trained on titles and sentences of the bodies of forum questions, never their labels;
  candidates are re-ranked (``p@1``, ``map``), and marked duplicates of another forum are to be
  found among all of its titles (``hit@10``).
* ``made_up``: sessions over 200 intents with near misses; the knowledge entry is to be found among
  400 questions by a wording that training never saw (``hit@1``, ``hit@10``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from data_sets import SessionTest, exchange_duplicates, question_bodies, services, threads
from fixtures.session_fixture import make_sessions
from gate import intents
from numpy.typing import NDArray
from reporting import Definition, main
from study import Corpus, Scores, Trained
from verdicts import Claim, above, near, share_of_draws

from pocketquery.server.corpus.groups import GroupList
from pocketquery.server.modeling import SentenceEncoder
from pocketquery_research.evaluation.candidate_files import CandidateList
from pocketquery_research.evaluation.candidates import score_candidates
from pocketquery_research.evaluation.classification import sample_rows
from pocketquery_research.evaluation.duplicate_pairs import DuplicatePair, connected_pairs
from pocketquery_research.evaluation.knowledge import hits_at

METRICS = {
    "services": ("hit@1", "knowledge@1", "knowledge@10"),
    "threads": ("hit@1",),
    "forum": ("p@1", "hit@10"),
    "made_up": ("hit@1", "hit@10"),
}
_SESSIONS = {"services": services, "threads": threads}
_OTHERS = 99
_DEVELOPED = 400  # sessions to choose by
_QUESTIONS = 10  # of an intent, in the knowledge base

Encode = Callable[[list[str]], NDArray[np.float32]]
Labelled = tuple[list[str], list[str]]
"""Texts, and the entry of each."""


def corpus(name: str, data: Path) -> Corpus:
    """What is trained, chosen and tested on, by name."""
    if name == "forum":
        return _forum(data)
    if name == "made_up":
        return _made_up()
    sessions, test = _SESSIONS[name](data)
    rest, dev = _held_sessions(sessions)
    knowledge = _knowledge(data) if name == "services" else None

    def evaluate(trained: Trained) -> Scores:
        encode = trained.encoder.encode
        found = {"hit@1": answer_hits(encode, test.queries, test.answers)}
        return found | (_known(encode, knowledge) if knowledge else {})

    def develop(encoder: SentenceEncoder) -> float:
        return float(answer_hits(encoder.encode, dev.queries, dev.answers).mean())

    return Corpus(name, rest, {}, evaluate, develop)


def _forum(data: Path) -> Corpus:
    """Half of the marked duplicates are for development, none of whose titles is tested; re-ranking
    is tested whole.
    """
    questions, lists = question_bodies(data)
    duplicates, titles = exchange_duplicates(data)
    together = connected_pairs([DuplicatePair(first, second, True) for first, second in duplicates])
    dev, test = (
        [(pair.first, pair.second) for some in together[half::2] for pair in some]
        for half in (0, 1)
    )
    return Corpus(
        "forum",
        questions,
        {},
        lambda t: _candidates(t, lists) | _duplicates(t.encoder, test, titles),
        lambda encoder: float(_duplicates(encoder, dev, titles)["hit@10"].mean()),
    )


def _made_up() -> Corpus:
    """Development asks in wordings that sessions have, the test in others."""
    sessions, knowledge = make_sessions(4_000, seed=0)
    asked = [text for text, _ in knowledge.asked], [entry for _, entry in knowledge.asked]
    tested = knowledge.queries, knowledge.query_entries
    base = knowledge.questions, knowledge.question_entries
    return Corpus(
        "made_up",
        sessions,
        {},
        lambda t: {f"hit@{k}": _entry_hits(t.encoder.encode, k, tested, base) for k in (1, 10)},
        lambda encoder: float(_entry_hits(encoder.encode, 1, asked, base).mean()),
    )


def claims(name: str) -> list[Claim]:
    """The paper's orderings, on the metrics of the corpus."""
    several = len(METRICS[name]) > 1
    return [claim for metric in METRICS[name] for claim in _claims(metric, several)]


def _claims(metric: str, several: bool) -> list[Claim]:
    suffix = f", {metric}" if several else ""
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
                share_of_draws("the best is 0.1, 0.5 or 1", sweep, metric, _best_inside),
                share_of_draws(
                    "the worst of 0, 0.5 and 1 is 0", ("cl", *sweep[2:4]), metric, _first_worst
                ),
            ],
        ),
        Claim(
            f"O5{suffix}",
            "CL > CMLM and CL > SimCSE",
            [above("cl", "cmlm", metric), above("cl", "simcse", metric)],
            [above("cl_twice", "simcse", metric)],
        ),
    ]


def _best_inside(means: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether neither the first nor the last of (arms, samples) is the highest."""
    best = means.argmax(axis=0)
    inside: NDArray[np.bool_] = (best > 0) & (best < len(means) - 1)
    return inside


def _first_worst(means: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether the first of (arms, samples) is below all others."""
    lowest: NDArray[np.bool_] = means[0] < means[1:].min(axis=0)
    return lowest


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


def _candidates(trained: Trained, lists: Sequence[CandidateList]) -> Scores:
    encode = trained.encoder.encode
    queries = encode([one.query for one in lists])
    scores = [encode(one.candidates) @ query for one, query in zip(lists, queries, strict=True)]
    relevance = [np.array(one.relevant) for one in lists]
    return score_candidates(scores, relevance).per_query


def _duplicates(
    encoder: SentenceEncoder, duplicates: Sequence[tuple[str, str]], titles: Sequence[str]
) -> Scores:
    """Whether each title finds its duplicate among all other titles' nearest ten."""
    rows = {title: row for row, title in enumerate(titles)}
    vectors = encoder.encode(titles)
    scores = vectors @ vectors.T - 2 * np.eye(len(titles), dtype=np.float32)
    pairs = np.array([(rows[first], rows[second]) for first, second in duplicates])
    nearer = (scores[pairs[:, 0]] >= scores[pairs[:, 0], pairs[:, 1]][:, None]).sum(axis=1)
    return {"hit@10": (nearer <= 10).astype(np.float64)}


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


def _known(encode: Encode, knowledge: tuple[Labelled, Labelled]) -> Scores:
    return {f"knowledge@{k}": _entry_hits(encode, k, *knowledge) for k in (1, 10)}


def _entry_hits(encode: Encode, k: int, asked: Labelled, base: Labelled) -> NDArray[np.float64]:
    """Whether each text finds a question of its own entry among its nearest k."""
    return hits_at(k, encode(asked[0]), asked[1], encode(base[0]), base[1])


STUDY = Definition("auto_mlm", tuple(METRICS), corpus, claims, lambda name: METRICS[name][0])

if __name__ == "__main__":
    raise SystemExit(main(STUDY))
