"""A 2x128 encoder, its index, and queries for as many simulated users as one likes.

Made once of the corpus that ships with the package: the encoder is distilled from the questions of
28 articles, typed well; the simulated users ask the same questions, and questions of the eight
other articles, which people judged, are the gate's. What a device can teach is how thumbs type.
"""

from __future__ import annotations

from pathlib import Path

from pocketquery.sdk.files import write_atomic
from pocketquery.sdk.index.documents import content
from pocketquery.server.corpus import Query
from pocketquery_demo.corpus import DATA, DemoCorpus, read_demo_corpus
from pocketquery_simulation.files import SimulationFiles

__all__ = ["SHAPE", "WORK", "small_fleet"]

SHAPE = "2x128"
WORK = Path(__file__).resolve().parents[2] / "runs" / "fleet"
GATE_QUERIES = 500
_SEED = 3


def small_fleet(users: int, queries_each: int = 40) -> SimulationFiles:
    """What a simulation of so many users reads; its parts are made where they are not there."""
    bundle, index = WORK / "bundle", WORK / "index"
    queries, gate = WORK / "queries.tsv", WORK / "gate.tsv"
    if not (bundle / "manifest.json").is_file():
        _make(read_demo_corpus(), bundle, index, queries, gate)
    return SimulationFiles(
        bundle=bundle,
        index=index,
        queries=queries,
        users=users,
        queries_each=queries_each,
        gate_queries=gate,
        gate_qrels=DATA / "qrels.tsv.gz",
    )


def _make(corpus: DemoCorpus, bundle: Path, index: Path, queries: Path, gate: Path) -> None:
    # torch comes with these: only where something is made, for memory is measured elsewhere.
    from pocketquery.distill import StudentConfig, TrainingConfig, distill, query_like_texts
    from pocketquery.distill.texts import unique_texts
    from pocketquery.export.bundle.bundling import export_bundle
    from pocketquery.export.settings import ExportOptions, TrainingOptions
    from pocketquery.sdk.indexing.building import build_index
    from pocketquery.server.evaluation import encode_documents
    from pocketquery.server.modeling import SentenceEncoder

    teacher = SentenceEncoder.load("demo")
    vectors = encode_documents(teacher, corpus.documents, cache=WORK / "cache")
    row = {content(document): i for i, document in enumerate(corpus.documents)}
    build_index(
        corpus.documents,
        lambda texts: vectors[[row[text] for text in texts]],
        index,
        space_id=teacher.space_id,
        dimension=teacher.dimension,
    )
    asked = [query.text for query in corpus.training.queries]
    learnt = corpus.training_documents
    pieces = unique_texts(query_like_texts(learnt, _SEED))
    distill(
        teacher,
        unique_texts([*asked, *(text for text in pieces if len(text.split()) <= 20)]),
        WORK / "student",
        documents=[content(document) for document in learnt],
        student=StudentConfig(SHAPE),
        config=TrainingConfig(
            steps=1500, batch_size=64, learning_rate=2e-3, max_length=32, nearest=4, seed=_SEED
        ),
    )
    _write(queries, corpus.training.queries)
    step = len(corpus.held_out.queries) // GATE_QUERIES
    _write(gate, corpus.held_out.queries[::step][:GATE_QUERIES])
    export_bundle(
        WORK / "student",
        bundle,
        calibration_texts=asked,
        options=ExportOptions(training=TrainingOptions()),
        name=f"fleet-{SHAPE}",
        license="CC-BY-SA-4.0",
        progress=print,
    )


def _write(path: Path, queries: list[Query]) -> None:
    write_atomic(path, "".join(f"{query.id}\t{query.text}\n" for query in queries))
