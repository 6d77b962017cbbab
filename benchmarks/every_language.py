"""What a multilingual encoder keeps of its teacher, language by language, and across languages.

    python benchmarks/every_language.py [--bundle NAME] [--data FOLDER] [--questions N] [--store]

nDCG@10 of the bundle (default: pocketquery-multilingual) as a share of the teacher's, each encoding
both questions and passages: in the same language on XQuAD's eight, JaQuAD (every sixteenth
paragraph), ARCD and CMRC; across languages on XQuAD, seven to English and English to two. ``over``
has the bundle's questions over the teacher's passages. Beside it BM25, and the hybrid with the
bundle's meaning. Intervals are of 1,000 draws of the questions, paired. The teacher is its int8
graph with the whole vocabulary, on both sides: in float twelve layers take hours (cosine to float
.999). Vectors are kept in runs/every_language. Nothing measured here was trained or fitted on.

The last line is one JSON object; the exit status is 1 where a figure of suite/table.py is missed.
"""

from __future__ import annotations

import os

os.environ.update({"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"})

import argparse
import hashlib
import json
import lzma
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from data_files import objects, table
from numpy.typing import NDArray
from suite.results import store
from suite.table import LEFT_OUT

from pocketquery import sdk
from pocketquery.export.onnx_graph import build_graph
from pocketquery.export.quantization.quantization import quantize
from pocketquery.export.quantization.smoothing import activation_ranges, smooth
from pocketquery.export.sessions import GraphSession
from pocketquery.export.settings import GraphOptions
from pocketquery.server.evaluation import score_rankings
from pocketquery.server.evaluation.ranking import rank_exactly
from pocketquery.server.modeling import SentenceEncoder

Vectors = NDArray[np.float32]
Figures = dict[str, Any]

CACHE = Path(__file__).resolve().parents[1] / "runs" / "every_language"
LANGUAGES = ("en", "de", "es", "ru", "ar", "hi", "vi", "zh")
FROM_ENGLISH = ("de", "zh")
FOLDERS = {"ja": "jaquad_train", "ar (ARCD)": "arcd_train", "zh (CMRC)": "cmrc2018_trial"}
JAPANESE_STEP = 16  # paragraphs
DEPTH = 10
DRAWS = 1000
TIMED = 200
CALIBRATION = 13  # sentences a language, of the teacher's int8 graph


@dataclass(frozen=True)
class Asked:
    """Questions of a language and what answers them; ids are XQuAD's own, the same in each."""

    ids: list[str]
    questions: list[str]
    passage_ids: list[str]
    passages: list[str]
    right: dict[str, dict[str, int]]


@dataclass(frozen=True)
class Sides:
    """Vectors of one set by one encoder."""

    questions: Vectors
    passages: Vectors


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--bundle", default="pocketquery-multilingual")
    parser.add_argument("--data", default=os.environ.get("POCKETQUERY_DATA", "data"))
    parser.add_argument("--questions", type=int, default=218, help="of a set, at most")
    parser.add_argument("--store", action="store_true", help="store the figures in docs/results")
    options = parser.parse_args()
    started = time.monotonic()
    encoder = sdk.load(options.bundle)
    sets = read_sets(Path(options.data), options.questions)
    made_by = encoder.manifest.files["encoder.onnx"].sha256  # a name may be of another one tomorrow
    ours = {name: encoded(made_by, one, *sides(encoder)) for name, one in sets.items()}
    teacher = teacher_sides(Path(options.data))
    theirs = {name: encoded("teacher", one, *teacher) for name, one in sets.items()}
    same = {name: compared(one, ours[name], theirs[name]) for name, one in sets.items()}
    across = {}
    for asked_in, read_in in pairs():
        crossed = cross(sets[asked_in], sets[read_in])
        across[f"{asked_in} to {read_in}"] = compared(
            crossed,
            Sides(ours[asked_in].questions, ours[read_in].passages),
            Sides(theirs[asked_in].questions, theirs[read_in].passages),
        )
    figures: Figures = {
        "bundle": encoder.manifest.name,
        "bytes": sum(entry.bytes for entry in encoder.manifest.files.values()),
        "p50_over_built_in": p50_ratio(encoder, sets["en"].questions),
        "same": same,
        "same_share": float(np.mean([row["share"] for row in same.values()])),
        "across": across,
        "across_share": float(np.mean([row["share"] for row in across.values()])),
    }
    for shown in [*same.items(), *across.items()]:
        print(json.dumps(shown))
    (row,) = (one for one in LEFT_OUT if one.name == "every_language")
    held = [figure for threshold in row.thresholds for figure in threshold.compared(figures)]
    figures["missed"] = [
        f"{one.figure} is {one.found}, must be {one.bound} {one.value}"
        for one in held
        if not one.reached
    ]
    if options.store:
        store("every_language", figures, time.monotonic() - started)
    print(json.dumps(figures))
    return 1 if figures["missed"] else 0


