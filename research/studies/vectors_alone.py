"""Where a student of vectors alone begins, against one cut out of its teacher, in one budget.

    python research/studies/vectors_alone.py vectors minilm --texts 65536 --data DATA --work FOLDER
    python research/studies/vectors_alone.py train minilm words 131072 --data DATA --work FOLDER
    python research/studies/vectors_alone.py judge minilm cut-131072 words-131072 --work FOLDER ...

The shape, vocabulary, kinds of texts and settings of the built-in encoder (presets/recipe.py) in
batches of 128; its paragraphs to rank are 8,192 of the texts here, or ``--passages``. ``vectors``
has the teacher encode texts, and documents and queries of the collections: MiniLM in bfloat16, and
multilingual-e5-small by its int8 graph. ``train`` makes a student, and prints how much of the
teacher's ten nearest among 4,096 texts that nobody learns from the student finds: what is chosen is
chosen by that. Both go on where they were killed. ``apart`` prints it for students whose vectors
are moved away from the mean. ``judge`` prints nDCG@10 as shares of the
teacher's, and differences to the first student named, with 95 % intervals of a bootstrap paired by
query; then one JSON object.

The starts: ``cut``, the teacher's layers; ``words``, texts and vectors alone;
``builtin``, the built-in encoder; ``other``, two layers of multilingual-e5-small over the built-in
vocabulary. What was declared, and what came of it: research/vectors-alone.md.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
from quality_sets import SETS, data_folder, read_set

from pocketquery.client.bootstrap import bootstrap_difference, bootstrap_ratio
from pocketquery.distill.distillation import distill
from pocketquery.distill.settings import StudentConfig
from pocketquery.distill.student_of_bundle import load_student
from pocketquery.distill.vector_file import FileTeacher
from pocketquery.sdk.arrays import Floats
from pocketquery.sdk.files import write_atomic
from pocketquery.sdk.index.documents import content
from pocketquery.server.corpus import Collection
from pocketquery.server.evaluation import DEPTH, Scores, rank_exactly, score_rankings
from pocketquery.server.evaluation.ranking import without_excluded
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.autocast import bfloat16_products
from pocketquery_research.multilingual.teacher_graph import TeacherGraph
from pocketquery_research.presets.overlap import nearest_shared
from pocketquery_research.presets.recipe import MAX_LENGTH, PRESETS
from pocketquery_research.presets.texts import preset_texts

TEACHERS = {"minilm": "demo", "e5": "multilingual"}
STARTS = ("cut", "words", "builtin", "other")
SHAPE, VOCABULARY = "2x384x736-pq4", 29_000  # the built-in encoder's
HELD_OUT, ASKING, RANKED = 4096, 1024, 8192  # texts
SHARD, LONGEST = 2048, 200  # texts; characters of one
METRIC = "ndcg@10"
PIECES = 140_000  # of pages, drawn as the recipe draws


def main() -> int:
    """Read the command line and do what it asks."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=("vectors", "train", "apart", "judge"))
    parser.add_argument("teacher", choices=tuple(TEACHERS))
    parser.add_argument("names", nargs="*", help="train: START EXAMPLES; judge: students")
    parser.add_argument("--data", help="default: POCKETQUERY_DATA, else data")
    parser.add_argument("--work", type=Path, default=Path("runs/vectors_alone"))
    parser.add_argument("--texts", type=int, default=65_536)
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=SETS)
    parser.add_argument("--passages", type=Path, help="to rank, one a line: passages.py")
    parser.add_argument("--rate", type=float, default=6e-4)
    parser.add_argument("--temperature", type=float, default=0.05)
    parser.add_argument(
        "--layers", type=int, nargs="*", help="of the start; default: evenly spaced"
    )
    parser.add_argument("--apart", type=float, nargs="*", default=[1.0], help="see moved_apart")
    options = parser.parse_args()
    torch.set_num_threads(1)
    data, work = data_folder(options.data), options.work / options.teacher
    work.mkdir(parents=True, exist_ok=True)
    if options.what == "vectors":
        encode(Encoding(options.teacher, options.work, data), options, work, data)
    elif options.what == "train":
        train(options, work, options.names[0], int(options.names[1]))
    elif options.what == "apart":
        for name in options.names:
            student = SentenceEncoder.load(work / name)
            texts = english_texts(options.work, Path())
            for factor in options.apart:
                found = overlap(student, work, texts, mean_vector(work), factor)
                print(json.dumps({"student": name, "apart": factor, "overlap": found}), flush=True)
    else:
        print(json.dumps(judge(options, work, data)))
    return 0


