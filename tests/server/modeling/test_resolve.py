from __future__ import annotations

from pathlib import Path

import pytest
from huggingface_hub.utils import filter_repo_objects  # type: ignore[attr-defined]

from pocketquery.sdk.errors import PocketQueryWarning, UnknownModelError
from pocketquery.server.modeling.resolve import HUB_FILES, HUB_UNUSED, model_name, resolve_model


def test_the_folder_that_the_demo_leaves_does_not_hide_its_teacher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    teacher = resolve_model("demo")
    (tmp_path / "demo").mkdir()
    assert resolve_model("demo") == teacher
    assert model_name("demo") == "all-MiniLM-L6-v2"
    assert resolve_model("./demo") == resolve_model(Path("demo")) == Path("demo")
    assert model_name(Path("demo")) == "demo"


@pytest.mark.parametrize("name", ["demo", "all-MiniLM-L6-v2"])
def test_a_model_in_the_working_folder_does_not_take_the_demo_teachers_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    teacher = resolve_model("demo")
    (tmp_path / name).mkdir()
    (tmp_path / name / "config.json").write_text("{}")
    with pytest.warns(PocketQueryWarning, match=f"^{name} is taken .*; write ./{name} for that"):
        assert resolve_model(name) == teacher
    assert resolve_model(f"./{name}") == Path(name)


def test_the_name_a_student_knows_its_teacher_by_leads_back_to_it() -> None:
    assert resolve_model(model_name("demo")) == resolve_model("demo")


def test_a_hub_name_is_found_in_the_local_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    repository, commit = tmp_path / "models--some--encoder", "a" * 40
    (repository / "snapshots" / commit).mkdir(parents=True)
    (repository / "snapshots" / commit / "config.json").write_text("{}")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    assert resolve_model("some/encoder") == repository / "snapshots" / commit
    with pytest.raises(UnknownModelError, match="neither a folder nor"):
        resolve_model("some/other")


def test_a_download_brings_all_that_is_read_and_no_more() -> None:
    read = ["config.json", "modules.json", "1_Pooling/config.json", "2_Dense/pytorch_model.bin"]
    read += ["2_Dense/config.json", "2_Dense/model.safetensors", "model.safetensors"]
    read += ["sentencepiece.bpe.model", "tokenizer.json", "vocab.txt", "0_Transformer/config.json"]
    rest = ["pytorch_model.bin", "tf_model.h5", "onnx/model.onnx", "openvino/openvino_model.bin"]
    rest += ["onnx/config.json", "README.md"]
    kept = filter_repo_objects(read + rest, allow_patterns=HUB_FILES, ignore_patterns=HUB_UNUSED)
    assert list(kept) == read
