"""Small models, made once for all tests of augmenters."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from research.tests.augmentation.small_models import (
    SENTENCES,
    backwards,
    masked_language_model,
    sequence_model,
)
from research.tests.augmentation.small_wordnet import write_wordnet
from tests.tiny_models import bert_teacher, sentences


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``mlm``, ``teacher``, ``reverse`` and ``back``, and queries and a WordNet."""
    folder = tmp_path_factory.mktemp("models")
    turned = [backwards(sentence) for sentence in SENTENCES]
    masked_language_model(folder / "mlm", steps=60)
    sequence_model(folder / "reverse", SENTENCES, turned)
    sequence_model(folder / "back", turned, SENTENCES)
    bert_teacher().save(folder / "teacher")
    rows = "".join(f"{number}\t{text}\n" for number, text in enumerate(sentences(60)))
    (folder / "queries.tsv").write_text("id\ttext\n" + rows, encoding="utf-8")
    write_wordnet(folder / "wordnet")
    return folder


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every socket is an error."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("asked the network")

    for name in ("socket", "create_connection", "getaddrinfo"):
        monkeypatch.setattr(socket, name, refuse)
