"""The claims of CCP (O15 to O19), in small.

    python research/claims/ccp.py [--corpora cipher cipher_reversed] [--data FOLDER]

"Unsupervised Context Aware Sentence Representation Pretraining for Multi-lingual Dense Retrieval":
neighbouring sentences are contrasted within each language, nothing is parallel; translations then
lie close, and calibration brings them closer.

* ``cipher``: Wikipedia pages, millions of words, half of them in letters of another alphabet, 5 %
  of the words shared. The two languages are isomorphic; held-out sentences and their cipher are the
  test. ``cipher_reversed`` turns the order of the second language's words around besides.

``raw`` is two-way accuracy as the encoder gives the vectors, ``shift``, ``scale`` and ``rotate``
after each stage of the calibration, fitted on sentences of each language that neither training nor
the test has. Layer and pooling are those that are best, raw, on other pairs, kept for that;
``layer`` says which. ``rsim`` is the relational similarity of the two languages, ``loss`` the
contrast's at the end of training.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from data_sets import ciphers
from reporting import Definition, main
from starts import declared
from study import Corpus, Scores, Study, Trained
from verdicts import Check, Claim, Link, Results, above, not_above, not_below, ours

from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.training.log import read_log
from pocketquery_research.calibration import STAGES, CalibrationConfig, calibration_stages, fit
from pocketquery_research.evaluation.layer_sweep import encoder_at, layer_sweep
from pocketquery_research.evaluation.translation import relational_similarity

_CIPHERS = ("cipher", "cipher_reversed")
_FITTED = int(declared("ccp")["calibration"])  # sentences of each language
_DEVELOPED = 500  # parallel sentences to choose layer and pooling by; the others are the test
_LAST = 3  # log lines that a loss is the mean of


@dataclass(frozen=True)
class _Languages:
    """What the two languages of a corpus are tested with; neither text was trained on."""

    codes: tuple[str, str]
    unseen: Mapping[str, list[str]]
    developed: list[tuple[str, str]]
    pairs: list[tuple[str, str]]


def corpus(name: str, data: Path) -> Corpus:
    """Documents of two languages, and sentences that are only tested on."""
    made = ciphers(data, reverse=name == "cipher_reversed")
    dev, pairs = made.pairs[:_DEVELOPED], made.pairs[_DEVELOPED:]
    languages = _Languages(("en", "xx"), made.unseen, dev, pairs)
    return Corpus(name, made.documents, {}, lambda trained: _evaluate(trained, languages))


def claims(name: str) -> list[Claim]:
    """The paper's orderings; of the distant pair, the calibration's alone."""
    calibrated = Claim(
        "O18",
        "shift > raw, scale and rotation do not lose, calibrated > raw",
        [
            _stages(above("shift", "raw", "right")),
            _stages(not_below("scale", "shift", "right", 0.005)),
            _stages(not_below("rotate", "scale", "right", 0.005)),
            _stages(above("rotate", "raw", "right")),
        ],
    )
    if name == "cipher_reversed":
        return [calibrated]
    return [
        Claim(
            "O15",
            "asymmetric batch norm > none > ordinary",
            [above("full", "no_norm", "raw"), above("no_norm", "vanilla", "raw")],
        ),
        Claim(
            "O16",
            "with L2 > without; without L2 and norm nothing is learnt (not above the start)",
            [
                above("full", "no_l2", "raw"),
                ours(not_above("no_l2_no_norm", "start", "raw", 0.01)),
            ],
        ),
        Claim(
            "O17",
            "a bank a language > no bank > a shared bank",
            [above("full", "no_bank", "raw"), above("no_bank", "shared_bank", "raw")],
        ),
        calibrated,
        Claim(
            "O19",
            "a larger window and a larger batch do not hurt (within 0.01)",
            [
                not_below("full", "window_2", "raw", 0.01),
                not_below("full", "batch_8", "raw", 0.01),
            ],
        ),
    ]


def _evaluate(trained: Trained, languages: _Languages) -> Scores:
    encoder, layer = _read_best(trained.encoder, languages)
    left, right = (encoder.encode([pair[side] for pair in languages.pairs]) for side in (0, 1))
    vectors = {name: encoder.encode(texts[:_FITTED]) for name, texts in languages.unseen.items()}
    config = CalibrationConfig(pivot=languages.codes[0], least_sentences=_FITTED)
    stages = calibration_stages(fit(vectors, config), left, right, *languages.codes)
    scores = {stage: found.per_pair() for stage, found in stages.items()}
    return scores | {
        "rsim": np.array([relational_similarity(left, right)]),
        "layer": np.array([layer]),
    }


def _read_best(encoder: SentenceEncoder, languages: _Languages) -> tuple[SentenceEncoder, float]:
    """The encoder, cut where its vectors are best on the development pairs, and the layer."""
    left, right = ([pair[side] for pair in languages.developed] for side in (0, 1))
    found = layer_sweep(encoder, left, right)
    above_table = [reading for reading in found if reading.layer > 0]
    best = max(above_table, key=lambda reading: found[reading].accuracy)
    return encoder_at(encoder, best), float(best.layer)


def _stages(check: Check) -> Check:
    """Of the stages of the calibration of ``full`` in the place of arms."""

    def staged(results: Results) -> Link:
        link = check({stage: {"right": results["full"][stage]} for stage in STAGES})
        return replace(link, arms=("full",))

    return staged


class CcpStudy(Study):
    """With the contrast's loss at the end of training, from the log."""

    def run(self, arm: str, seed: int) -> Scores:
        scores = super().run(arm, seed)
        log = self.path(arm, seed).with_suffix(".jsonl")
        found = [line["ccp/ccp"] for line in read_log(log) if "ccp/ccp" in line]
        if found:
            scores["loss"] = np.array([np.mean(found[-_LAST:])])
        return scores


STUDY = Definition("ccp", _CIPHERS, corpus, claims, lambda name: "raw", CcpStudy)

if __name__ == "__main__":
    raise SystemExit(main(STUDY))
