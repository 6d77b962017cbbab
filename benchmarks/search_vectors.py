"""Real sentences and questions with the demo teacher's vectors, and many more vectors like them.

Sentences are of Wikipedia and SciFact where data/ is, else of the demo's passages; questions are
questions people asked. Encoding takes minutes, once: it is kept in runs/.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pocketquery.sdk.arrays import Floats

__all__ = ["QUERIES", "REAL", "Real", "grow", "grow_in_parts", "real_vectors"]

ROOT = Path(__file__).parents[1]
PUBLIC = ROOT / "data"
DEMO = ROOT / "packages/pocketquery-demo/pocketquery_demo/data"
REAL = 10_000
QUERIES = 300
_PART = 4096


class Real(NamedTuple):
    """What was encoded.

    Attributes:
        texts: sentences in a drawn order, those that were encoded first.
        documents: float32 (at most REAL, 384), of the first sentences.
        questions: at most QUERIES.
        queries: float32, their vectors.
    """

    texts: list[str]
    documents: Floats
    questions: list[str]
    queries: Floats


def grow(real: Floats, size: int) -> Floats:
    """``size`` vectors: the real ones, then mixtures of two with noise."""
    return np.concatenate(list(grow_in_parts(real, size)))


def grow_in_parts(real: Floats, size: int) -> Iterator[Floats]:
    """What :func:`grow` gives, some thousand vectors at a time."""
    generator = np.random.default_rng(0)
    for start in range(0, min(size, len(real)), _PART):
        yield real[start : min(start + _PART, size)]
    missing = max(size - len(real), 0)
    first, second = generator.integers(0, len(real), (2, missing))
    share = generator.uniform(0.1, 0.4, (missing, 1)).astype(np.float32)
    for start in range(0, missing, _PART):
        part = slice(start, min(start + _PART, missing))
        noise = generator.standard_normal((part.stop - start, real.shape[1]), np.float32)
        mixed = (1 - share[part]) * real[first[part]] + share[part] * real[second[part]]
        mixed += noise * np.float32(0.3 / np.sqrt(real.shape[1]))
        yield mixed / np.linalg.norm(mixed, axis=1, keepdims=True)


def real_vectors() -> Real:
    """Sentences and questions with their vectors, from the cache where they are in it."""
    generator = random.Random(0)
    texts = sorted(set(public_sentences() if PUBLIC.is_dir() else demo_sentences()))
    generator.shuffle(texts)
    questions = sorted(set(public_questions() if PUBLIC.is_dir() else demo_questions()))
    generator.shuffle(questions)
    encoded, questions = texts[:REAL], questions[:QUERIES]
    key = hashlib.sha256("\n".join(encoded + questions).encode()).hexdigest()[:16]
    cache = ROOT / "runs" / f"search-vectors-{key}.npz"
    if not cache.is_file():
        from pocketquery.server.modeling import SentenceEncoder

        teacher = SentenceEncoder.load("demo")
        cache.parent.mkdir(exist_ok=True)
        temporary = cache.with_suffix(".tmp.npz")
        np.savez(
            temporary,
            documents=teacher.encode(encoded, show_progress_bar=True),
            queries=teacher.encode(questions),
        )
        temporary.replace(cache)
    with np.load(cache) as arrays:
        return Real(texts, arrays["documents"], questions, arrays["queries"])


def public_sentences() -> Iterator[str]:
    for record in json_lines(PUBLIC / "enwiki_articles" / "articles.jsonl.gz"):
        for paragraph in record["paragraphs"]:
            yield from sentences(paragraph["text"])
    for record in json_lines(PUBLIC / "scifact" / "corpus.jsonl.gz"):
        yield from sentences(" ".join(record["sentences"]))


def public_questions() -> Iterator[str]:
    for record in json_lines(PUBLIC / "nq_open_queries" / "dev.jsonl.gz"):
        yield record["question"]


def demo_sentences() -> Iterator[str]:
    for record in json_lines(DEMO / "corpus.jsonl.gz"):
        yield from sentences(record["text"])


def demo_questions() -> Iterator[str]:
    with gzip.open(DEMO / "queries.tsv.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            yield line.rstrip("\n").split("\t")[1]


def sentences(text: str) -> Iterator[str]:
    for sentence in re.split(r"(?<=[.!?])\s+", text):
        if len(sentence) > 30:
            yield sentence


def json_lines(path: Path) -> Iterator[dict]:  # type: ignore[type-arg]
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)
