"""Folders that somebody else wrote, damaged in every way: one line that names the file."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import DistilBertConfig

from pocketquery.sdk.errors import PocketQueryError
from pocketquery.server.modeling import SentenceEncoder
from tests.tiny_models import bert_teacher

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 90868376\n"
VALUES: tuple[Any, ...] = (None, "text", -1, 10**12, 1.5, float("nan"), [], {}, True, "\ud800")
ABSENT = object()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("loading") / "model"
    head = nn.Sequential(nn.Linear(64, 32), nn.GELU())
    space = {"space_id": "space-0", "dimension": 32, "teacher": "a teacher"}
    bert_teacher(layers=1, head=head, prompts={"query": "q: "}, space=space).save(place)
    return place


def _refused(place: Path) -> str:
    """What loading says, or "" where the folder is as good as it was."""
    try:
        encoder = SentenceEncoder.load(place)
        encoder.encode_query(["water", "a longer text of more words"])
        encoder.encode_document(["water " * 100])
        assert encoder.space_id
    except PocketQueryError as error:
        said = str(error)
        assert str(place) in said
        assert "\n" not in said
        return said
    return ""


def _fields(content: Any) -> Iterator[tuple[Any, ...]]:
    named = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in named:
        yield (key,)
        if isinstance(value, dict):
            yield from ((key, inner) for inner in list(value)[:4])


def _check_every_value(folder: Path, tmp_path: Path, name: str) -> tuple[int, int]:
    """Tries and refusals, every field of a file with every value."""
    content, tries, refusals = json.loads((folder / name).read_text()), 0, 0
    place = tmp_path / "model"
    shutil.copytree(folder, place)
    for keys in _fields(content):
        for value in (ABSENT, *VALUES):
            changed = json.loads(json.dumps(content))
            holder = changed
            for key in keys[:-1]:
                holder = holder[key]
            if value is ABSENT:
                del holder[keys[-1]]
            else:
                holder[keys[-1]] = value
            (place / name).write_text(json.dumps(changed))
            said = _refused(place)
            names = (Path(name).name, "pocketquery.json")  # which counts the dimensions
            assert not said or any(each in said for each in names)
            tries, refusals = tries + 1, refusals + bool(said)
    return tries, refusals


SMALL = ("1_Pooling/config.json", "2_Dense/config.json", "pocketquery.json", "modules.json")


@pytest.mark.parametrize("name", SMALL)
def test_no_value_of_a_layouts_file_is_a_traceback(folder: Path, tmp_path: Path, name: str) -> None:
    tries, refusals = _check_every_value(folder, tmp_path, name)
    assert refusals > tries // 4


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "config.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "tokenizer.json",
        "sentence_bert_config.json",
        "config_sentence_transformers.json",
    ],
)
def test_no_value_of_any_other_file_is_one_either(folder: Path, tmp_path: Path, name: str) -> None:
    assert _check_every_value(folder, tmp_path, name)[0] > 20


@pytest.mark.parametrize("name", ["config.json", "modules.json", "tokenizer_config.json"])
@pytest.mark.parametrize(
    "data", [b"", b"{", b"null", b'"x"', b"\xff\xfe", b"[" * 100_000, POINTER], ids=repr
)
def test_a_file_that_is_no_json_object_is_named(
    folder: Path, tmp_path: Path, name: str, data: bytes
) -> None:
    place = tmp_path / "model"
    shutil.copytree(folder, place)
    (place / name).write_bytes(data)
    said = _refused(place)
    assert name in said
    assert ("Git LFS pointer" in said) == (data == POINTER)


@pytest.mark.parametrize(
    "name", ["model.safetensors", "2_Dense/model.safetensors", "tokenizer.json"]
)
@pytest.mark.parametrize("data", [b"", b"\0" * 1000, POINTER], ids=["empty", "zeros", "pointer"])
def test_a_large_file_that_is_damaged_is_named(
    folder: Path, tmp_path: Path, name: str, data: bytes
) -> None:
    place = tmp_path / "model"
    shutil.copytree(folder, place)
    (place / name).write_bytes(data)
    said = _refused(place)
    assert name.split("/")[-1] in said
    assert ("Git LFS pointer" in said) == (data == POINTER)


Weights = dict[str, torch.Tensor]
EMBEDDINGS, LAYER = "embeddings.word_embeddings.weight", "encoder.layer.0."


def _without(start: str) -> Callable[[Weights], Weights]:
    return lambda weights: {n: value for n, value in weights.items() if not n.startswith(start)}


def _with_a_bad_row(table: torch.Tensor) -> torch.Tensor:
    """Of a piece that no probe has."""
    table = table.clone()
    table[-1] = float("nan")
    return table


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda w: {f"_orig_mod.{n}": v for n, v in w.items()}, "_orig_mod.embeddings"),
        (lambda w: {f"module.{n}": v for n, v in w.items()}, "module.embeddings"),
        (_without(LAYER), "encoder.layer.0.attention"),
        (_without(EMBEDDINGS), EMBEDDINGS),
        (lambda w: w | {EMBEDDINGS: w[EMBEDDINGS][:-1]}, f"{EMBEDDINGS} (expected"),
        (lambda w: w | {EMBEDDINGS: w[EMBEDDINGS] * float("nan")}, "not finite"),
        (lambda w: w | {EMBEDDINGS: _with_a_bad_row(w[EMBEDDINGS])}, f"not finite: {EMBEDDINGS}"),
        (lambda w: {}, "lacks weights"),
    ],
    ids=["compiled", "parallel", "no layer", "no table", "short table", "nan", "a row", "none"],
)
def test_weights_that_are_not_the_configurations_are_named(
    folder: Path, tmp_path: Path, change: Callable[[Weights], Weights], said: str
) -> None:
    place = tmp_path / "model"
    shutil.copytree(folder, place)
    changed = change(load_file(place / "model.safetensors"))
    save_file(changed, place / "model.safetensors", metadata={"format": "pt"})
    assert said in _refused(place)


class _Hostile:
    """A pickle that makes a file where it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "2_Dense/pytorch_model.bin"])
