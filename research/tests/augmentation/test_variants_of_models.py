"""What a cache of variants knows of an augmenter that has a model."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pocketquery.server.augmentation import VariantCache, fill
from pocketquery.server.augmentation.identity import Identity
from pocketquery_research.augmentation.contextual import Contextual


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
