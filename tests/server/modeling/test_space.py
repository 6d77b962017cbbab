from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import AutoConfig

from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.layout import Normalize
from pocketquery.server.modeling.space import unusual_settings
from tests.server.modeling.test_sentence_transformers_folders import (
    ENCODERS,
    WITHOUT_TYPES,
    configuration,
    saved,
    tokenizer,
)
from tests.tiny_models import bert_teacher

Change = Callable[[Path], None]


def _edited(name: str, **values: Any) -> Change:
    def change(folder: Path) -> None:
        path = folder / name
        content = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps(content | values))

    return change


def _in_another_order(folder: Path) -> None:
    for path in folder.rglob("*.json"):
        content = json.loads(path.read_text())
        if isinstance(content, dict) and path.name != "tokenizer.json":
            path.write_text(json.dumps(dict(reversed(content.items()))))


def _pickled(folder: Path) -> None:
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def _with_pooler(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    more = {"pooler.dense.weight": torch.ones(64, 64), "pooler.dense.bias": torch.ones(64)}
    numbers = {"embeddings.position_ids": torch.arange(64)}
    save_file(weights | more | numbers, folder / "model.safetensors", metadata={"format": "pt"})


def _named_as_masked_model(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    head = {"cls.predictions.bias": torch.ones(8)}
    renamed = {f"bert.{name}": value for name, value in weights.items()} | head
    save_file(renamed, folder / "model.safetensors", metadata={"format": "pt"})


def _normalized_twice(folder: Path) -> None:
    path = folder / "modules.json"
    chain = json.loads(path.read_text())
    path.write_text(json.dumps([*chain, chain[-1] | {"name": "again"}]))


def _pooling_as_newer_versions_write_it(folder: Path) -> None:
    config = {"embedding_dimension": 64, "pooling_mode": "mean", "include_prompt": True}
    (folder / POOLING).write_text(json.dumps(config))


def _renamed_limits(folder: Path) -> None:
    (folder / "sentence_bert_config.json").rename(folder / "sentence_roberta_config.json")


PROMPTS, POOLING = "config_sentence_transformers.json", "1_Pooling/config.json"

SAME: Mapping[str, Change] = {
    "empty prompts": _edited(PROMPTS, prompts={"query": "", "document": ""}),
    "null prompts": _edited(PROMPTS, prompts={"query": None}),
    "a prompt of no role": _edited(PROMPTS, prompts={"clustering": "c: "}),
    "another version": _edited(PROMPTS, __version__={"sentence_transformers": "9"}),
    "another length": _edited("sentence_bert_config.json", max_seq_length=20),
    "half precision named": _edited("config.json", torch_dtype="float16"),
    "labels and dropout": _edited("config.json", hidden_dropout_prob=0.3, id2label={"0": "a"}),
    "pooling's newer name": _pooling_as_newer_versions_write_it,
    "order of keys": _in_another_order,
    "pickled weights": _pickled,
    "unused weights": _with_pooler,
    "a masked model's names": _named_as_masked_model,
    "normalised twice": _normalized_twice,
    "limits under another name": _renamed_limits,
}

OTHER: Mapping[str, Change] = {
    "a query's prompt": _edited(PROMPTS, prompts={"query": "q: "}),
    "a document's prompt": _edited(PROMPTS, prompts={"document": "q: "}),
    "pooling": _edited(POOLING, pooling_mode="cls"),
    "heads": _edited("config.json", num_attention_heads=4),
    "activation": _edited("config.json", hidden_act="relu"),
    "norm": _edited("config.json", layer_norm_eps=1e-2),
    "lower case": _edited("tokenizer_config.json", do_lower_case=False),
}


# Settings of other architectures that no weight shows: each changes the vectors.
SETTINGS: Mapping[str, dict[str, Any]] = {
    "albert": {"num_hidden_layers": 3},
    "roberta": {"pad_token_id": 3},
    "modernbert": {
        "global_attn_every_n_layers": 1,
        "local_attention": 8,
        "local_rope_theta": 10.0,
        "norm_eps": 0.1,
    },
    "llama": {"rms_norm_eps": 0.1, "rope_scaling": {"rope_type": "linear", "factor": 4.0}},
    "xlnet": {"clamp_len": 2},
    "deberta-v2": {"position_biased_input": False},
}
FAR = {"factor": 8.0, "rope_type": "linear"}
# By the names of transformers 4, whichever is installed: the ids of documents are made of these.
NAMED = [
    ("bert", {"is_decoder": False, "tie_word_embeddings": False}, {}),
    ("distilbert", {"is_decoder": False, "n_heads": 6}, {"n_heads": 6}),
    ("llama", {"rope_theta": 10000.0, "rope_scaling": None}, {}),
    ("llama", {"rope_theta": 5e5, "rope_scaling": FAR}, {"rope_theta": 5e5, "rope_scaling": FAR}),
    ("qwen3", {"rope_theta": 1000000}, {"rope_theta": 1000000}),
    ("phi", {"partial_rotary_factor": 0.4}, {"partial_rotary_factor": 0.4}),
    ("gemma3_text", {"rope_local_base_freq": 10000.0, "rope_theta": 1000000.0}, {}),
    ("gemma3_text", {"rope_local_base_freq": 100.0}, {"rope_local_base_freq": 100.0}),
    ("modernbert", {"num_hidden_layers": 28, "global_rope_theta": 160000.0}, {}),
    (
        "modernbert",
        {"num_hidden_layers": 6, "global_attn_every_n_layers": 2, "local_rope_theta": 10.0},
        {"global_attn_every_n_layers": 2, "local_rope_theta": 10.0},
    ),
]
TEXTS = ["the king of the castle and the river rock " * 3, "trade sky"]


@pytest.mark.parametrize(("kind", "config", "expected"), NAMED)
def test_settings_have_one_name(
    tmp_path: Path, kind: str, config: dict[str, Any], expected: dict[str, Any]
) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind} | config))
    loaded = AutoConfig.from_pretrained(tmp_path)
    assert unusual_settings(loaded, ()) == expected
    loaded.save_pretrained(tmp_path / "saved")
    assert unusual_settings(AutoConfig.from_pretrained(tmp_path / "saved"), ()) == expected


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.parametrize("kind", SETTINGS)
def test_settings_of_every_architecture_change_the_id(tmp_path: Path, kind: str) -> None:
    tokens = tokenizer(types=kind not in WITHOUT_TYPES)
    folder = saved(tmp_path, configuration(kind, **ENCODERS[kind]), tokens)
    usual = SentenceEncoder.load(folder)
    config = json.loads((folder / "config.json").read_text())
    for written_by_5 in ("layer_types", "rope_parameters"):  # which it prefers to what is set here
        config.pop(written_by_5, None)
    for name, value in SETTINGS[kind].items():
        (folder / "config.json").write_text(json.dumps(config | {name: value}))
        changed = SentenceEncoder.load(folder)
        assert np.abs(changed.encode(TEXTS) - usual.encode(TEXTS)).max() > 1e-3
        assert changed.space_id != usual.space_id, name
    harmless = {"initializer_range": 0.5, "problem_type": "regression", "classifier_dropout": 0.3}
    (folder / "config.json").write_text(json.dumps(config | harmless))
    assert SentenceEncoder.load(folder).space_id == usual.space_id


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("space") / "model"
    bert_teacher().save(place)
    return place


