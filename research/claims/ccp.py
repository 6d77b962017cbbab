"""The claims of CCP (O15 to O19), in small.

    python research/claims/ccp.py [--data FOLDER]

"Unsupervised Context Aware Sentence Representation Pretraining for Multi-lingual Dense Retrieval":
neighbouring sentences are contrasted within each language, nothing is parallel; translations then
lie close, and calibration brings them closer. The languages are English and German, the texts a
manual's pages (``texts/two_languages.py``).

With 32 windows a step every bank of earlier vectors that we tried ended in collapse
(research/LOG.md, 2026-11-21), so O17 alone asks about banks. The other claims are asked without.

``raw`` is two-way accuracy as the encoder gives the vectors, ``shift``, ``scale`` and ``rotate``
after each stage of the calibration, fitted on sentences of each language that neither its training
nor the test has. Layer and pooling are those that are best, raw, on other pairs, kept for that;
``layer`` says which. ``rsim`` is the relational similarity of the two languages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from reporting import Definition, main
from starts import declared
from study import Corpus, Scores, Trained
from texts.two_languages import LANGUAGES, two_languages
from verdicts import Check, Claim, Link, Results, above, not_above, not_below, ours

from pocketquery.server.modeling import SentenceEncoder
from pocketquery_research.calibration import STAGES, CalibrationConfig, calibration_stages, fit
from pocketquery_research.evaluation.layer_sweep import encoder_at, layer_sweep
from pocketquery_research.evaluation.translation import relational_similarity

_FITTED = int(declared("ccp")["calibration"])  # sentences of each language
_DEVELOPED = 500  # parallel paragraphs to choose layer and pooling by; the others are the test


@dataclass(frozen=True)
class _Languages:
    """What the two languages of a corpus are tested with; neither text was trained on."""

    unseen: Mapping[str, list[str]]
    developed: list[tuple[str, str]]
    pairs: list[tuple[str, str]]


def corpus(data: Path) -> Corpus:
    """Documents of two languages, and paragraphs that are only tested on."""
    made = two_languages()
    dev, pairs = made.pairs[:_DEVELOPED], made.pairs[_DEVELOPED:]
    languages = _Languages(made.unseen, dev, pairs)
    return Corpus("manual", made.documents, {}, lambda trained: _evaluate(trained, languages))


def claims() -> list[Claim]:
    """The paper's orderings."""
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
    return [
        Claim(
            "O15",
            "asymmetric batch norm > none > ordinary",
            [above("no_bank", "no_norm", "raw"), above("no_norm", "vanilla", "raw")],
        ),
        Claim(
            "O16",
            "with L2 > without; without L2 and norm nothing is learnt (not above the start)",
            [
                above("no_bank", "no_l2", "raw"),
                ours(not_above("no_l2_no_norm", "start", "raw", 0.01)),
            ],
        ),
        Claim(
            "O17",
            "a bank a language > no bank > a shared bank",
            [above("bank", "no_bank", "raw"), above("no_bank", "shared_bank", "raw")],
        ),
        calibrated,
        Claim(
            "O19",
            "a larger window and a larger batch do not hurt (within 0.01)",
            [
                not_below("no_bank", "window_2", "raw", 0.01),
                not_below("no_bank", "batch_8", "raw", 0.01),
            ],
        ),
    ]


def _evaluate(trained: Trained, languages: _Languages) -> Scores:
    encoder, layer = _read_best(trained.encoder, languages)
    left, right = (encoder.encode([pair[side] for pair in languages.pairs]) for side in (0, 1))
    vectors = {name: encoder.encode(texts[:_FITTED]) for name, texts in languages.unseen.items()}
    config = CalibrationConfig(pivot=LANGUAGES[0], least_sentences=_FITTED)
    stages = calibration_stages(fit(vectors, config), left, right, *LANGUAGES)
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
    """Of the stages of the calibration of ``no_bank`` in the place of arms."""

    def staged(results: Results) -> Link:
        link = check({stage: {"right": results["no_bank"][stage]} for stage in STAGES})
        return replace(link, arms=("no_bank",))

    return staged


STUDY = Definition("ccp", "manual", corpus, claims, "raw")

if __name__ == "__main__":
    raise SystemExit(main(STUDY))