def pairs() -> list[tuple[str, str]]:
    """Languages that are asked in, and the ones that are read."""
    to_english = [(language, "en") for language in LANGUAGES if language != "en"]
    return to_english + [("en", language) for language in FROM_ENGLISH]


def read_sets(data: Path, most: int) -> dict[str, Asked]:
    """All sets, each with at most ``most`` of its questions, evenly spaced."""
    sets = {}
    for language in LANGUAGES:
        folder = data / "xquad"
        passages = list(objects(folder / f"{language}.corpus.jsonl.gz"))
        questions = list(table(folder / f"{language}.queries.tsv.gz"))
        sets[language] = asked(passages, questions, list(table(folder / "qrels.tsv")), most)
    for name, place in FOLDERS.items():
        folder = data / place
        passages = list(objects(folder / "corpus.jsonl.gz"))[
            :: JAPANESE_STEP if name == "ja" else 1
        ]
        questions = list(table(folder / "queries.tsv.gz"))
        sets[name] = asked(passages, questions, list(table(folder / "qrels.tsv.gz")), most)
    return sets


def asked(
    passages: Sequence[Any], questions: Sequence[Sequence[str]], judged: Sequence[Any], most: int
) -> Asked:
    texts = {one["_id"]: one["text"] for one in passages}
    right: dict[str, dict[str, int]] = {}
    for question, passage, *_ in judged:
        if passage in texts:
            right.setdefault(question, {})[passage] = 1
    answered = [row for row in questions if row[0] in right and row[1].strip()]
    chosen = [answered[i * len(answered) // most] for i in range(min(most, len(answered)))]
    if len(answered) <= most:
        chosen = answered
    return Asked(
        [row[0] for row in chosen],
        [row[1] for row in chosen],
        list(texts),
        list(texts.values()),
        {row[0]: right[row[0]] for row in chosen},
    )


def cross(one: Asked, other: Asked) -> Asked:
    """The questions of ``one`` and the passages of ``other``."""
    return Asked(one.ids, one.questions, other.passage_ids, other.passages, one.right)


Encode = Callable[[list[str]], Vectors]


def sides(encoder: sdk.Encoder) -> tuple[Encode, Encode]:
    return encoder.encode_query, encoder.encode_document


def teacher_sides(data: Path) -> tuple[Encode, Encode]:
    """The teacher's int8 graph, which is made once and opened when it is needed."""
    opened: list[tuple[GraphSession, Any, dict[str, str]]] = []

    def side(role: str) -> Encode:
        def encode(texts: list[str]) -> Vectors:
            if not opened:
                teacher = SentenceEncoder.load("multilingual").with_device_ids()
                session = GraphSession(int8_graph(teacher, data))
                opened.append((session, teacher.tokenizer, teacher.prompts))
            session, tokenizer, prompts = opened[0]
            rows = [
                tokenizer(prompts[role] + text, truncation=True, max_length=512)["input_ids"]
                for text in texts
            ]
            return session.encode(rows)

        return encode

    return side("query"), side("document")


def int8_graph(teacher: SentenceEncoder, data: Path) -> onnx.ModelProto:
    """As export quantises students, of the whole teacher and without an adapter."""
    path = CACHE / f"{teacher.space_id}-int8.onnx"
    if not path.is_file():
        model = build_graph(teacher, GraphOptions(adapter_rank=0))
        prompts = [teacher.prompts["query"], teacher.prompts["document"]]
        texts: list[str] = []
        for sentences in sorted((data / "common_voice_sentences").glob("*.xz")):
            texts += lzma.decompress(sentences.read_bytes()).decode().splitlines()[:CALIBRATION]
        rows = teacher.tokenizer([prompts[i % 2] + text for i, text in enumerate(texts)])
        ranges = activation_ranges(model, rows["input_ids"])
        CACHE.mkdir(parents=True, exist_ok=True)
        onnx.save(quantize(smooth(model, ranges)), path)
    return onnx.load(path)


def encoded(name: str, one: Asked, questions: Encode, passages: Encode) -> Sides:
    return Sides(kept(name, one.questions, questions), kept(f"{name}/", one.passages, passages))


def kept(made_by: str, texts: list[str], encode: Encode) -> Vectors:
    """Vectors of the texts, kept on disk under a hash of both."""
    digest = hashlib.sha256("\0".join([made_by, *texts]).encode()).hexdigest()
    path = CACHE / f"{digest[:32]}.npy"
    if not path.is_file():
        CACHE.mkdir(parents=True, exist_ok=True)
        vectors = encode(texts)
        np.save(path, vectors)
        print(f"{made_by} encoded {len(texts)} texts", file=sys.stderr, flush=True)
    result: Vectors = np.load(path)
    return result


def compared(one: Asked, ours: Sides, theirs: Sides) -> Figures:
    """nDCG@10 of all systems over the same questions, and shares with their intervals."""

    def dense(questions: Vectors, passages: Vectors) -> NDArray[np.float64]:
        return scores(one, rank_exactly(questions, passages, one.passage_ids, DEPTH))

    own = dense(ours.questions, ours.passages)
    over = dense(ours.questions, theirs.passages)
    teacher = dense(theirs.questions, theirs.passages)
    words, meaning, hybrid = searched(one, ours)
    best = max(words.mean(), meaning.mean())
    return {
        "questions": len(one.ids),
        "passages": len(one.passages),
        "teacher": float(teacher.mean()),
        "ours": float(own.mean()),
        "share": float(own.mean() / teacher.mean()),
        "interval": interval(own, teacher),
        "over": float(over.mean() / teacher.mean()),
        "bm25": float(words.mean()),
        "hybrid": float(hybrid.mean()),
        "hybrid_below_best": float(best - hybrid.mean()),
    }


def scores(one: Asked, rankings: Sequence[Sequence[str]]) -> NDArray[np.float64]:
    """nDCG@10 of each question."""
    scored = score_rankings(one.right, dict(zip(one.ids, rankings, strict=True)))
    by_question = dict(zip(scored.query_ids, scored.per_query["ndcg@10"], strict=True))
    return np.array([by_question[name] for name in one.ids])


def searched(one: Asked, ours: Sides) -> list[NDArray[np.float64]]:
    """The same by an index of the bundle's vectors: words, meaning and hybrid."""
    with tempfile.TemporaryDirectory(prefix="pocketquery-") as place:
        path = Path(place) / "index"
        dimension = ours.passages.shape[1]
        with sdk.create_index(path, space_id="measured", dimension=dimension) as builder:
            documents = [
                sdk.Document(*pair) for pair in zip(one.passage_ids, one.passages, strict=True)
            ]
            builder.add(documents, ours.passages)
        with sdk.open_index(path) as index:
            return [
                scores(
                    one,
                    [
                        [hit.id for hit in index.search(text, DEPTH, mode=mode, vector=vector)]
                        for text, vector in zip(one.questions, ours.questions, strict=True)
                    ],
                )
                for mode in ("lexical", "dense", "hybrid")
            ]


def interval(own: NDArray[np.float64], teacher: NDArray[np.float64]) -> list[float]:
    """Of 95 %, of the share, over draws of the questions."""
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, len(own), (DRAWS, len(own)))
    shares = own[drawn].mean(axis=1) / teacher[drawn].mean(axis=1)
    return [float(value) for value in np.quantile(shares, (0.025, 0.975))]


def p50_ratio(encoder: sdk.Encoder, questions: Sequence[str]) -> float:
    """Median time of a question, over the built-in encoder's, in turns."""
    built_in = sdk.load("default")
    times: dict[str, list[float]] = {"ours": [], "built_in": []}
    for text in [*questions[:5], *questions[:TIMED]]:
        for name, one in (("ours", encoder), ("built_in", built_in)):
            start = time.perf_counter()
            one.encode_query(text)
            times[name].append(time.perf_counter() - start)
    return float(np.median(times["ours"][5:]) / np.median(times["built_in"][5:]))


if __name__ == "__main__":
    sys.exit(main())