def _changed(folder: Path, place: Path, change: Change) -> SentenceEncoder:
    SentenceEncoder.load(folder).save(place)
    change(place)
    return SentenceEncoder.load(place)


@pytest.mark.parametrize("name", SAME)
def test_what_leaves_the_vectors_leaves_the_id(folder: Path, tmp_path: Path, name: str) -> None:
    changed = _changed(folder, tmp_path / "model", SAME[name])
    assert changed.space_id == SentenceEncoder.load(folder).space_id


@pytest.mark.parametrize("name", OTHER)
def test_what_changes_the_vectors_changes_the_id(folder: Path, tmp_path: Path, name: str) -> None:
    changed = _changed(folder, tmp_path / "model", OTHER[name])
    assert changed.space_id != SentenceEncoder.load(folder).space_id


def test_the_head_is_part_of_the_space() -> None:
    def of(*modules: nn.Module) -> str:
        torch.manual_seed(0)
        layers = (nn.Linear(64, 64), nn.Linear(64, 64))
        head = nn.Sequential(layers[0], modules[0], layers[1], *modules[1:])
        return bert_teacher(head=head).space_id

    ids = [of(nn.Identity()), of(nn.Tanh()), of(nn.GELU()), of(nn.Identity(), nn.Tanh())]
    ids += [of(Normalize()), bert_teacher().space_id]
    assert len(set(ids)) == len(ids)


def test_a_saved_head_is_of_the_same_space(tmp_path: Path) -> None:
    """Loaded, a linear layer without an activation has an Identity."""
    head = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 64))
    saved = bert_teacher(head=head)
    saved.save(tmp_path / "model")
    assert SentenceEncoder.load(tmp_path / "model").space_id == saved.space_id


def test_the_ids_of_what_ships_stay() -> None:
    """Bundles and indexes hold the demo teacher's; a plain linear head was never named in one."""
    assert SentenceEncoder.load("demo").space_id == "space-c908b0599cb71548933014c3f35124fc"
