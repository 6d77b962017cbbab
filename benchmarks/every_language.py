"""What a multilingual encoder keeps of its teacher, language by language, and across languages.

    python benchmarks/every_language.py [--bundle NAME] [--data FOLDER] [--manuals FOLDER]
        [--parts PART ...] [--questions N] [--step N] [--store]

nDCG@10 of the bundle (default: pocketquery-multilingual) as a share of the teacher's, each encoding
both questions and passages: in the same language on XQuAD's eight, JaQuAD (every thirty-second
paragraph), ARCD, CMRC and manual pages in ten languages (manual_pages.py says how); across
languages on XQuAD, seven to English and English to two; in English on a sample of the five
collections of quality.py: some questions, and the documents that answer them among 120 at least,
evenly spaced. ``over`` has the bundle's questions over the teacher's passages. Beside it BM25, the
hybrid with the bundle's meaning, the built-in encoder (English), and model2vec of the same teacher
at 6, 12 and 30 MB beside its tokenizer, which encodes both sides, too. Intervals are of 1,000
draws of the questions, paired.

The teacher is its int8 graph with the whole vocabulary, on both sides: in float twelve layers take
hours (cosine to float .999). Vectors are kept in runs/every_language. Nothing measured here was
trained or fitted on. The time of a query is processor time, over the built-in encoder's, in turns.
``--parts`` leaves some out and ``--step`` thins the passages, for a busy machine; what is not
measured counts as missed.

The last line is one JSON object; the exit status is 1 where a figure of suite/table.py is missed.
"""

from __future__ import annotations

import os

os.environ.update({"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"})

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from manual_pages import MANUALS, read_manual
from quality_sets import read_set
from rivals.environment import rivals_python
from suite.results import store
from suite.table import LEFT_OUT

from pocketquery import sdk
from pocketquery.sdk.index.documents import content
from pocketquery.server.modeling import resolve_model
from pocketquery_research.multilingual.sets import (
    DEPTH,
    LANGUAGES,
    Asked,
    Scores,
    asked,
    cross,
    dense_scores,
    objects,
    read_xquad,
    share_interval,
    table,
    text_scores,
)
from pocketquery_research.multilingual.teacher_graph import Encode, TeacherGraph, Vectors, kept

Figures = dict[str, Any]

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / "runs" / "every_language"
FROM_ENGLISH = ("de", "zh")
FOLDERS = {"ja": "jaquad_train", "ar (ARCD)": "arcd_train", "zh (CMRC)": "cmrc2018_trial"}
JAPANESE_STEP = 32  # paragraphs
ENGLISH = {"squad": 60, "scifact": 60, "cacm": 30, "cranfield": 30, "medline": 10}  # questions
ENGLISH_DOCUMENTS = 120  # of each, at least
STATIC = {"6 MB": 24, "12 MB": 48, "30 MB": 120}  # dimensions, of a byte a piece
PARTS = ("sets", "manuals", "english", "model2vec")
TIMED = 200
SETTLING = 5  # questions that are not timed


