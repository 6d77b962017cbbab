"""Teachers that are only asked for vectors: functions, and models that no student is cut out of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules as parts
from transformers import AutoModel

from pocketquery import sdk
from pocketquery.distill import StudentConfig, TrainingConfig, distill
from pocketquery.distill.teachers import ModelTeacher, VectorTeacher, check_steady, load_teacher
from pocketquery.export.bundle.bundling import export_bundle
from pocketquery.sdk.arrays import AnyFloats
from pocketquery.sdk.errors import InvalidInputError, PocketQueryWarning, UnknownModelError
from pocketquery.server.modeling import SentenceEncoder, weights_fingerprint
from tests.tiny_models import bert_teacher, sentences, wordpiece_tokenizer, xlmr_teacher

CONFIG = TrainingConfig(steps=8, batch_size=16, max_length=32, nearest=2, random_documents=16)
TINY: dict[str, Any] = {"num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
ARCHITECTURES: dict[str, Any] = {
    "modernbert": transformers.ModernBertConfig(hidden_size=48, reference_compile=False, **TINY),
    "mpnet": transformers.MPNetConfig(hidden_size=48, max_position_embeddings=66, **TINY),
    "t5": transformers.T5Config(d_model=48, d_kv=24, d_ff=64, num_layers=2, num_heads=2),
    "qwen3": transformers.Qwen3Config(
        hidden_size=48, head_dim=24, num_key_value_heads=2, max_position_embeddings=64, **TINY
    ),
}


def folder_of(kind: str, place: Path) -> str:
    """A random model of ``kind`` as sentence-transformers saves it; the decoder pools its last."""
    if kind == "xlm-roberta":
        xlmr_teacher(place / "xlmr").save(place / "model")
        return str(place / "model")
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=wordpiece_tokenizer().backend_tokenizer,
        model_input_names=["input_ids", "attention_mask"],
        pad_token="[PAD]",
        unk_token="[UNK]",
    )
    config = ARCHITECTURES[kind]
    config.vocab_size = len(tokenizer)
    for name in ("pad", "cls", "sep", "bos", "eos"):
        setattr(config, f"{name}_token_id", {"pad": 0, "cls": 2, "bos": 2}.get(name, 3))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = (
            transformers.T5EncoderModel(config) if kind == "t5" else AutoModel.from_config(config)
        )
        for parameter in model.parameters():  # or every text has nearly one vector
            if parameter.dim() > 1:
                torch.nn.init.normal_(parameter, std=0.2)
    model.save_pretrained(place / "bare")
    tokenizer.save_pretrained(place / "bare")
    transformer = parts.Transformer(str(place / "bare"), max_seq_length=48)
    pooling = parts.Pooling(48, "lasttoken" if kind == "qwen3" else "mean")
    SentenceTransformer(modules=[transformer, pooling], device="cpu").save(str(place / "model"))
    return str(place / "model")


@pytest.mark.filterwarnings("ignore:.*script_method:DeprecationWarning")  # what ModernBERT imports
@pytest.mark.parametrize("kind", ["modernbert", "mpnet", "xlm-roberta", "t5", "qwen3"])
def test_any_architecture_teaches_and_its_student_is_exported(kind: str, tmp_path: Path) -> None:
    teacher = load_teacher(folder_of(kind, tmp_path))
    assert isinstance(teacher, ModelTeacher) == (kind == "t5")
    report = distill(
        teacher, sentences(), tmp_path / "student", start=bert_teacher(), config=CONFIG
    )
    student = SentenceEncoder.load(tmp_path / "student")
    export_bundle(
        student, tmp_path / "bundle", calibration_texts=sentences(40), name=kind, license="MIT"
    )
    encoder = sdk.load(tmp_path / "bundle")
    assert (encoder.space_id, encoder.dimension) == (teacher.space_id, teacher.dimension)
    assert report.start == "tiny-bert"
    held_out = sentences(240)[200:]
    own = teacher.encode(held_out)
    cosines = encoder.encode(held_out) @ own.T
    assert np.diagonal(cosines).mean() > cosines.mean() + 0.02  # its own vector is the nearer one


def test_without_a_start_it_is_the_built_in_encoder_and_that_is_said(tmp_path: Path) -> None:
    teacher = load_teacher(folder_of("mpnet", tmp_path))
    texts = ["the king of the castle", "sugar and a plant", "rock and water", "the sky"]
    config = replace(CONFIG, steps=1, batch_size=2)
    with pytest.warns(PocketQueryWarning, match='the architecture "mpnet" cannot be exported'):
        report = distill(teacher, texts, tmp_path / "student", config=config)
    assert (report.student, report.vocabulary) == ("2x384x736-pq4", 29000)
    assert "0" not in SentenceEncoder.load(tmp_path / "student").prompts


def asked(teacher: SentenceEncoder, **options: Any) -> VectorTeacher:
    return VectorTeacher(lambda texts, role: teacher.encode(texts), name="api", **options)


def test_a_killed_run_of_a_function_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    teacher, config = asked(bert_teacher()), replace(CONFIG, checkpoint_every=4)

    def weights(name: str) -> str:
        shape = StudentConfig("1x32")
        place = tmp_path / name
        distill(teacher, sentences(), place, start="words", student=shape, config=config)
        return weights_fingerprint(SentenceEncoder.load(place).state_dict())

    whole = weights("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pocketquery.distill.distillation.DistillationReport", None)
        with pytest.raises(TypeError):
            weights("killed")
    assert (tmp_path / "killed.work" / "checkpoint.pt").exists()
    assert weights("killed") == whole


def test_a_space_is_named_after_name_revision_and_vectors() -> None:
    first = asked(bert_teacher())
    assert first.space_id == asked(bert_teacher()).space_id
    others = [
        asked(bert_teacher(), revision="2"),
        asked(bert_teacher(seed=1)),
        asked(bert_teacher(width=32)),
    ]
    assert len({one.space_id for one in (first, *others)}) == 4

    def rounds(texts: list[str], role: str) -> AnyFloats:
        vectors = bert_teacher().encode(texts)
        return vectors + np.random.default_rng().normal(0, 1e-6, vectors.shape)

    assert VectorTeacher(rounds, name="api").space_id == first.space_id


def test_a_models_space_is_named_after_its_weights_and_prompts(tmp_path: Path) -> None:
    place = folder_of("t5", tmp_path)
    first = load_teacher(place)
    again = ModelTeacher(SentenceTransformer(place, device="cpu"), name="another name")
    assert again.space_id == first.space_id
    prompted = ModelTeacher(SentenceTransformer(place, device="cpu", prompts={"query": "q: "}))
    assert prompted.space_id != first.space_id


def test_a_teacher_that_gives_other_vectors_the_second_time_is_refused() -> None:
    rng = np.random.default_rng(0)
    teacher = VectorTeacher(lambda texts, role: rng.normal(size=(len(texts), 8)), name="dice")
    with pytest.raises(UnknownModelError, match="dice gives other vectors the second time"):
        check_steady(teacher)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (np.full((4, 8), np.nan), "not finite, for 'How do I reset"),
        (np.zeros((4, 8)), "a vector of zeros"),
        (np.ones((3, 8)), r"shape \(3, 8\) for 4 texts"),
        (np.ones(4), "a row for each"),
        (np.ones((4, 8), int), "gave int64"),
        ([["a"]], "gave <U1"),
    ],
)
def test_an_answer_that_is_no_vectors_is_refused(made: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        check_steady(VectorTeacher(lambda texts, role: made, name="api"))


def test_what_nobody_loads_is_refused_with_both_reasons(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "t5"}')
    with pytest.raises(UnknownModelError, match=r"has a decoder.*nor does sentence-transformers"):
        load_teacher(tmp_path)
