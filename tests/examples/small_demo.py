"""What ``make demo`` leaves, in small: a student of the real teacher that learns in a minute.

Its encoder has one layer of width 128, so rounds train it ten times as fast, and lives in the space
of the demo's teacher. It is poor: what a page says of quality is not to be looked for here.
"""

from __future__ import annotations

import atexit
import gzip
import json
import shutil
import tempfile
from functools import cache
from pathlib import Path

__all__ = ["SmallDemo", "small_demo"]

_DOCUMENTS = 100


class SmallDemo:
    """Folders and files of the small demo."""

    def __init__(self, folder: Path) -> None:
        self.student = folder / "student"
        self.bundle = folder / "bundle"  # with a training step
        self.index = folder / "index"
        self.data = folder / "data"  # corpus, queries and judgements, as pocketquery-demo has them

    @property
    def queries(self) -> str:
        """As a table."""
        return gzip.decompress((self.data / "queries.tsv.gz").read_bytes()).decode()

    @property
    def qrels(self) -> str:
        """As a table."""
        return gzip.decompress((self.data / "qrels.tsv.gz").read_bytes()).decode()

    @property
    def corpus(self) -> str:
        """As JSON Lines."""
        return gzip.decompress((self.data / "corpus.jsonl.gz").read_bytes()).decode()


@cache
def small_demo() -> SmallDemo:
    """The small demo, made once a process."""
    folder = Path(tempfile.mkdtemp(prefix="small-demo-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    made = SmallDemo(folder)
    _make(made)
    return made


def _make(made: SmallDemo) -> None:
    from pocketquery.distill import StudentConfig, TrainingConfig, distill
    from pocketquery.export.bundle.bundling import export_bundle
    from pocketquery.export.settings import ExportOptions, TrainingOptions
    from pocketquery.sdk.index.documents import content
    from pocketquery.sdk.indexing.building import build_index
    from pocketquery.server.modeling import SentenceEncoder
    from pocketquery_demo.corpus import read_demo_corpus

    corpus = read_demo_corpus()
    learnt = corpus.training_documents
    documents = [one for one in corpus.documents if one not in learnt][:_DOCUMENTS]
    ids = {one.id for one in documents}
    judged = corpus.held_out.judgements
    queries = [query for query in corpus.held_out.queries if judged[query.id].keys() & ids]
    made.data.mkdir()
    lines = [json.dumps({"_id": one.id, "text": one.text, **one.metadata}) for one in documents]
    _write(made.data / "corpus.jsonl.gz", lines)
    _write(made.data / "queries.tsv.gz", [f"{query.id}\t{query.text}" for query in queries])
    lines = [f"{query.id}\t{id}\t1" for query in queries for id in judged[query.id]]
    _write(made.data / "qrels.tsv.gz", lines)

    teacher = SentenceEncoder.load("demo")
    distill(
        teacher,
        [query.text for query in corpus.training.queries[:1000]],
        made.student,
        documents=[content(one) for one in learnt[:50]],
        student=StudentConfig("1x128-linear", vocabulary_size=6000),
        config=TrainingConfig(
            steps=300, batch_size=64, learning_rate=2e-3, max_length=48, nearest=4, typo_share=0.0
        ),
    )
    build_index(
        documents,
        teacher.encode_document,
        made.index,
        space_id=teacher.space_id,
        dimension=teacher.dimension,
    )
    export_bundle(
        SentenceEncoder.load(made.student),
        made.bundle,
        calibration_texts=[query.text for query in queries],
        options=ExportOptions(training=TrainingOptions()),
        name="small",
        license="Apache-2.0",
    )


def _write(path: Path, lines: list[str]) -> None:
    path.write_bytes(gzip.compress("".join(line + "\n" for line in lines).encode(), mtime=0))