class Encoding:
    """The teacher as it encodes here, loaded when it is needed."""

    def __init__(self, name: str, work: Path, data: Path) -> None:
        self._name, self._work, self._data = name, work, data
        self._loaded: Any = None

    def __call__(self, texts: Sequence[str], role: str) -> Floats:
        """Unit vectors, float32 (texts, 384)."""
        if self._name == "e5":
            self._loaded = self._loaded or TeacherGraph(self._work, self._data)
            found: Floats = self._loaded.encode(texts, role)
        else:
            self._loaded = self._loaded or SentenceEncoder.load(TEACHERS[self._name])
            with torch.no_grad(), bfloat16_products(self._loaded.device):
                found = self._loaded.encode(texts)
        return found

    def kept(self, path: Path, texts: Sequence[str], role: str) -> Floats:
        """The same out of ``path``, in parts, where they are there."""
        parts = []
        for start in range(0, len(texts), SHARD):
            part = path / f"{start:07}.npy"
            if not part.is_file():
                path.mkdir(parents=True, exist_ok=True)
                began = time.process_time()
                vectors = self(texts[start : start + SHARD], role)
                np.save(part.with_suffix(".part.npy"), vectors)
                part.with_suffix(".part.npy").rename(part)
                print(f"{part} {time.process_time() - began:.0f} s", file=sys.stderr, flush=True)
            parts.append(np.load(part))
        return np.concatenate(parts)


def english_texts(work: Path, data: Path) -> list[str]:
    """Short texts as the recipe draws them, in a random order; the first HELD_OUT teach nobody."""
    path = work / "english.json"
    if not path.is_file():
        drawn = preset_texts(
            data, pieces=PIECES, textbook_pieces=0, documents=10, question_copies=1,
            dialogue_turns=15_000, seed=26,
        )  # fmt: skip
        texts = list(dict.fromkeys(text for text in drawn.queries if len(text) <= LONGEST))
        random.Random(26).shuffle(texts)
        write_atomic(path, json.dumps(texts).encode())
    read: list[str] = json.loads(path.read_text())
    return read


def encode(encoding: Encoding, options: Any, work: Path, data: Path) -> None:
    """Vectors of texts and collections, and the file that teaches."""
    texts = english_texts(options.work, data)[: HELD_OUT + options.texts]
    vectors = encoding.kept(work / "texts", texts, "query")
    path = taught_file(options, work)
    if not path.is_file():
        ranked, theirs = texts[HELD_OUT:][:RANKED], vectors[HELD_OUT:][:RANKED]
        if options.passages:
            ranked = options.passages.read_text("utf-8").splitlines()
            theirs = encoding.kept(work / options.passages.stem, ranked, "document")
        learnt = len(texts) - HELD_OUT
        np.savez(
            path.with_suffix(".part.npz"),
            text=np.array([*texts[HELD_OUT:], *ranked]),
            vector=np.concatenate([vectors[HELD_OUT:], theirs]),
            role=np.array(["query"] * learnt + ["document"] * len(ranked)),
        )
        path.with_suffix(".part.npz").rename(path)
    for name in options.sets:
        documents_and_queries(encoding, read_set(data, name), work / name)


def taught_file(options: Any, work: Path) -> Path:
    """What teaches: texts and vectors."""
    ranked = f"-{options.passages.stem}" if options.passages else ""
    return work / f"vectors-{options.texts}{ranked}.npz"


def documents_and_queries(
    encoding: Encoding, collection: Collection, folder: Path
) -> tuple[Floats, Floats]:
    """The teacher's vectors of a collection."""
    texts = [content(document) for document in collection.documents]
    queries = [query.text for query in collection.queries]
    return (
        encoding.kept(folder / "documents", texts, "document"),
        encoding.kept(folder / "queries", queries, "query"),
    )


def start_of(name: str, teacher: str) -> Any:
    """What ``distill`` takes as a start."""
    if name == "builtin":
        return load_student("default")
    if name == "words":
        return "words"
    return SentenceEncoder.load(TEACHERS["e5" if name == "other" else teacher])