@dataclass(frozen=True)
class Sides:
    """Vectors of one set by one encoder."""

    questions: Vectors
    passages: Vectors


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--bundle", default="pocketquery-multilingual")
    parser.add_argument("--data", default=os.environ.get("POCKETQUERY_DATA", "data"))
    parser.add_argument("--manuals", help="default: manual_pages in --data")
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--questions", type=int, default=218, help="of a set, at most")
    parser.add_argument("--step", type=int, default=1, help="every N-th passage of sets")
    parser.add_argument("--only-teacher", action="store_true", help="compute its vectors, and end")
    parser.add_argument("--store", action="store_true", help="store the figures in docs/results")
    options = parser.parse_args()
    started = time.monotonic()
    data = Path(options.data)
    sets = read_sets(data, options.questions, options.step)
    if "manuals" in options.parts:
        manuals = Path(options.manuals or data / "manual_pages")
        sets |= {f"{it} (manual)": read_manual(manuals, it, options.questions) for it in MANUALS}
    english = {}
    if "english" in options.parts:
        english = {name: read_english(data, name, most) for name, most in ENGLISH.items()}
    every = sets | english
    teacher = TeacherGraph(CACHE / "teacher", data).sides()
    theirs = {name: encoded("teacher", one, *teacher) for name, one in every.items()}
    if options.only_teacher:
        return 0
    encoder = sdk.load(options.bundle)
    ours = {name: encoded(made_by(encoder), one, *sides(encoder)) for name, one in every.items()}
    sizes = STATIC if "model2vec" in options.parts else ()
    rivals = {size: static(size, every) for size in sizes}
    same = {
        name: compared(one, ours[name], theirs[name], {k: v[name] for k, v in rivals.items()})
        for name, one in sets.items()
    }
    across = {
        f"{one} to {other}": compared(
            cross(sets[one], sets[other]),
            Sides(ours[one].questions, ours[other].passages),
            Sides(theirs[one].questions, theirs[other].passages),
            {
                size: Sides(side[one].questions, side[other].passages)
                for size, side in rivals.items()
            },
        )
        for one, other in pairs()
    }
    figures: Figures = {
        "bundle": encoder.manifest.name,
        "parts": options.parts,
        "step": options.step,
        "bytes": sum(entry.bytes for entry in encoder.manifest.files.values()),
        "p50_over_built_in": p50_ratio(encoder, sets["en"].questions),
        "same": same,
        "same_share": float(np.mean([row["share"] for row in same.values()])),
        "across": across,
        "across_share": float(np.mean([row["share"] for row in across.values()])),
        "english": in_english(english, ours, theirs, rivals),
    }
    for shown in [*same.items(), *across.items(), *figures["english"].items()]:
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


def read_sets(data: Path, most: int, step: int) -> dict[str, Asked]:
    """XQuAD, JaQuAD, ARCD, CMRC: every ``step``-th passage, at most ``most`` questions of each."""
    sets = {language: read_xquad(data, language, most, step) for language in LANGUAGES}
    for name, place in FOLDERS.items():
        folder = data / place
        passages = objects(folder / "corpus.jsonl.gz")
        passages = passages[:: step * (JAPANESE_STEP if name == "ja" else 1)]
        questions = table(folder / "queries.tsv.gz")
        sets[name] = asked(passages, questions, table(folder / "qrels.tsv.gz"), most)
    return sets


def read_english(data: Path, name: str, most: int) -> Asked:
    """A collection with at most ``most`` questions, and what answers them among other documents."""
    whole = read_set(data, name)
    answered = [query for query in whole.queries if whole.judgements.get(query.id)]
    queries = [answered[i] for i in spaced(len(answered), most)]
    right = {query.id: dict(whole.judgements[query.id]) for query in queries}
    needed = {document for grades in right.values() for document in grades}
    others = [row for row, one in enumerate(whole.documents) if one.id not in needed]
    chosen = {others[i] for i in spaced(len(others), max(0, ENGLISH_DOCUMENTS - len(needed)))}
    documents = [
        one for row, one in enumerate(whole.documents) if one.id in needed or row in chosen
    ]
    return Asked(
        [query.id for query in queries],
        [query.text for query in queries],
        [one.id for one in documents],
        [content(one) for one in documents],
        right,
    )


