"""The infilling decoder: what it sees, what it is tied to, and its file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from pocketquery.sdk.errors import (
    ArtifactNotFoundError,
    CorruptArtifactError,
    SpaceMismatchError,
    UnsupportedVersionError,
)
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives.gur import Gur, GurConfig
from pocketquery.server.objectives.shared.seq2seq_decoder import (
    DECODER_FILE,
    GurDecoder,
    load_decoder,
    save_decoder,
)
from tests.tiny_models import bert_teacher, sentences


def decoder_of(encoder: SentenceEncoder, layers: int = 2) -> GurDecoder:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        gur = Gur(encoder, GurConfig(vector_size=16, max_length=32, decoder_layers=layers)).eval()
    assert gur.decoder is not None
    return gur.decoder


def memory_of(encoder: SentenceEncoder, count: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    found = encoder.tokenize(sentences(count))
    with torch.no_grad():
        return encoder.states(found["input_ids"], found["attention_mask"]), found["attention_mask"]


def test_a_position_sees_none_that_follows() -> None:
    encoder = bert_teacher(layers=1, width=32)
    decoder = decoder_of(encoder)
    memory, mask = memory_of(encoder)
    inputs = torch.randint(5, 60, (3, 6))
    states = decoder(inputs, memory, mask, encoder)
    for place in range(6):
        changed = inputs.clone()
        changed[:, place] = 4
        moved = (decoder(changed, memory, mask, encoder) - states).abs().sum(dim=(0, 2)) > 1e-5
        assert moved.tolist() == [False] * place + [True] * (6 - place)


def test_it_knows_the_order_of_what_was_written() -> None:
    encoder = bert_teacher(layers=1, width=32)
    decoder = decoder_of(encoder, layers=1)  # of two, the second would know by the mask alone
    memory, mask = memory_of(encoder, 1)
    one, other = (
        decoder(torch.tensor([[2, *pair, 7]]), memory, mask, encoder)[:, -1]
        for pair in ((5, 6), (6, 5))
    )
    assert (one - other).abs().max() > 1e-3


def test_it_sees_every_real_token_of_the_source_and_no_padding() -> None:
    encoder = bert_teacher(layers=1, width=32)
    decoder = decoder_of(encoder)
    memory, mask = memory_of(encoder)
    mask[:, -1] = 0
    memory.requires_grad_()
    decoder(torch.full((3, 1), 2), memory, mask, encoder).square().sum().backward()
    assert memory.grad is not None
    assert torch.equal(memory.grad.abs().sum(dim=-1) > 0, mask == 1)


def test_input_and_output_are_the_encoders_table() -> None:
    encoder = bert_teacher(layers=1, width=32)
    decoder = decoder_of(encoder)
    memory, mask = memory_of(encoder)
    table = encoder.backbone.get_input_embeddings().weight
    states = decoder(torch.full((3, 1), 2), memory.detach(), mask, encoder)
    logits = decoder.logits(states[:, 0], encoder)
    assert torch.allclose(logits, states[:, 0] @ table.T, atol=1e-6)  # the bias starts at 0
    logits[:, 7].sum().backward()  # type: ignore[no-untyped-call]
    assert table.grad is not None
    assert (table.grad.abs().sum(dim=1) > 0).nonzero().flatten().tolist() == [2, 7]
    assert all(
        parameter.shape[0] != len(table) or parameter.dim() == 1
        for parameter in decoder.parameters()
    )


@pytest.fixture
def saved(tmp_path: Path) -> tuple[Path, SentenceEncoder, GurDecoder]:
    encoder = bert_teacher(layers=1, width=32)
    decoder = decoder_of(encoder)
    encoder.save(tmp_path / "model")
    save_decoder(tmp_path / "model", decoder, encoder)
    return tmp_path / "model", encoder, decoder


def test_the_file_gives_the_same_decoder(
    saved: tuple[Path, SentenceEncoder, GurDecoder],
) -> None:
    folder, encoder, decoder = saved
    loaded_encoder = SentenceEncoder.load(folder)
    loaded = load_decoder(folder, loaded_encoder)
    assert loaded.shape == decoder.shape
    assert not loaded.training
    memory, mask = memory_of(encoder)
    inputs = torch.randint(5, 60, (3, 6))
    with torch.no_grad():
        ours = decoder(inputs, memory, mask, encoder)
        theirs = loaded(inputs, memory, mask, loaded_encoder)
    assert torch.equal(ours, theirs)


def test_saving_the_model_again_takes_the_decoder_away(
    saved: tuple[Path, SentenceEncoder, GurDecoder],
) -> None:
    folder, encoder, _ = saved
    encoder.save(folder)
    with pytest.raises(ArtifactNotFoundError, match=r'infilling.safetensors.*objective "gur"'):
        load_decoder(folder, encoder)


def test_another_encoders_decoder_is_refused(
    saved: tuple[Path, SentenceEncoder, GurDecoder],
) -> None:
    folder, _, _ = saved
    with pytest.raises(SpaceMismatchError, match="the decoder"):
        load_decoder(folder, bert_teacher(layers=1, width=32, seed=1))


@pytest.mark.parametrize("damage", ["truncated", "foreign", "lacking", "json"])
def test_a_damaged_file_is_refused(
    saved: tuple[Path, SentenceEncoder, GurDecoder], damage: str
) -> None:
    folder, encoder, _ = saved
    path = folder / DECODER_FILE
    state = load_file(path)
    if damage == "truncated":
        path.write_bytes(path.read_bytes()[:-100])
    elif damage == "foreign":
        save_file(state, path)
    elif damage == "json":
        save_file(state, path, {"pocketquery_decoder": "{"})
    else:
        about = json.dumps({"version": 1, "space_id": encoder.space_id})
        save_file(state, path, {"pocketquery_decoder": about})
    with pytest.raises(CorruptArtifactError, match="copy the model again"):
        load_decoder(folder, encoder)


def test_a_newer_version_is_refused(saved: tuple[Path, SentenceEncoder, GurDecoder]) -> None:
    folder, encoder, _ = saved
    state = load_file(folder / DECODER_FILE)
    save_file(state, folder / DECODER_FILE, {"pocketquery_decoder": '{"version": 2}'})
    with pytest.raises(UnsupportedVersionError, match="version 2; this release reads up to 1"):
        load_decoder(folder, encoder)
