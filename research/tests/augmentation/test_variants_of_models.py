"""Caches of variants and augmenters that have a model, and a run that reads a cache."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from pocketquery.client.views.augmenter_choice import choose
from pocketquery.server.corpus.groups import Group, GroupList
from pocketquery.server.objectives.augmenter_catalogue import CATALOGUE
from pocketquery.server.objectives.augmenter_identity import Identity
from pocketquery.server.objectives.query_bert import QueryBert, QueryBertConfig
from pocketquery.server.pretraining import Part
from pocketquery_research.augmentation.contextual import Contextual
from pocketquery_research.augmentation.fill import fill
from pocketquery_research.augmentation.variant_cache import VariantCache
from tests.tiny_models import bert_teacher, sentences


def test_a_language_reaches_the_augmenter(tmp_path: Path, models: Path) -> None:
    german = Contextual(model=str(models / "mlm"), language="de")
    with VariantCache(tmp_path / "cache") as cache:
        assert fill(cache, german, ["the castle rock"], lang="en").unchanged == 1


def test_a_model_is_its_content_not_its_place(models: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(models / "mlm", moved)
    original = Identity.of(Contextual(model=str(models / "mlm")))
    assert Identity.of(Contextual(model=str(moved), device="meta")) == original
    assert Identity.of(Contextual(model=str(moved), rate=0.2)) != original
    (moved / "model.safetensors").write_bytes(b"trained on")
    assert Identity.of(Contextual(model=str(moved))) != original


def test_a_folder_called_as_a_setting_is_says_nothing(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    augmenter = Contextual(model=str(models / "mlm"), language="en", teacher="demo")
    before = Identity.of(augmenter)
    for name in ("en", "demo"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_bytes(b"")
    assert Identity.of(augmenter) == before


def test_a_run_goes_by_what_a_cache_of_views_holds_and_not_by_its_place(tmp_path: Path) -> None:
    def record(path: Path) -> dict[str, Any]:
        choice = json.dumps([{"name": "cached", "path": str(path), "augmenter": "template"}])
        encoder = bert_teacher(layers=1, width=32)
        objective = QueryBert(encoder, QueryBertConfig(light=choice))
        part = Part(objective, GroupList([Group(text, (text,)) for text in texts], "queries"))
        return part.identity()

    path, texts = tmp_path / "views.sqlite", sentences(64)
    with VariantCache(path) as cache:
        fill(cache, choose("template", CATALOGUE), texts[:5])
    first = record(path)
    assert json.loads(json.dumps(first)) == first
    path = path.rename(tmp_path / "moved.sqlite")
    assert record(path)["views"] == first["views"]
    with VariantCache(path) as cache:
        fill(cache, choose("template", CATALOGUE), texts)
    assert record(path)["views"] != first["views"]
