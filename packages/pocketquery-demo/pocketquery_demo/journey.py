"""From a teacher and a corpus to a search on the device, in one readable function."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pocketquery import sdk
from pocketquery.distill import (
    StudentConfig,
    TrainingConfig,
    distill,
    query_like_texts,
    unique_texts,
)
from pocketquery.export.bundle.bundling import export_bundle
from pocketquery.export.quantization.ranking_gate import GateData
from pocketquery.sdk.arrays import Floats
from pocketquery.sdk.index.documents import content
from pocketquery.sdk.indexing.building import build_index
from pocketquery.server.corpus import Query
from pocketquery.server.evaluation import encode_documents, evaluate
from pocketquery.server.modeling import SentenceEncoder
from pocketquery_demo.corpus import DemoCorpus, read_demo_corpus
from pocketquery_demo.results import DemoResults, System

__all__ = ["SEARCHES", "DemoSettings", "run_demo"]


SEARCHES = (
    "which company owns abc",
    "who discovered oxygen",
    "how do geologists date rocks",
    "norman conquest of england",
    "how do chloroplsts make sugr",  # typed badly, as people do
)
"""Shown at the end; all on held-out articles."""

_LICENCE = "CC-BY-SA-4.0"  # of the texts it learnt from; the teacher is under Apache-2.0


@dataclass(frozen=True)
class DemoSettings:
    """What the demo distils; small enough for two cores and eight minutes.

    Attributes:
        teacher: model folder, Hub name, or the offline ``demo``.
        student: shape.
        training: of the student.
        pieces: sentences, titles and spans of the corpus that join its questions.
        longest_piece: words of those; queries are short.
        gate_queries: questions the ranking gate asks.
    """

    teacher: str = "demo"
    student: str = "3x384"
    training: TrainingConfig = TrainingConfig(
        steps=800,
        batch_size=64,
        learning_rate=5e-4,
        max_length=32,
        nearest=4,
        train_vocabulary=False,
        checkpoint_every=50,
    )
    pieces: int = 6000
    longest_piece: int = 20
    gate_queries: int = 300


def run_demo(
    output: Path,
    settings: DemoSettings | None = None,
    *,
    corpus: DemoCorpus | None = None,
    say: Callable[[str], None] = print,
    show_progress_bar: bool = True,
) -> DemoResults:
    """Distil, export, gate, index and evaluate; what is already there from before is reused.

    Args:
        output: the folder that gets ``student``, ``bundle``, ``index`` and ``cache``.
        settings: see :class:`DemoSettings`.
        corpus: another corpus than the one that ships.
        say: told what is being done, a line a step.
        show_progress_bar: bars on stderr.
    """
    settings = settings or DemoSettings()
    corpus = corpus or read_demo_corpus()
    started = time.perf_counter()

    say("1/6  The teacher reads the documents (once, on the server)")
    teacher = SentenceEncoder.load(settings.teacher)
    vectors = encode_documents(
        teacher, corpus.documents, cache=output / "cache", show_progress_bar=show_progress_bar
    )
    say(f"     {len(vectors)} paragraphs of {teacher.name} live in {teacher.space_id}")

    say(f"2/6  Distilling a {settings.student} query encoder into that space")
    learnt = corpus.training_documents
    pieces = [
        text
        for text in unique_texts(query_like_texts(learnt, settings.training.seed))
        if len(text.split()) <= settings.longest_piece
    ]
    drawn = random.Random(0).sample(pieces, min(settings.pieces, len(pieces)))
    student_report = distill(
        teacher,
        unique_texts([*(query.text for query in corpus.training.queries), *drawn]),
        output / "student",
        documents=[content(document) for document in learnt],
        student=StudentConfig(settings.student),
        config=settings.training,
        show_progress_bar=show_progress_bar,
    )
    say(f"     {student_report.parameters / 1e6:.1f} M parameters, {student_report.texts} texts")

    say("3/6  Exporting to int8, and asking whether it still ranks as the float student does")
    bundle_report = export_bundle(
        output / "student",
        output / "bundle",
        calibration_texts=[query.text for query in corpus.training.queries],
        gate=_gate(corpus, vectors, settings.gate_queries),
        name="demo-" + settings.student,
        license=_LICENCE,
        progress=lambda line: say("     " + line),
    )

    say("4/6  Building the index that devices carry")
    row = {content(document): i for i, document in enumerate(corpus.documents)}
    index_report = build_index(
        corpus.documents,
        lambda texts: vectors[[row[text] for text in texts]],
        output / "index",
        space_id=teacher.space_id,
        dimension=teacher.dimension,
    )
    say(f"     {index_report.documents} documents, {index_report.bytes / 1e6:.1f} MB")

    say(f"5/6  Evaluating on {len(corpus.held_out.queries)} questions of articles it never saw")
    student = SentenceEncoder.load(output / "student")
    encoder = sdk.load(output / "bundle")
    with sdk.open_index(output / "index", encoder=encoder) as index:
        evaluation = evaluate(
            corpus.held_out,
            encoder,
            teacher,
            document_vectors=vectors,
            index=index,
            more_encoders={"student_fp32": student.encode_query},
        )
        searches = [(query, index.search(query, k=3)) for query in SEARCHES]
    texts = [query.text for query in corpus.held_out.queries]
    return DemoResults(
        systems=_systems(evaluation.means(), teacher, student, encoder, output / "bundle", texts),
        searches=searches,
        teacher=teacher.name,
        space_id=teacher.space_id,
        student=settings.student,
        documents=len(corpus.documents),
        questions=len(corpus.held_out.queries),
        index_bytes=index_report.bytes,
        gate=None if bundle_report.gate is None else bundle_report.gate.to_dict(),
        seconds=time.perf_counter() - started,
    )


def _gate(corpus: DemoCorpus, vectors: Floats, size: int) -> GateData:
    """Training questions over the whole corpus: held-out ones must not choose what ships."""
    asked: Sequence[Query] = corpus.training.queries
    queries = random.Random(1).sample(list(asked), min(size, len(asked)))
    return GateData(
        queries=queries,
        document_ids=[document.id for document in corpus.documents],
        document_vectors=vectors,
        judgements={query.id: corpus.training.judgements[query.id] for query in queries},
    )


def _systems(
    means: Mapping[str, Mapping[str, float]],
    teacher: SentenceEncoder,
    student: SentenceEncoder,
    encoder: sdk.Encoder,
    bundle: Path,
    texts: Sequence[str],
) -> list[System]:
    """Quality beside what each query encoder weighs and takes."""
    size = sum(file.stat().st_size for file in bundle.iterdir())
    few, many = texts[:60], texts[:500]
    return [
        System("teacher", means["teacher"], _bytes(teacher), _p50(teacher.encode, few)),
        System("student_fp32", means["student_fp32"], _bytes(student), _p50(student.encode, few)),
        System("student_int8", means["bundle"], size, _p50(encoder.encode, many)),
        System("bm25", means["bm25"], 0, None),
        System("hybrid", means["hybrid"], size, None),
    ]


def _p50(encode: Callable[[list[str]], object], texts: Sequence[str]) -> float:
    """Median milliseconds to encode one query."""
    times = []
    for text in [texts[0], *texts]:
        start = time.perf_counter()
        encode([text])
        times.append(time.perf_counter() - start)
    return float(np.median(times[1:]) * 1e3)  # the first one warms up


def _bytes(model: SentenceEncoder) -> int:
    return sum(p.numel() * p.element_size() for p in model.parameters())
