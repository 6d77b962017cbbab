"""The claims of CPDAE (O11 to O14), in small.

    python research/claims/cpdae.py [--data FOLDER]

"A Contrastive Pre-training Approach to Learn Discriminative Autoencoder for Dense Retrieval". Every
arm is pretrained on the documents and then fine-tuned alike, as a bi-encoder on questions with
negatives from BM25: on all of them (``mrr@10``, ``recall@100``), on a thousand (``middle_``) and on
a hundred (``low_``), at the rate that is best for the MLM arm on questions kept for that. Arms
called ``_iterated`` are fine-tuned twice, as the paper does it: the encoder that has learnt from
BM25's negatives finds harder ones, and the pretrained encoder learns anew from those.

Passages are paragraphs of Wikipedia articles (SQuAD), with questions on articles of which
fine-tuning saw none.

``common_mass`` is the share of the predicted word distributions on the 100 most frequent subword
tokens, ``mass_on_present`` that on tokens which the text has, of each of some documents. Paragraphs
are cut at the study's length.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from reporting import Definition, main
from retrieval_test import (
    RetrievalTest,
    dense_ranks,
    fine_tuned,
    first_triples,
    rank_scores,
    triples_of,
)
from starts import declared
from study import Corpus, Scores, Study, Trained
from texts.passage_tests import passage_test
from verdicts import Claim, above, near, not_below, ours, sum_above

from pocketquery.sdk.files import write_atomic
from pocketquery.server.corpus.groups import GroupList
from pocketquery.server.objectives.cpdae import Cpdae
from pocketquery.server.pretraining import PretrainingConfig

FINE_TUNING = declared("cpdae")["fine_tune"]
_ITERATED = {arm for arm, table in declared("cpdae")["arms"].items() if table.get("iterated")}
_PREFIXES = {"low": "low_", "middle": "middle_", "all": ""}  # set of questions -> of its scores
_SAMPLE = 256  # documents on which predicted words are measured
_PAGES = 2_000  # of Wikipedia, read beside a set's documents
_KEPT = 300  # questions that are kept to choose rates by
_LESS = 0.005  # of the mass: what counts as less
_TRIED = 3  # steps of fine-tuning from which its length is estimated


class CpdaeStudy(Study):
    """With the rates of fine-tuning, chosen once on the MLM arm."""

    def begin(self, *, trains: bool = True) -> None:
        super().begin(trains=trains)
        self._asked.rates.update(self._fine_tuning_rates())

    @property
    def _asked(self) -> _Asked:
        if not isinstance(self.corpus, _Asked):
            raise TypeError("CPDAE's study is of questions and passages")
        return self.corpus

    def _chosen(self) -> dict[str, float]:
        stem = self._fine_tuning_path().stem
        rates = {f"{stem}/{name}": rate for name, rate in self._asked.rates.items()}
        return super()._chosen() | rates

    def _fine_tuning_path(self) -> Path:
        return self.path("mlm", 0).with_name(f"fine-tuning-{self._key('mlm')}.json")

    def _fine_tuning_rates(self) -> dict[str, float]:
        kept = self._fine_tuning_path()
        if not kept.is_file():
            if published := self._published(kept):
                return {name: float(rate) for name, rate in published.items()}
            self._check_trains(f"the rates of fine-tuning on {self.corpus.name}")
            trained, developed = (
                self.train("mlm", 0, kept.with_suffix(".run")),
                self._asked.developed,
            )
            found = {}
            for name in FINE_TUNING["sets"]:
                scores = {r: developed(trained, name, r) for r in FINE_TUNING["rates"]}
                found[name] = max(scores, key=lambda rate: scores[rate])
                print(f"{self.name} {self.corpus.name} {name}: rate {found[name]} of {scores}")
            write_atomic(kept, json.dumps(found))
        rates: dict[str, float] = json.loads(kept.read_text("utf-8"))
        return rates


@dataclass(frozen=True)
class _Asked(Corpus):
    """A corpus whose rates of fine-tuning are found after it was made.

    Attributes:
        rates: by set of questions; empty until they are chosen.
        developed: recall@10 of the kept questions after fine-tuning on a set at a rate.
    """

    rates: dict[str, float] = field(default_factory=dict)
    developed: Callable[[Trained, str, float], float] = field(default=lambda *_: 0.0)


def corpus(data: Path) -> Corpus:
    """Documents to pretrain on, and questions to fine-tune, choose and test with."""
    documents, test = passage_test(data, _PAGES)
    drawn = random.Random(1).sample(test.training, len(test.training))
    kept, learnt = drawn[:_KEPT], replace(test, training=drawn[_KEPT:])
    sampled = random.Random(0).sample(range(len(documents)), _SAMPLE)
    texts = [" ".join(documents[row].texts) for row in sampled]
    negatives = FINE_TUNING["options"]["negatives"]
    triples = cache(lambda seed: triples_of(learnt, seed, negatives))
    rates: dict[str, float] = {}

    def ranks(
        trained: Trained, name: str, rate: float, asked: Sequence[tuple[str, int]]
    ) -> NDArray[np.int64]:
        chosen = FINE_TUNING["sets"][name]
        config = _config(chosen["steps"], rate, trained.seed)
        learnt_from = first_triples(triples(trained.seed), chosen["questions"])
        tuned = fine_tuned(trained.encoder, learnt_from, config, FINE_TUNING["options"])
        if trained.arm in _ITERATED:
            harder = triples_of(learnt, trained.seed, negatives, found_by=tuned)
            learnt_from = first_triples(harder, chosen["questions"])
            tuned = fine_tuned(trained.encoder, learnt_from, config, FINE_TUNING["options"])
        questions = tuned.encode([text for text, _ in asked])
        return dense_ranks(questions, tuned.encode(test.passages), [row for _, row in asked])

    def evaluate(trained: Trained) -> Scores:
        scores: Scores = {}
        for name, prefix in _PREFIXES.items():
            scores |= rank_scores(ranks(trained, name, rates[name], test.test), prefix)
        return scores | _predicted_words(trained, texts)

    return _Asked(
        "squad",
        documents,
        {},
        evaluate,
        seconds=lambda trained: _seconds(trained, triples(1), test),
        rates=rates,
        developed=lambda trained, name, rate: float(
            (ranks(trained, name, rate, kept) <= 10).mean()
        ),
    )


def claims() -> list[Claim]:
    """The paper's orderings."""
    simple = ("ict", "prop", "simcse")
    low, middle, all_ = (
        [(1.0, "cpdae", metric), (-1.0, "mlm", metric)]
        for metric in ("low_recall@100", "middle_recall@100", "recall@100")
    )
    return [
        Claim(
            "O11",
            "CPDAE > contrast of vectors > SEED > ICT, PROP, SimCSE ~ MLM",
            [
                above("cpdae", "cpdae_r", "mrr@10"),
                above("cpdae_r", "seed", "mrr@10"),
                *(above("seed", other, "mrr@10") for other in simple),
                *(near(other, "mlm", "mrr@10", 0.01) for other in simple),
            ],
            [
                above("cpdae", "seed", "mrr@10"),
                above("seed", "mlm", "mrr@10"),
                above("cpdae_iterated", "mlm_iterated", "mrr@10"),
                above("cpdae_iterated", "cpdae", "mrr@10"),
            ],
        ),
        Claim(
            "O12",
            "CPDAE > IDF-weighted and > without contrast; those two ~",
            [
                above("cpdae", "cpdae_idf_rec", "mrr@10"),
                above("cpdae", "cpdae_wo_cl", "mrr@10"),
                near("cpdae_idf_rec", "cpdae_wo_cl", "mrr@10", 0.01),
            ],
        ),
        Claim(
            "O13",
            "the gain over MLM is largest with few questions",
            [
                sum_above("with 100 questions above with 1,000", [*low, *_less(middle)]),
                sum_above("with 100 questions above with all", [*low, *_less(all_)]),
            ],
        ),
        Claim(
            "O14",
            "the contrast lowers the mass of common words",
            [
                ours(not_below("cpdae_wo_cl", "cpdae", "common_mass", -_LESS)),
            ],
            [above("cpdae_wo_cl", "cpdae", "common_mass")],
        ),
    ]