def spaced(count: int, most: int) -> list[int]:
    """At most ``most`` of ``count`` places, evenly."""
    return list(range(count)) if count <= most else [i * count // most for i in range(most)]


def sides(encoder: sdk.Encoder) -> tuple[Encode, Encode]:
    return (
        lambda texts: encoder.encode_query(list(texts)),
        lambda texts: encoder.encode_document(list(texts)),
    )


def made_by(encoder: sdk.Encoder) -> str:
    """A name may be of another one tomorrow."""
    return encoder.manifest.files["encoder.onnx"].sha256


def encoded(name: str, one: Asked, questions: Encode, passages: Encode) -> Sides:
    return Sides(
        kept(CACHE, name, one.questions, questions),
        kept(CACHE, f"{name}/", one.passages, passages),
    )


def static(size: str, sets: Mapping[str, Asked]) -> dict[str, Sides]:
    """model2vec's vectors, by the rivals' interpreter."""
    most = max(STATIC.values())  # the teacher's passes over 250,000 pieces are made once
    model = ROOT / ".rivals" / f"model2vec-multilingual-{most}"
    script = ROOT / "benchmarks" / "rivals" / "model2vec_vectors.py"
    options = ["--teacher", str(resolve_model("multilingual")), "--model", str(model)]
    options += ["--int8", str(STATIC[size]), str(most)]
    with tempfile.TemporaryDirectory(prefix="pocketquery-") as place:
        files = []
        for number, one in enumerate(sets.values()):
            for side, texts in (("questions", one.questions), ("passages", one.passages)):
                files.append(Path(place) / f"{number}-{side}.json")
                files[-1].write_text(json.dumps(texts), encoding="utf-8")
        subprocess.run([rivals_python(), script, *options, *files], check=True)
        vectors = iter([np.load(file.with_suffix(".npy")) for file in files])
    return {name: Sides(next(vectors), next(vectors)) for name in sets}


def compared(one: Asked, ours: Sides, theirs: Sides, rivals: Mapping[str, Sides]) -> Figures:
    """nDCG@10 of all systems over the same questions, and shares with their intervals."""
    own = dense_scores(one, ours.questions, ours.passages)
    over = dense_scores(one, ours.questions, theirs.passages)
    teacher = dense_scores(one, theirs.questions, theirs.passages)
    words, meaning, hybrid = searched(one, ours)
    best = max(words.mean(), meaning.mean())
    static = {k: dense_scores(one, v.questions, v.passages).mean() for k, v in rivals.items()}
    return {
        "questions": len(one.ids),
        "passages": len(one.passages),
        "teacher": float(teacher.mean()),
        "ours": float(own.mean()),
        "share": float(own.mean() / teacher.mean()),
        "interval": share_interval(own, teacher),
        "over": float(over.mean() / teacher.mean()),
        "bm25": float(words.mean()),
        "hybrid": float(hybrid.mean()),
        "hybrid_below_best": float(best - hybrid.mean()),
        "model2vec": {size: float(value) for size, value in static.items()},
    }


def in_english(
    sets: Mapping[str, Asked],
    ours: Mapping[str, Sides],
    theirs: Mapping[str, Sides],
    rivals: Mapping[str, Mapping[str, Sides]],
) -> Figures:
    """The same of the English collections, with the built-in encoder on both sides."""
    encoder = sdk.load("default")
    figures = {}
    for name, one in sets.items():
        built_in = encoded(made_by(encoder), one, *sides(encoder))
        found = compared(one, ours[name], theirs[name], {k: v[name] for k, v in rivals.items()})
        found["below_teacher"] = found["teacher"] - found["ours"]
        found["built_in"] = float(dense_scores(one, built_in.questions, built_in.passages).mean())
        figures[name] = found
    return figures


def searched(one: Asked, ours: Sides) -> list[Scores]:
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
                text_scores(
                    one,
                    [
                        [hit.id for hit in index.search(text, DEPTH, mode=mode, vector=vector)]
                        for text, vector in zip(one.questions, ours.questions, strict=True)
                    ],
                )
                for mode in ("lexical", "dense", "hybrid")
            ]


def p50_ratio(encoder: sdk.Encoder, questions: Sequence[str]) -> float:
    """Median processor time of a question, over the built-in encoder's, in turns."""
    built_in = sdk.load("default")
    times: dict[str, list[float]] = {"ours": [], "built_in": []}
    for text in [*questions[:SETTLING], *questions[:TIMED]]:
        for name, one in (("ours", encoder), ("built_in", built_in)):
            start = time.thread_time()
            one.encode_query(text)
            times[name].append(time.thread_time() - start)
    ours, theirs = (np.median(times[name][SETTLING:]) for name in ("ours", "built_in"))
    return float(ours / theirs)


if __name__ == "__main__":
    sys.exit(main())
