"""The reference student: 3x384 in the space of all-MiniLM-L6-v2, the encoder our figures measure.

    python benchmarks/reference/recipe.py --data DATA --output runs/reference/student

Recipe, seed and settings are all here; the log of the run that made the shipped bundle lies beside
this file. Killed and run again it continues where it was.

The test sets' queries are not in it: SQuAD's held-out articles are left out whole, and of SciFact
only the training claims are used (two test claims stand word for word among them; the quality
benchmark leaves those two out). The *documents* of the test sets are in it, as the documents to be
searched are at the hand of whoever distils for them.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from pocketquery.distill import StudentConfig, TrainingConfig, distill
from pocketquery.distill.texts import query_like_texts, unique_texts
from pocketquery.export.bundle.bundling import ExportReport, export_bundle
from pocketquery.export.quantization.ranking_gate import GateData
from pocketquery.sdk.index.documents import Document, content
from pocketquery.server.corpus import read_documents
from pocketquery.server.evaluation import encode_documents
from pocketquery.server.modeling import SentenceEncoder
from pocketquery_demo.corpus import is_held_out, read_demo_corpus

HERE = Path(__file__).resolve().parent
VECTORS = HERE.parents[1] / "runs" / "document_vectors"
SHAPE = "3x384"
CONFIG = TrainingConfig(
    steps=8000,
    batch_size=64,
    learning_rate=3e-4,
    warmup=0.05,
    max_length=96,
    nearest=4,
    random_documents=512,
    typo_share=0.35,
    typo_rate=0.08,
    train_vocabulary=False,
    seed=20,
    bfloat16=True,
    checkpoint_every=250,
)
# Texts drawn from each source, so that no source drowns the others.
FROM_DOCUMENTS = {
    "squad_dev_passages": 8_000,
    "scifact": 8_000,
    "cacm": 5_000,
    "cranfield": 5_000,
    "medline": 5_000,
    "enwiki_articles": 5_000,
}
RANKED_DOCUMENTS = 900  # of each corpus: the sample that the student learns to rank
FROM_CHAT = 6_000
FROM_DIALOGUES = 3_000
FROM_REQUESTS = 5_000
FROM_CAPTIONS = 3_000


def rows(path: Path, header: bool = True) -> Iterator[list[str]]:
    """Fields of a tab-separated file, gz or not."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8", newline="\n") as file:
        reader = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        if header:
            next(reader)
        yield from reader


def objects(path: Path) -> Iterator[dict[str, Any]]:
    """Objects of a gzipped JSON Lines file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def documents(data: Path) -> dict[str, list[Document]]:
    """Passages and abstracts of each corpus, those of held-out articles left out."""
    found = {
        name: list(read_documents(data / name / "corpus.jsonl.gz"))
        for name in FROM_DOCUMENTS
        if name != "enwiki_articles"
    }
    found["squad_dev_passages"] = [
        document for document in found["squad_dev_passages"] if not is_held_out(document.id)
    ]
    found["enwiki_articles"] = [
        Document(f"{entry['title']}#{number}", paragraph["text"], {"title": entry["title"]})
        for entry in objects(data / "enwiki_articles/articles.jsonl.gz")
        for number, paragraph in enumerate(entry["paragraphs"])
    ]
    return found


def queries(data: Path) -> Iterator[str]:
    """What people type and say: questions, requests, claims of training splits, chat messages."""
    squad = data / "squad_dev_passages"
    held_out = {q for q, d, _ in rows(squad / "qrels.tsv.gz", header=False) if is_held_out(d)}
    yield from (t for q, t in rows(squad / "queries.tsv.gz", header=False) if q not in held_out)
    yield from (t for _, t in rows(data / "scifact/queries.train.tsv", header=False))
    for name in ("dev", "efficientqa_dev"):
        yield from (str(o["question"]) for o in objects(data / f"nq_open_queries/{name}.jsonl.gz"))
    yield from (
        r[0] for r in rows(data / "nq_open_queries/efficientqa_test_questions.tsv.gz", False)
    )
    for row in rows(data / "stackexchange_english_pairs/pairs.tsv.gz"):
        yield from row[3:5]
    yield from (row[2] for row in rows(data / "docs_multilingual/en.tsv.gz"))
    rng = random.Random(CONFIG.seed)
    requests = [text for _, _, text in rows(data / "clinc150/train.tsv.gz")]
    captions = [text for row in rows(data / "stsb/en.train.tsv", False) for text in row[1:3]]
    dialogues = [
        text
        for dialogue in objects(data / "sgd_dialogues/dev.jsonl.gz")
        for speaker, text in dialogue["turns"]
        if speaker == "U"
    ]
    chat = [row[2] for row in rows(data / "ubuntu_irc_threads/train_messages.tsv.gz")]
    yield from rng.sample(requests, FROM_REQUESTS)
    yield from rng.sample(captions, FROM_CAPTIONS)
    yield from rng.sample(dialogues, FROM_DIALOGUES)
    yield from rng.sample(chat, FROM_CHAT)


def training_texts(data: Path, corpora: dict[str, list[Document]]) -> list[str]:
    """Queries, and pieces of the documents."""
    rng = random.Random(CONFIG.seed)
    texts = list(queries(data))
    for name, size in FROM_DOCUMENTS.items():
        pieces = unique_texts(query_like_texts(corpora[name], CONFIG.seed))
        texts += rng.sample(pieces, min(size, len(pieces)))
    return unique_texts(texts)


def export(student: Path, texts: list[str], bundle: Path) -> ExportReport:
    """The int8 bundle, gated on questions the student has learnt from."""
    demo = read_demo_corpus()
    rng = random.Random(CONFIG.seed)
    queries = rng.sample(demo.training.queries, 500)
    vectors = encode_documents(
        SentenceEncoder.load("demo"), demo.documents, cache=VECTORS, show_progress_bar=True
    )
    gate = GateData(
        queries,
        [document.id for document in demo.documents],
        vectors,
        {query.id: demo.training.judgements[query.id] for query in queries},
    )
    return export_bundle(
        student,
        bundle,
        calibration_texts=rng.sample(texts, min(512, len(texts))),
        gate=gate,
        name="reference-3x384",
        license="LicenseRef-measuring-only",
        progress=print,
    )


def main() -> None:
    """Collect the texts and distil."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--output", type=Path, default=Path("runs/reference/student"))
    parser.add_argument("--bundle", type=Path, default=HERE / "bundle")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--count", action="store_true", help="only count the texts")
    options = parser.parse_args()
    corpora = documents(options.data)
    rng = random.Random(CONFIG.seed)
    corpus = [
        document
        for part in corpora.values()
        for document in rng.sample(part, min(RANKED_DOCUMENTS, len(part)))
    ]
    texts = training_texts(options.data, corpora)
    print(f"{len(texts)} texts ({sum(map(len, texts)):,} characters), {len(corpus)} documents")
    if options.count:
        return
    report = distill(
        SentenceEncoder.load("demo"),
        texts,
        options.output,
        documents=[content(document) for document in corpus],
        student=StudentConfig(SHAPE, max_length=128),
        config=replace(CONFIG, workers=options.workers),
        device=options.device,
        show_progress_bar=True,
    )
    print(report)
    print(export(options.output, texts, options.bundle).manifest.quality)


if __name__ == "__main__":
    main()
