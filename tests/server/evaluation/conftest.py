"""A tiny teacher, a bundle in its space, and a collection: real ones, with random weights."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertModel, BertTokenizerFast

from pocketquery.sdk.bundle.manifest import Space
from pocketquery.server.modeling import SentenceEncoder
from tests.sdk.tiny_bundle import DIMENSION, vocabulary, write_tiny_bundle

WORDS = ["sea", "light", "sugar", "plants", "the", "how", "make", "café", "zurich"]


@pytest.fixture(scope="session")
def teacher_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of one layer and 16 dimensions, saved as the server saves models."""
    folder = tmp_path_factory.mktemp("teacher")
    (folder / "vocab.txt").write_text("\n".join(vocabulary()), encoding="utf-8")
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(vocabulary()),
        hidden_size=DIMENSION,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
    )
    tokenizer = BertTokenizerFast(str(folder / "vocab.txt"))
    encoder = SentenceEncoder(
        BertModel(config, add_pooling_layer=False), tokenizer, max_length=64, name="tiny"
    )
    encoder.save(folder / "model")
    return folder / "model"


@pytest.fixture(scope="session")
def teacher(teacher_folder: Path) -> SentenceEncoder:
    return SentenceEncoder.load(teacher_folder)


@pytest.fixture(scope="session")
def bundle_folder(teacher: SentenceEncoder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle that says it lives in the tiny teacher's space."""
    folder = tmp_path_factory.mktemp("bundle") / "tiny"
    return write_tiny_bundle(folder, space=Space(teacher.space_id, DIMENSION))


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """120 documents and 4 queries in BEIR's layout; one query has no relevant document."""
    folder = tmp_path_factory.mktemp("dataset")
    documents = [
        {"_id": f"d{i}", "title": WORDS[i % 9], "text": f"{WORDS[i % 7]} {WORDS[i % 5]} number {i}"}
        for i in range(120)
    ]
    queries = {"1": "how do plants make sugar 7", "2": "light 11", "3": "sea 3", "4": "nothing"}
    judged = [("1", "d7", 2), ("1", "d8", 1), ("2", "d11", 1), ("3", "d3", 1), ("3", "gone", 1)]
    (folder / "qrels").mkdir()
    lines = [json.dumps(document) for document in documents]
    (folder / "corpus.jsonl").write_text("\n".join(lines), encoding="utf-8")
    lines = [json.dumps({"_id": name, "text": text}) for name, text in queries.items()]
    (folder / "queries.jsonl").write_text("\n".join(lines), encoding="utf-8")
    lines = ["query-id\tcorpus-id\tscore", *("\t".join(map(str, row)) for row in judged)]
    (folder / "qrels" / "test.tsv").write_text("\n".join(lines), encoding="utf-8")
    return folder
