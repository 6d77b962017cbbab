"""The two encoders the federated experiment starts from: 3x384, with and without typing noise.

Both learn general questions and encyclopedia text only, none of the clients' domains. They are made
once, in ``runs/federated_quality``; killed and run again the work continues.
"""

from __future__ import annotations

import csv
import gzip
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from pocketquery.distill import TrainingConfig, distill
from pocketquery.distill.texts import query_like_texts, unique_texts
from pocketquery.export.bundle.bundling import export_bundle
from pocketquery.export.settings import ExportOptions, Objective, TrainingOptions
from pocketquery.sdk.index.documents import Document, content
from pocketquery.server.modeling import SentenceEncoder

__all__ = ["NOISE", "base_bundle"]

NOISE = {"plain": 0.0, "noisy": 0.35}
"""Share of the distillation's texts that are mistyped, by the encoder's name."""

_CONFIG = TrainingConfig(
    steps=1000,
    batch_size=64,
    learning_rate=3e-4,
    max_length=48,
    nearest=4,
    random_documents=512,
    typo_rate=0.08,
    train_vocabulary=False,
    checkpoint_every=100,
    seed=7,
)
_PIECES = 9_000
_RANKED_DOCUMENTS = 1_500


def base_bundle(name: str, objective: Objective, data: Path, work: Path) -> Path:
    """The bundle ``name`` of :data:`NOISE` with the training step of ``objective``.

    Args:
        name: ``plain`` or ``noisy``.
        objective: ``index_byol`` or ``byol``.
        data: the folder of the data sets.
        work: where students and bundles are kept.
    """
    bundle = work / f"{name}-{objective}"
    if not (bundle / "manifest.json").is_file():
        texts, documents = _general_texts(data)
        student = work / f"{name}-student"
        distill(
            SentenceEncoder.load("demo"),
            texts,
            student,
            documents=[content(document) for document in documents],
            config=replace(_CONFIG, typo_share=NOISE[name]),
            show_progress_bar=True,
        )
        export_bundle(
            student,
            bundle,
            calibration_texts=texts[::30],
            options=ExportOptions(training=TrainingOptions(objective)),
            name=f"federated-{name}",
            license="LicenseRef-measuring-only",
            progress=print,
        )
    return bundle


def _general_texts(data: Path) -> tuple[list[str], list[Document]]:
    """Training texts, and documents to rank."""
    rng = random.Random(_CONFIG.seed)
    articles = _articles(data)
    pieces = unique_texts(query_like_texts(articles, _CONFIG.seed))
    texts = unique_texts([*_questions(data), *rng.sample(pieces, min(_PIECES, len(pieces)))])
    return texts, rng.sample(articles, min(_RANKED_DOCUMENTS, len(articles)))


def _articles(data: Path) -> list[Document]:
    with gzip.open(data / "enwiki_articles/articles.jsonl.gz", "rt", encoding="utf-8") as file:
        entries = [json.loads(line) for line in file]
    return [
        Document(f"{entry['title']}#{number}", paragraph["text"], {"title": entry["title"]})
        for entry in entries
        for number, paragraph in enumerate(entry["paragraphs"])
    ]


def _questions(data: Path) -> Iterator[str]:
    """Natural Questions and Stack Exchange titles."""
    for name in ("dev", "efficientqa_dev"):
        path = data / f"nq_open_queries/{name}.jsonl.gz"
        with gzip.open(path, "rt", encoding="utf-8") as file:
            yield from (json.loads(line)["question"] for line in file)
    for row in _rows(data / "nq_open_queries/efficientqa_test_questions.tsv.gz"):
        yield row[0]
    for row in _rows(data / "stackexchange_english_pairs/pairs.tsv.gz", skip=1):
        yield from row[3:5]


def _rows(path: Path, skip: int = 0) -> Iterator[list[str]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
        reader = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        yield from list(reader)[skip:]
