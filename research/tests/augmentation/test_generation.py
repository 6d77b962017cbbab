"""Sequence-to-sequence models that were taught to turn four sentences around."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from pocketquery.client.views.augmenters import AugResult
from pocketquery.sdk.errors import InvalidInputError, UnknownModelError
from pocketquery_research.augmentation.generation import BackTranslation, Paraphrase, StyleTransfer
from research.tests.augmentation.small_models import SENTENCES, backwards, sequence_model


def test_a_paraphrase_is_what_the_model_writes(models: Path) -> None:
    augmenter = Paraphrase(model=str(models / "reverse"), kind="bart", beams=1)
    made = augmenter.augment_batch(SENTENCES, random.Random(0))
    assert made == [AugResult(backwards(text), changed=True) for text in SENTENCES]
    beams = Paraphrase(model=str(models / "reverse"), kind="bart", beams=3)
    assert beams.augment_batch(SENTENCES, random.Random(0)) == made


def test_there_and_back_again(models: Path) -> None:
    augmenter = BackTranslation(there=str(models / "reverse"), back=str(models / "back"), beams=1)
    made = augmenter.augment_batch(SENTENCES, random.Random(0))
    assert made == [AugResult(text, changed=False) for text in SENTENCES]


@pytest.mark.parametrize("kind", ["bart", "t5", "pegasus"])
def test_each_kind_of_model_writes_and_is_sampled(kind: str, tmp_path: Path) -> None:
    folder = sequence_model(tmp_path / kind, kind=kind)
    augmenter = Paraphrase(model=str(folder), kind=kind, max_length=8)
    before = torch.random.get_rng_state()
    found = {augmenter.augment(SENTENCES[0], random.Random(seed)).text for seed in range(4)}
    assert len(found) == 4
    assert torch.equal(torch.random.get_rng_state(), before)
    assert augmenter.name == kind


@pytest.mark.parametrize(
    ("kind", "lost", "refused"),
    [
        ("pegasus", ".embed_positions.", False),  # sinusoids, computed: published ones lack them
        ("bart", ".embed_positions.", True),
        ("t5", ".final_layer_norm.", True),
    ],
)
def test_weights_that_are_missing_are_refused_unless_they_are_computed(
    kind: str, lost: str, refused: bool, tmp_path: Path
) -> None:
    weights = load_file(sequence_model(tmp_path, kind=kind) / "model.safetensors")
    kept = {name: tensor for name, tensor in weights.items() if lost not in name}
    assert len(kept) < len(weights)
    save_file(kept, tmp_path / "model.safetensors", metadata={"format": "pt"})
    augmenter = Paraphrase(model=str(tmp_path), kind=kind, max_length=8)
    if refused:
        with pytest.raises(UnknownModelError, match="drawn at random"):
            augmenter.augment(SENTENCES[0], random.Random(0))
    else:
        assert augmenter.augment(SENTENCES[0], random.Random(0)).text


def test_a_prompt_goes_before_the_text(tmp_path: Path) -> None:
    """A model that heard "king " before every text writes what it was taught; else it does not."""
    folder = sequence_model(
        tmp_path / "king",
        [f"king {text}" for text in SENTENCES] + SENTENCES,
        [backwards(text) for text in SENTENCES] + ["oxygen"] * len(SENTENCES),
    )
    options: dict[str, Any] = {"model": str(folder), "beams": 1}
    for prompt, expected in (("king ", backwards(SENTENCES[0])), ("", "oxygen")):
        for augmenter in (
            Paraphrase(kind="t5", prompt=prompt, **options),
            StyleTransfer(prompt=prompt, **options),
        ):
            assert augmenter.augment(SENTENCES[0], random.Random(0)).text == expected
    assert Paraphrase(kind="t5", **options)._prompted("x") == "paraphrase: x"
    assert Paraphrase(kind="bart", **options)._prompted("x") == "x"


def test_labels_can_be_changed() -> None:
    assert Paraphrase(model="m").strength == "light"
    assert Paraphrase(model="m", keeps_meaning=False).strength == "heavy"
    assert StyleTransfer(model="m").strength == "heavy"
    assert StyleTransfer(model="m", keeps_meaning=True).strength == "light"


@pytest.mark.parametrize("file", ["config.json", "model.safetensors", "tokenizer"])
def test_a_folder_that_lacks_something_says_what(file: str, tmp_path: Path) -> None:
    folder = sequence_model(tmp_path / "model")
    assert Paraphrase(model=str(folder)).available() == (True, "")
    for path in folder.iterdir():
        if path.name.startswith(file) or (file == "tokenizer" and path.name == "vocab.txt"):
            path.unlink()
    usable, missing = Paraphrase(model=str(folder)).available()
    assert not usable
    assert file in missing


def test_a_model_of_another_kind_is_refused(models: Path) -> None:
    with pytest.raises(UnknownModelError, match="expected a model of this kind"):
        Paraphrase(model=str(models / "mlm")).augment("water", random.Random(0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "gpt"}, "kind is 'gpt', expected one of bart, pegasus, t5"),
        ({"top_p": 0.0}, r"top_p is 0\.0"),
        ({"temperature": 0.0}, r"temperature is 0\.0"),
        ({"beams": -1}, "beams is -1"),
        ({"max_length": 0}, "max_length is 0"),
    ],
)
def test_settings_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Paraphrase(model="m", **options)
