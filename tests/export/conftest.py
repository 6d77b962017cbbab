"""Fixtures of export: one tiny student and its graphs, shared by the tests that only read them."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from torch import nn

from pocketquery.export.onnx_graph import build_graph
from pocketquery.server.modeling import SentenceEncoder
from tests.tiny_models import bert_teacher, sentences, xlmr_teacher


@pytest.fixture(scope="session")
def student() -> SentenceEncoder:
    """A mean-pooled BERT without a head, wide enough for int8 to be meaningful."""
    return bert_teacher(layers=2, width=64)


@pytest.fixture(scope="session")
def headed_student() -> SentenceEncoder:
    """A BERT with Query-BERT's two-layer head and a query prompt."""
    head = nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.Linear(96, 48), nn.Identity())
    return bert_teacher(layers=2, width=64, head=head, prompts={"query": "query "})


@pytest.fixture(scope="session")
def cls_student() -> SentenceEncoder:
    """A BERT pooled at its first token."""
    return bert_teacher(layers=1, width=64, pooling="cls")


@pytest.fixture(scope="session")
def xlmr_student(tmp_path_factory: pytest.TempPathFactory) -> SentenceEncoder:
    """A cls-pooled XLM-R over its own sentencepiece model."""
    return xlmr_teacher(tmp_path_factory.mktemp("xlmr"))


@pytest.fixture(scope="session")
def float_model(student: SentenceEncoder) -> onnx.ModelProto:
    """The float graph of ``student``; copy it before changing it."""
    return build_graph(student)


@pytest.fixture(scope="session")
def token_ids(student: SentenceEncoder) -> list[list[int]]:
    """Sixty sentences as ids of ``student``."""
    ids: list[list[int]] = student.tokenizer(sentences(60))["input_ids"]
    return ids


@pytest.fixture(scope="session")
def student_folder(student: SentenceEncoder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``student`` saved."""
    folder = tmp_path_factory.mktemp("student") / "student"
    student.save(folder)
    return folder
