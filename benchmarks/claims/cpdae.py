"""The claims of CPDAE (O11 to O14), in small.

    python benchmarks/claims/cpdae.py [--corpora squad scifact made_up] [--data FOLDER]

"A Contrastive Pre-training Approach to Learn Discriminative Autoencoder for Dense Retrieval". Every
arm is pretrained on the documents and then fine-tuned alike, as a bi-encoder on questions with
negatives from BM25, with many questions (``mrr@10``, ``recall@100``) and with few (``low_``).

* ``squad``: paragraphs of Wikipedia articles, questions on articles of which fine-tuning saw none.
* ``scifact``: abstracts of articles, and claims with the abstracts that they cite. Vectors are the
  mean of the tokens', elsewhere the first token's.
* ``made_up``: titled documents; a title is the question, its document the passage.

``common_mass`` is the share of the predicted word distributions on the 100 most frequent pieces,
``mass_on_present`` that on pieces which the text has. Paragraphs are cut at the study's length.
"""

from __future__ import annotations

import copy
import random
from collections import defaultdict
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import torch
from passage_tests import passage_test
from reporting import main
from retrieval_test import RetrievalTest, dense_ranks, first_triples, rank_scores, triples_of
from study import Corpus, Scores, Trained, settings_of
from title_fixture import make_titled_documents
from verdicts import Claim, Results, Verdict, above, all_of, near, sign_flip

from pocketquery.server.corpus.groups import GroupList
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives import build_objective
from pocketquery.server.objectives.cpdae import Cpdae
from pocketquery.server.pretraining import Part, PretrainingConfig, pretrain

FINE_TUNING = settings_of("cpdae")["fine_tune"]
_QUESTIONS = {"": "questions", "low_": "low_questions"}  # prefix of the scores -> setting
_SAMPLE = 256  # documents on which predicted words are measured


def corpus(name: str, data: Path) -> Corpus:
    """Documents to pretrain on, and questions to fine-tune and test with."""
    documents, test = _titles() if name == "made_up" else passage_test(name, data)
    sampled = random.Random(0).sample(range(len(documents)), _SAMPLE)
    texts = [" ".join(documents[row].texts) for row in sampled]
    triples = cache(lambda seed: triples_of(test, seed))

    def evaluate(trained: Trained) -> Scores:
        scores: Scores = {}
        for prefix, setting in _QUESTIONS.items():
            chosen = FINE_TUNING[setting]
            asked_of = first_triples(triples(trained.seed), chosen["count"])
            tuned = fine_tuned(trained, asked_of, chosen["steps"])
            asked = tuned.encode([text for text, _ in test.test])
            ranks = dense_ranks(asked, tuned.encode(test.passages), [row for _, row in test.test])
            scores |= rank_scores(ranks, prefix)
        return scores | _predicted_words(trained, texts)

    return Corpus(name, documents, {}, evaluate)


def claims(name: str) -> list[Claim]:
    """The paper's orderings."""
    return [
        Claim(
            "O11",
            "CPDAE > contrast of vectors > SEED > ICT, PROP, SimCSE ~ MLM",
            all_of(
                above("cpdae", "cpdae_r", "mrr@10"),
                above("cpdae_r", "seed", "mrr@10"),
                *(above("seed", other, "mrr@10") for other in ("ict", "prop", "simcse")),
                *(near(other, "mlm", "mrr@10", 0.01) for other in ("ict", "prop", "simcse")),
            ),
        ),
        Claim(
            "O12",
            "CPDAE > IDF-weighted and > without contrast; those two ~",
            all_of(
                above("cpdae", "cpdae_idf_rec", "mrr@10"),
                above("cpdae", "cpdae_wo_cl", "mrr@10"),
                near("cpdae_idf_rec", "cpdae_wo_cl", "mrr@10", 0.01),
            ),
        ),
        Claim("O13", "the gain over MLM is largest with few questions", _low_resource),
        Claim("O14", "the contrast lowers the mass of common words", _less_common),
    ]


def _titles() -> tuple[GroupList, RetrievalTest]:
    documents, _ = make_titled_documents(3_000, seed=0, held_out=0)
    groups = [documents[row] for row in range(len(documents))]
    passages = [" ".join(group.texts[1:]) for group in groups]
    asked = [(group.texts[0], row) for row, group in enumerate(groups)]
    bodies = [replace(group, texts=group.texts[1:], title=False) for group in groups]
    return GroupList(bodies, "documents"), RetrievalTest(passages, asked[:2_000], asked[2_000:])


def fine_tuned(trained: Trained, triples: GroupList, steps: int) -> SentenceEncoder:
    """The arm's encoder after the study's fine-tuning; the arm's own stays as it is."""
    encoder = copy.deepcopy(trained.encoder)
    objective = build_objective("fine_tune", encoder, FINE_TUNING["options"])
    config = PretrainingConfig(**FINE_TUNING["train"], steps=steps, seed=trained.seed)
    return pretrain(encoder, [Part(objective, triples)], config).eval()


def _predicted_words(trained: Trained, texts: list[str]) -> Scores:
    """Of the decoders there are: where the predicted mass lies, and how far texts are apart."""
    decoders = [objective for objective in trained.objectives if isinstance(objective, Cpdae)]
    if not decoders:
        return {}
    decoder, found = decoders[0].eval(), defaultdict(list)
    for first in range(0, len(texts), 32):
        batch = decoder.collate(texts[first : first + 32], np.random.default_rng(0))
        with torch.no_grad():
            stats = decoder.loss(trained.encoder, batch).stats
        for name in ("common_mass", "mass_on_present"):
            found[name].append(float(stats[name]))
    return {name: np.array([np.mean(values)]) for name, values in found.items()}


def _low_resource(results: Results) -> Verdict:
    gains = {
        prefix: results["cpdae"][f"{prefix}recall@100"] - results["mlm"][f"{prefix}recall@100"]
        for prefix in _QUESTIONS
    }
    more, less = gains["low_"].mean(axis=0), gains[""].mean(axis=0)  # (questions,)
    p = sign_flip(more - less)
    shown = f"recall@100 over MLM: few questions {more.mean():+.4f}, many {less.mean():+.4f}"
    return Verdict(bool(more.mean() > 0 and p < 0.05), f"{shown} (p {p:.3f})")


def _less_common(results: Results) -> Verdict:
    with_contrast = results["cpdae"]["common_mass"].mean(axis=1)
    without = results["cpdae_wo_cl"]["common_mass"].mean(axis=1)
    shown = f"common mass {with_contrast.mean():.4f} with, {without.mean():.4f} without, every seed"
    return Verdict(bool((with_contrast < without).all()), shown)


if __name__ == "__main__":
    raise SystemExit(
        main("cpdae", ("squad", "scifact", "made_up"), corpus, claims, lambda name: "mrr@10")
    )
