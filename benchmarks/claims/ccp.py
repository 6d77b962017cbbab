"""The claims of CCP (O15 to O19), in small.

    python benchmarks/claims/ccp.py [--corpora cipher news] [--data FOLDER]

"Unsupervised Context Aware Sentence Representation Pretraining for Multi-lingual Dense Retrieval":
neighbouring sentences are contrasted within each language, nothing is parallel; translations then
lie close, and calibration brings them closer.

* ``cipher``: Wikipedia paragraphs, half of them in letters of another alphabet, 5 % of the words
  shared. The two languages are isomorphic; held-out sentences and their cipher are the test.
* ``news``: articles in English and German, none in both; Tatoeba's pairs are the test.

``raw`` is two-way accuracy as the encoder gives the vectors, ``shift``, ``scale`` and ``rotate``
after each stage of the calibration, fitted on training sentences of each language by itself.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cipher_fixture import make_ciphers
from data_sets import articles, news, tatoeba
from reporting import main
from study import Corpus, Scores, Trained
from verdicts import Claim, Results, Verdict, above, all_of, not_below

from pocketquery.server.calibration import CalibrationConfig, fit
from pocketquery.server.corpus.groups import Group, GroupList
from pocketquery.server.evaluation.translation import calibration_stages

_FITTED = 2_000  # sentences of each language


def corpus(name: str, data: Path) -> Corpus:
    """Documents of two languages, and parallel sentences that are only tested on."""
    if name == "cipher":
        found = articles(data)
        untitled = [_untitled(found[row]) for row in range(len(found))]
        documents, pairs = make_ciphers(untitled, seed=0)
        languages = ("en", "xx")
    else:
        documents = news(data, ("eng", "deu"))
        pairs = [(english, german) for german, english in tatoeba(data, "deu")]
        languages = ("eng", "deu")
    return Corpus(
        name, documents, {}, lambda trained: _evaluate(trained, documents, pairs, languages)
    )


def claims(name: str) -> list[Claim]:
    """The paper's orderings."""
    return [
        Claim(
            "O15",
            "asymmetric batch norm > none > ordinary",
            all_of(above("full", "no_norm", "raw"), above("no_norm", "vanilla", "raw")),
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
        Claim("O18", "shift > raw, scale and rotation do not lose, calibrated > raw", _calibrated),
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


def _evaluate(
    trained: Trained,
    documents: GroupList,
    pairs: list[tuple[str, str]],
    languages: tuple[str, str],
) -> Scores:
    encode = trained.encoder.encode
    sentences: dict[str, list[str]] = {language: [] for language in languages}
    for row in range(len(documents)):
        sentences[documents[row].lang] += documents[row].texts
    vectors = {language: encode(texts[:_FITTED]) for language, texts in sentences.items()}
    least = min(_FITTED, *(len(found) for found in vectors.values()))
    calibration = fit(vectors, CalibrationConfig(pivot=languages[0], least_sentences=least))
    left, right = encode([one for one, _ in pairs]), encode([other for _, other in pairs])
    stages = calibration_stages(calibration, left, right, *languages)
    return {stage: found.per_pair() for stage, found in stages.items()}


def _not_learnt(results: Results) -> Verdict:
    scores = results["no_l2_no_norm"]["raw"]
    chance = 1 / scores.shape[1]
    shown = f"without L2 and norm: {scores.mean():.4f} (chance {chance:.4f})"
    return Verdict(bool(scores.mean() < 3 * chance), shown)


def _calibrated(results: Results) -> Verdict:
    stages = {stage: {"right": found} for stage, found in results["full"].items()}
    return all_of(
        above("shift", "raw", "right"),
        not_below("scale", "shift", "right"),
        not_below("rotate", "scale", "right"),
        above("rotate", "raw", "right"),
    )(stages)


if __name__ == "__main__":
    raise SystemExit(main("ccp", ("cipher", "news"), corpus, claims, lambda name: "raw"))
