"""Whether calibration helps multilingual-e5-small to find across languages.

    python research/studies/calibration.py [--data FOLDER] [--output FOLDER]

Shift, scale and rotation (pocketquery_research.calibration) are fitted on 2,048 sentences of each
of XQuAD's eight languages (common_voice_sentences; Russian has 593 there, the rest is NTREX's), by
language and by prompt, for queries and passages lie apart, too. Nothing parallel is seen.
Measured on XQuAD, 872 questions a language, nDCG@10, the mean over the languages:

- ``to_english``: questions of seven languages, the 180 English passages;
- ``mixed``: one pool in which each passage is there in one of the eight languages alone;
- ``same``: questions and passages of one language.

Each stage stands beside the raw vectors with an interval of 1 - .05/6 (three stages, two tests that
decide), paired by question. The last line is one JSON object. Nothing must be reached; the vectors
are kept in ``--output``.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import random
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
from data_files import objects, table

from pocketquery.client.bootstrap import bootstrap_difference
from pocketquery.sdk.arrays import Doubles, Floats, Rows
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.vector_cache import cached_vectors
from pocketquery_research.calibration import STAGES, CalibrationConfig, fit
from pocketquery_research.calibration.calibrated_encoder import without

ROOT = Path(__file__).resolve().parents[2]
LANGUAGES = ("en", "de", "es", "hi", "ar", "ru", "vi", "zh")
FITTED, LENGTH, DEPTH = 2048, 160, 10  # sentences a language; tokens of a text; ranks
CONFIDENCE = 1 - 0.05 / 6


def main() -> int:
    """Measure and print; 0."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    data = Path(os.environ.get("POCKETQUERY_DATA") or ROOT / "data")
    parser.add_argument(
        "--data", type=Path, default=data, help="default: POCKETQUERY_DATA, or data"
    )
    parser.add_argument("--output", type=Path, default=ROOT / "runs" / "calibration")
    options = parser.parse_args()
    encoder = SentenceEncoder.load("multilingual")
    encoder.max_length = LENGTH
    scores = measure(encoder, options.data, options.output)
    print(f"{'':12}" + "".join(f"{stage:>10}" for stage in STAGES))
    gains = {}
    for test in scores["raw"]:
        cells = (f"{scores[stage][test].mean():10.4f}" for stage in STAGES)
        print(f"{test:12}" + "".join(cells))
        for stage in STAGES[1:]:
            pair = (scores[stage][test], scores["raw"][test])
            found = bootstrap_difference([pair], confidence=CONFIDENCE)
            gains[f"{test}, {stage}"] = [found.estimate, found.low, found.high]
    print(json.dumps(gains))
    return 0


def measure(encoder: SentenceEncoder, data: Path, cache: Path) -> dict[str, dict[str, Doubles]]:
    """By stage and test the nDCG@10 of every question, the mean over the languages asked in."""
    asked = {one: dict(table(data / "xquad" / f"{one}.queries.tsv.gz")) for one in LANGUAGES}
    passages = {one: list(objects(data / "xquad" / f"{one}.corpus.jsonl.gz")) for one in LANGUAGES}
    place = {passage["_id"]: row for row, passage in enumerate(passages["en"])}
    answers = {row[0]: place[row[1]] for row in table(data / "xquad" / "qrels.tsv")}
    right = np.array([answers[name] for name in asked["en"]])

    def encode(role: str, texts: Sequence[str]) -> Floats:
        return cached_vectors(encoder, role, texts, cache, show_progress_bar=True)

    fitted, raw = {}, {}
    for one in LANGUAGES:
        questions = list(asked[one].values())
        texts = [passage["text"] for passage in passages[one]]
        for role, own in (("query", questions), ("document", texts)):
            raw[f"{one}/{role}"] = encode(role, own)
            fitted[f"{one}/{role}"] = encode(role, sentences(data, one, questions))
    calibration = fit(fitted, CalibrationConfig(pivot="en/document"))
    dealt = np.random.default_rng(0).permutation(np.arange(len(place)) % len(LANGUAGES))
    scores: dict[str, dict[str, Doubles]] = {stage: {} for stage in STAGES}
    for stage in STAGES:
        vectors = {name: calibration.apply(own, name, stage) for name, own in raw.items()}
        documents = {one: vectors[f"{one}/document"] for one in LANGUAGES}
        mixed = np.stack([documents[LANGUAGES[one]][row] for row, one in enumerate(dealt)])
        pools = {"to_english": documents["en"], "mixed": mixed, "same": None}
        for test, pool in pools.items():
            languages = LANGUAGES[1:] if test == "to_english" else LANGUAGES
            found = [
                ndcg(vectors[f"{one}/query"], documents[one] if pool is None else pool, right)
                for one in languages
            ]
            scores[stage][test] = np.mean(found, axis=0)
    return scores


def ndcg(queries: Floats, documents: Floats, right: Rows) -> Doubles:
    """nDCG@10 of queries with one right document each."""
    cosines = queries @ documents.T  # (queries, documents)
    ranks = (cosines > cosines[np.arange(len(right)), right][:, None]).sum(axis=1)
    gains: Doubles = np.where(ranks < DEPTH, 1 / np.log2(ranks + 2), 0.0)
    return gains


def sentences(data: Path, language: str, asked: Sequence[str]) -> list[str]:
    """2,048 sentences of the language, none of which is asked."""
    name = {"zh": "zh-CN"}.get(language, language)
    with lzma.open(data / "common_voice_sentences" / f"{name}.txt.xz", "rt", encoding="utf-8") as f:
        texts = without([line.strip() for line in f], asked)
    rng = random.Random(0)
    if len(texts) < FITTED:  # Russian
        texts += (line[0] for line in table(data / "ntrex" / "rus.txt.gz"))
        return texts[:FITTED]
    return rng.sample(texts, FITTED)


if __name__ == "__main__":
    sys.exit(main())
