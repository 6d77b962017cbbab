from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import normalizers, pre_tokenizers
from torch import nn

from pocketquery.distill import StudentConfig, TrainingConfig, distill
from pocketquery.distill.exportable import check_exportable
from pocketquery.export.onnx_graph import build_graph
from pocketquery.sdk.errors import PocketQueryWarning, UnknownModelError
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.layout import Normalize
from tests.tiny_models import bert_teacher, sentences, xlmr_teacher


def _with(change: Callable[[Any], None], **options: Any) -> SentenceEncoder:
    encoder = bert_teacher(layers=2, **options)
    change(encoder)
    return encoder


def _positions(encoder: Any) -> None:
    encoder.backbone.config.position_embedding_type = "relative_key"


def _decoder(encoder: Any) -> None:
    encoder.backbone.config.is_decoder = True


def _activation(encoder: Any) -> None:
    encoder.backbone.config.hidden_act = "prelu"


def _cuts_left(encoder: Any) -> None:
    encoder.tokenizer.truncation_side = "left"


def _normaliser(encoder: Any) -> None:
    encoder.tokenizer.backend_tokenizer.normalizer = normalizers.Lowercase()


def _words(encoder: Any) -> None:
    encoder.tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()


def _nothing(encoder: Any) -> None:
    pass


REFUSED: dict[str, tuple[Callable[[], SentenceEncoder], str]] = {
    "last token": (lambda: _with(_nothing, pooling="eos"), "eos"),
    "relative positions": (lambda: _with(_positions), "relative_key"),
    "decoder": (lambda: _with(_decoder), "decoder"),
    "activation": (lambda: _with(_activation), "prelu"),
    "long texts": (lambda: _with(_cuts_left), "left"),
    "normaliser": (lambda: _with(_normaliser), "Lowercase"),
    "words": (lambda: _with(_words), "tokenizer cannot be exported"),
    "head": (
        lambda: _with(_nothing, head=nn.Sequential(Normalize(), nn.Linear(64, 64))),
        "Normalize",
    ),
    "activation of the head": (
        lambda: _with(_nothing, head=nn.Sequential(nn.Linear(64, 64), nn.SiLU())),
        "SiLU",
    ),
    "approximation": (
        lambda: _with(_nothing, head=nn.Sequential(nn.Linear(64, 64), nn.GELU("tanh"))),
        "approximation",
    ),
    "prompt": (lambda: _with(_nothing, prompts={"query": "a" * 20_000}), "20000 characters"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_layers_that_export_refuses_are_not_cut(name: str) -> None:
    make, reason = REFUSED[name]
    with pytest.raises(UnknownModelError, match=reason):
        build_graph(make())
    with pytest.raises(UnknownModelError, match=reason):
        check_exportable(make())


def test_a_student_of_such_a_teacher_starts_from_the_built_in_encoder(tmp_path: Path) -> None:
    make, reason = REFUSED["last token"]
    with pytest.warns(PocketQueryWarning, match=f"starts from the built-in encoder.*{reason}"):
        report = distill(
            make(),
            sentences(8),
            tmp_path / "student",
            student=StudentConfig("2x384"),
            config=TrainingConfig(steps=1, batch_size=4),
        )
    assert report.start == "pocketquery-minilm-6mb"


def test_a_lowercasing_sentencepiece_tokenizer_is_refused(tmp_path: Path) -> None:
    encoder = xlmr_teacher(tmp_path)
    check_exportable(encoder)
    backend = encoder.tokenizer.backend_tokenizer
    backend.normalizer = normalizers.Sequence([normalizers.Lowercase(), backend.normalizer])
    with pytest.raises(UnknownModelError, match="lowercases"):
        check_exportable(encoder)


def test_padding_that_moves_positions_is_refused(tmp_path: Path) -> None:
    teacher = bert_teacher()
    teacher.tokenizer.padding_side = "left"
    with pytest.raises(UnknownModelError, match="padding on the left moves"):
        distill(teacher, sentences(8), tmp_path / "student", student=StudentConfig("2x64"))
