"""The claims of CCP (O15 to O19), in small.

    python benchmarks/claims/ccp.py [--corpora cipher cipher_reversed news] [--data FOLDER]

"Unsupervised Context Aware Sentence Representation Pretraining for Multi-lingual Dense Retrieval":
neighbouring sentences are contrasted within each language, nothing is parallel; translations then
lie close, and calibration brings them closer.

* ``cipher``: Wikipedia paragraphs, half of them in letters of another alphabet, 5 % of the words
  shared. The two languages are isomorphic; held-out sentences and their cipher are the test.
  ``cipher_reversed`` turns the order of the second language's words around besides.
* ``news``: articles in English and German, none in both; Tatoeba's pairs are the test.

``raw`` is two-way accuracy as the encoder gives the vectors, ``shift``, ``scale`` and ``rotate``
after each stage of the calibration, fitted on some two thousand sentences of each language that
neither training nor the test has. ``rsim`` is the relational similarity of the two languages,
``loss`` the contrast's at the end of training.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from cipher_fixture import make_ciphers
from data_sets import articles, news, tatoeba, unseen_sentences
from reporting import main
from study import Corpus, Scores, Study, Trained, settings_of
from verdicts import Claim, Results, Verdict, above, all_of, not_below

from pocketquery.server.calibration import STAGES, CalibrationConfig, fit
from pocketquery.server.corpus.groups import Group, GroupList
from pocketquery.server.evaluation.translation import (
    calibration_stages,
    relational_similarity,
    two_way,
)
from pocketquery.server.training.log import read_log

_CIPHERS = ("cipher", "cipher_reversed")
_CALIBRATED = [name for name, arm in settings_of("ccp")["arms"].items() if "calibrate" in arm]
_FITTED, _LEAST = 2_000, 1_950  # sentences of each language; NTREX, XQuAD and xSID have no more
_LAST = 3  # log lines that a loss is the mean of


@dataclass(frozen=True)
class _Languages:
    """What the two languages of a corpus are tested with; neither text was trained on."""

    codes: tuple[str, str]
    unseen: Mapping[str, list[str]]
    pairs: list[tuple[str, str]]


def corpus(name: str, data: Path) -> Corpus:
    """Documents of two languages, and sentences that are only tested on."""
    documents, languages = _ciphers(name, data) if name in _CIPHERS else _news(data)
    return Corpus(name, documents, {}, lambda trained: _evaluate(trained, languages))


def _ciphers(name: str, data: Path) -> tuple[GroupList, _Languages]:
    found = articles(data)
    untitled = [_untitled(found[row]) for row in range(len(found))]
    made = make_ciphers(untitled, seed=0, reverse=name == "cipher_reversed")
    return made.documents, _Languages(("en", "xx"), made.unseen, made.pairs)


def _news(data: Path) -> tuple[GroupList, _Languages]:
    codes = ("eng", "deu")
    pairs = [(english, other) for other, english in tatoeba(data, "deu")]
    return news(data, codes), _Languages(codes, unseen_sentences(data, codes), pairs)


def claims(name: str) -> list[Claim]:
    """The paper's orderings; of the distant pair, the calibration's alone."""
    calibrated = "shift > raw, scale and rotation do not lose, calibrated > raw"
    if name == "cipher_reversed":
        return [Claim("O18", calibrated, _calibrated)]
    return [
        Claim(
            "O15",
            "asymmetric batch norm > none > ordinary",
            all_of(above("full", "no_norm", "raw"), above("no_norm", "vanilla", "raw"), _losses),
        ),
        Claim(
            "O16",
            "with L2 > without; without L2 and norm nothing is learnt (below three times chance)",
            all_of(above("full", "no_l2", "raw"), _not_learnt),
        ),
        Claim(
            "O17",
            "a bank a language > no bank > a shared bank",
            all_of(above("language_bank", "full", "raw"), above("full", "shared_bank", "raw")),
        ),
        Claim("O18", calibrated, _calibrated),
        Claim(
            "O19",
            "a larger window and a larger batch do not hurt (within 0.01)",
            all_of(
                not_below("full", "window_2", "raw", 0.01),
                not_below("full", "batch_8", "raw", 0.01),
            ),
        ),
    ]


def _untitled(group: Group) -> Group:
    """Without the title, which all paragraphs of an article share."""
    return replace(group, texts=group.texts[1:], title=False)


def _evaluate(trained: Trained, languages: _Languages) -> Scores:
    encode = trained.encoder.encode
    left, right = (encode([pair[side] for pair in languages.pairs]) for side in (0, 1))
    if trained.arm not in _CALIBRATED:
        return {"raw": two_way(left, right).per_pair()}
    vectors = {language: encode(texts[:_FITTED]) for language, texts in languages.unseen.items()}
    config = CalibrationConfig(pivot=languages.codes[0], least_sentences=_LEAST)
    stages = calibration_stages(fit(vectors, config), left, right, *languages.codes)
    scores = {stage: found.per_pair() for stage, found in stages.items()}
    return scores | {"rsim": np.array([relational_similarity(left, right)])}


def _losses(results: Results) -> Verdict:
    """Decides nothing: a loss below the others' with less accuracy tells of a leak."""
    arms = {"asymmetric": "full", "none": "no_norm", "ordinary": "vanilla"}
    shown = (f"{name} {results[arm]['loss'].mean():.2f}" for name, arm in arms.items())
    return Verdict(True, f"training losses: {', '.join(shown)}")


def _not_learnt(results: Results) -> Verdict:
    scores = results["no_l2_no_norm"]["raw"]
    chance = 1 / scores.shape[1]
    shown = f"without L2 and norm: {scores.mean():.4f} (chance {chance:.4f})"
    return Verdict(bool(scores.mean() < 3 * chance), shown)


def _calibrated(results: Results) -> Verdict:
    stages: Results = {stage: {"right": results["full"][stage]} for stage in STAGES}
    return all_of(
        above("shift", "raw", "right"),
        not_below("scale", "shift", "right"),
        not_below("rotate", "scale", "right"),
        above("rotate", "raw", "right"),
    )(stages)


class CcpStudy(Study):
    """With the contrast's loss at the end of training, from the log."""

    def run(self, arm: str, seed: int) -> Scores:
        scores = super().run(arm, seed)
        log = self.path(arm, seed).with_suffix(".jsonl")
        found = [line["ccp/ccp"] for line in read_log(log) if "ccp/ccp" in line]
        if found:
            scores["loss"] = np.array([np.mean(found[-_LAST:])])
        return scores


if __name__ == "__main__":
    raise SystemExit(main("ccp", (*_CIPHERS, "news"), corpus, claims, lambda name: "raw", CcpStudy))