def _less(parts: Sequence[tuple[float, str, str]]) -> list[tuple[float, str, str]]:
    return [(-weight, arm, metric) for weight, arm, metric in parts]


def _config(steps: int, rate: float, seed: int) -> PretrainingConfig:
    train = FINE_TUNING["train"]
    return PretrainingConfig(**train, steps=steps, learning_rate=rate, seed=seed, diagnose_every=0)


def _seconds(trained: Trained, triples: GroupList, test: RetrievalTest) -> float:
    """Of one core for an evaluation: a few steps of fine-tuning, and all texts encoded."""
    began = time.process_time()
    fine_tuned(trained.encoder, triples, _config(_TRIED, 1e-5, 1), FINE_TUNING["options"])
    a_step = (time.process_time() - began) / _TRIED
    began = time.process_time()
    some = test.passages[:200]
    trained.encoder.encode(some)
    texts = len(test.passages) + len(test.test)
    encoded = (time.process_time() - began) / len(some) * texts
    sets = FINE_TUNING["sets"].values()
    return float(sum(a_step * one["steps"] + encoded for one in sets))


def _predicted_words(trained: Trained, texts: Sequence[str]) -> Scores:
    """Of the decoders there are: where the mass lies that is predicted for each text."""
    decoders = [objective for objective in trained.objectives if isinstance(objective, Cpdae)]
    if not decoders:
        return {}
    decoder = decoders[0].eval()
    found: dict[str, list[float]] = {"common_mass": [], "mass_on_present": []}
    for row, text in enumerate(texts):
        batch = decoder.collate([text], np.random.default_rng(row))
        with torch.no_grad():
            stats = decoder.loss(trained.encoder, batch).stats
        for name, values in found.items():
            values.append(float(stats[name]))
    return {name: np.array(values) for name, values in found.items()}


STUDY = Definition("cpdae", "squad", corpus, claims, "mrr@10", CpdaeStudy)

if __name__ == "__main__":
    raise SystemExit(main(STUDY))
