"""The claims of Auto-MLM (O1 to O5), in small.

    python benchmarks/claims/auto_mlm.py [--corpora services threads forum made_up] [--data FOLDER]

"Auto-MLM: Improved Contrastive Learning for Self-supervised Multi-lingual Knowledge Retrieval".

* ``services``: trained on the schema-guided dialogues; of a held-out exchange, the agent's answer
  is to be found among itself and 99 others by the user's turn (``hit@1``).
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
from data_sets import exchange_duplicates, question_bodies, services, threads
from numpy.typing import NDArray
from reporting import main
from session_fixture import make_sessions
from study import Corpus, Scores, Trained
from verdicts import Claim, Results, Verdict, above, all_of, near

from pocketquery.server.corpus.readers.candidates import CandidateList
from pocketquery.server.evaluation.candidates import score_candidates
from pocketquery.server.evaluation.knowledge import hits_at

METRICS = {
    "services": ("hit@1",),
    "threads": ("hit@1",),
    "forum": ("p@1", "hit@10"),
    "made_up": ("hit@10",),
}
_SESSIONS = {"services": services, "threads": threads}
_OTHERS = 99


def corpus(name: str, data: Path) -> Corpus:
    """What is trained and tested on, by name."""
    if name in _SESSIONS:
        sessions, test = _SESSIONS[name](data)
        return Corpus(
            name,
            sessions,
            {},
            lambda t: {"hit@1": answer_hits(t.encoder.encode, test.queries, test.answers)},
        )
    if name == "forum":
        questions, lists = question_bodies(data)
        duplicates, titles = exchange_duplicates(data)
        return Corpus(
            name,
            questions,
            {},
            lambda t: _candidates(t, lists) | _duplicates(t, duplicates, titles),
        )
    sessions, knowledge = make_sessions(4_000, seed=0)

    def evaluate(trained: Trained) -> Scores:
        queries = trained.encoder.encode(knowledge.queries)
        questions = trained.encoder.encode(knowledge.questions)
        return {
            f"hit@{k}": hits_at(
                k, queries, knowledge.query_entries, questions, knowledge.question_entries
            )
            for k in (1, 10)
        }

    return Corpus(name, sessions, {}, evaluate)


def claims(name: str) -> list[Claim]:
    """The paper's orderings, on the metrics of the corpus; threads have no arms for O4."""
    found = [claim for metric in METRICS[name] for claim in _claims(metric, len(METRICS[name]) > 1)]
    return [claim for claim in found if name != "threads" or claim.id != "O4"]


def _claims(metric: str, several: bool) -> list[Claim]:
    suffix = f", {metric}" if several else ""
    return [
        Claim(
            f"O1{suffix}",
            "CL + Auto-MLM > CL > MLM",
            all_of(above("cl_auto", "cl", metric), above("cl", "mlm", metric)),
        ),
        Claim(
            f"O2{suffix}",
            "of equal steps, CL + MLM ~ CL, and CL + Auto-MLM > CL + MLM",
            all_of(near("cl_mlm", "cl_half", metric, 0.01), above("cl_auto", "cl_mlm", metric)),
        ),
        Claim(f"O3{suffix}", "Auto-MLM alone > MLM alone", above("auto", "mlm", metric)),
        Claim(
            f"O4{suffix}",
            "of equal steps and the weights 0, 0.1, 0.5, 1, 2 the best is inside or 1, the worst "
            "of 0, 0.5, 1 is 0",
            lambda results: _sweep(results, metric),
        ),
        Claim(
            f"O5{suffix}",
            "CL > CMLM and CL > SimCSE",
            all_of(above("cl", "cmlm", metric), above("cl", "simcse", metric)),
        ),
    ]


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
    trained: Trained, duplicates: Sequence[tuple[str, str]], titles: Sequence[str]
) -> Scores:
    """Whether each title finds its duplicate among all other titles' nearest ten."""
    rows = {title: row for row, title in enumerate(titles)}
    vectors = trained.encoder.encode(titles)
    scores = vectors @ vectors.T - 2 * np.eye(len(titles), dtype=np.float32)
    pairs = np.array([(rows[first], rows[second]) for first, second in duplicates])
    nearer = (scores[pairs[:, 0]] >= scores[pairs[:, 0], pairs[:, 1]][:, None]).sum(axis=1)
    return {"hit@10": (nearer <= 10).astype(np.float64)}


def _sweep(results: Results, metric: str) -> Verdict:
    arms = {
        0.0: "cl_half",
        0.1: "cl_auto_0.1",
        0.5: "cl_auto_0.5",
        1.0: "cl_auto",
        2.0: "cl_auto_2",
    }
    means = {weight: float(results[arm][metric].mean()) for weight, arm in arms.items()}
    best = max(means, key=lambda weight: means[weight])
    worst = min((0.0, 0.5, 1.0), key=lambda weight: means[weight])
    shown = ", ".join(f"{weight}: {mean:.4f}" for weight, mean in means.items())
    return Verdict(best not in (0.0, 2.0) and worst == 0.0, f"{metric} by weight {shown}")


if __name__ == "__main__":
    raise SystemExit(
        main("auto_mlm", tuple(METRICS), corpus, claims, lambda name: METRICS[name][0])
    )