def train(options: Any, work: Path, start: str, examples: int) -> None:
    """One student, and its overlap with the teacher on held-out texts."""
    taught = FileTeacher(taught_file(options, work))
    settings = "".join(
        f"-{key}{value}"
        for key, value, usual in (
            ("rate", options.rate, 6e-4),
            ("temperature", options.temperature, 0.05),
            ("layers", "".join(map(str, options.layers or ())), ""),
            ("ranking", options.passages.stem if options.passages else "", ""),
        )
        if value != usual
    )
    output = work / f"{start}-{examples}{settings}"
    steps = max(1, examples // 128)
    began = time.process_time()
    fresh = not (output / "pocketquery.json").is_file()
    source = start_of(start, options.teacher) if fresh else None
    spent = time.process_time() - began
    config = replace(
        PRESETS["6mb"].config, steps=steps, batch_size=128, random_documents=128,
        learning_rate=options.rate if examples else 1e-12, temperature=options.temperature,
        checkpoint_every=64, seed=0,
    )  # fmt: skip
    if fresh:
        distill(
            taught,
            taught.texts,
            output,
            documents=taught.documents,
            student=StudentConfig(
                SHAPE,
                vocabulary_size=VOCABULARY if start == "cut" else None,
                least_character=50 if start == "cut" else 0,
                layers=tuple(options.layers) if options.layers else None,
                max_length=MAX_LENGTH,
            ),
            start=source,
            tokenizer=load_student("default").tokenizer if start == "other" else None,
            cache=work / "targets",
            config=config,
        )
    found = overlap(SentenceEncoder.load(output), work, english_texts(options.work, Path()))
    seconds = time.process_time() - began
    line = {"student": output.name, "overlap": found, "start_s": spent, "all_s": seconds}
    print(json.dumps(line), flush=True)


def overlap(
    student: SentenceEncoder,
    work: Path,
    texts: Sequence[str],
    mean: Floats | None = None,
    apart: float = 1.0,
) -> float:
    """The share of the teacher's ten nearest held-out texts that are the student's."""
    vectors = np.concatenate([np.load(p) for p in sorted((work / "texts").glob("0*.npy"))[:2]])
    asked = student.encode_query(list(texts[:ASKING]))
    return nearest_shared(moved_apart(asked, mean, apart), vectors[:HELD_OUT])


def mean_vector(work: Path) -> Floats:
    """The teacher's mean over texts that teach."""
    parts = sorted((work / "texts").glob("0*.npy"))[HELD_OUT // SHARD :]
    mean: Floats = np.concatenate([np.load(part) for part in parts]).mean(axis=0)
    return mean


def moved_apart(vectors: Floats, mean: Floats | None, factor: float) -> Floats:
    """Vectors ``factor`` times as far from the mean, normalised: a regression draws them to it,
    and in a space whose vectors lie close together the mean then ranks. A linear head can hold
    the factor."""
    if mean is None or factor == 1:
        return vectors
    moved = mean + factor * (vectors - mean)
    scaled: Floats = (moved / np.linalg.norm(moved, axis=1, keepdims=True)).astype(np.float32)
    return scaled


def judge(options: Any, work: Path, data: Path) -> dict[str, Any]:
    """Shares of the teacher's nDCG@10, and differences to the first student."""
    encoding = Encoding(options.teacher, options.work, data)
    students = {name: SentenceEncoder.load(work / name) for name in options.names}
    shown = [named(name, factor) for name in students for factor in options.apart]
    scores: dict[str, dict[str, Scores]] = {name: {} for name in ["teacher", *shown]}
    for key in options.sets:
        collection = read_set(data, key)
        documents, queries = documents_and_queries(encoding, collection, work / key)
        asked = [query.text for query in collection.queries]
        scores["teacher"][key] = scored(collection, queries, documents)
        for name, student in students.items():
            for factor in options.apart:
                moved = moved_apart(student.encode_query(asked), mean_vector(work), factor)
                scores[named(name, factor)][key] = scored(collection, moved, documents)
    figures: dict[str, Any] = {
        "teacher": {key: one.means()[METRIC] for key, one in scores["teacher"].items()}
    }
    base = {key: one.per_query[METRIC] for key, one in scores["teacher"].items()}
    for name in shown:
        ours = {key: one.per_query[METRIC] for key, one in scores[name].items()}
        figures[name] = {
            key: spread(bootstrap_ratio([(ours[key], base[key])])) for key in options.sets
        }
        figures[name]["mean"] = spread(bootstrap_ratio([(ours[k], base[k]) for k in options.sets]))
        first = {key: one.per_query[METRIC] for key, one in scores[shown[0]].items()}
        # As shares of the teacher's mean on each set, so that differences are of what is kept.
        pairs = [(ours[k] / base[k].mean(), first[k] / base[k].mean()) for k in options.sets]
        figures[name]["over the first"] = spread(bootstrap_difference(pairs))
        print(name, json.dumps(figures[name]), file=sys.stderr, flush=True)
    return figures


def named(name: str, apart: float) -> str:
    """A student, and how far its vectors were moved."""
    return name if apart == 1 else f"{name}-apart{apart:g}"


def scored(collection: Collection, queries: Floats, documents: Floats) -> Scores:
    """nDCG@10 by query."""
    ids = [document.id for document in collection.documents]
    ranked = rank_exactly(queries, documents, ids, 2 * DEPTH)
    return score_rankings(
        collection.judgements,
        {
            query.id: without_excluded(query.id, ranking, collection.excluded, DEPTH)
            for query, ranking in zip(collection.queries, ranked, strict=True)
        },
    )


def spread(interval: Any) -> list[float]:
    """Estimate, and both ends."""
    return [round(float(x), 4) for x in (interval.estimate, interval.low, interval.high)]


if __name__ == "__main__":
    sys.exit(main())