def test_a_pickle_is_not_run(folder: Path, tmp_path: Path, name: str) -> None:
    place = tmp_path / "model"
    shutil.copytree(folder, place)
    (place / name).with_name("model.safetensors").unlink()
    torch.save({"linear.weight": _Hostile(tmp_path / "ran")}, place / name)
    assert "pytorch_model.bin" in _refused(place)
    assert not (tmp_path / "ran").exists()


def test_code_of_the_folder_is_not_run(folder: Path, tmp_path: Path) -> None:
    """Nor asked about: standard input is not read."""
    place = tmp_path / "model"
    shutil.copytree(folder, place)
    config = json.loads((place / "config.json").read_text())
    own = {"AutoConfig": "configuration_x.XConfig", "AutoModel": "modeling_x.XModel"}
    (place / "config.json").write_text(json.dumps(config | {"auto_map": own, "model_type": "x"}))
    for name in ("configuration_x.py", "modeling_x.py"):
        (place / name).write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    assert "auto_map" in _refused(place)
    chain = json.loads((place / "modules.json").read_text())
    chain[0]["type"] = "modeling_x.Transformer"
    (place / "modules.json").write_text(json.dumps(chain))
    assert "modeling_x.Transformer" in _refused(place)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", ["rope_parameters", "position_embedding_type"])
def test_positions_of_another_version_of_transformers_are_refused(
    folder: Path, tmp_path: Path, name: str
) -> None:
    """4 passes over the first, which 5 writes, and 5 over the second, which it took from BERT."""
    place = tmp_path / "model"
    shutil.copytree(folder, place)
    config = json.loads((place / "config.json").read_text())
    values = {"rope_parameters": {"rope_theta": 5e5}, "position_embedding_type": "relative_key"}
    if name == "position_embedding_type":
        config = DistilBertConfig().to_dict()  # which has none in 4, either
    (place / "config.json").write_text(json.dumps(config | {name: values[name]}))
    assert f'"{name}" is' in _refused(place)
    assert "install the version that wrote the model" in _refused(place)


def test_nothing_is_printed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    bert_teacher(layers=1).save(tmp_path / "model")
    assert SentenceEncoder.load(tmp_path / "model").space_id
    assert capfd.readouterr() == ("", "")
