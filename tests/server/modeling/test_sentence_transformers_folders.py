"""Folders as sentence-transformers writes them: its vectors to 1e-5, or a refusal by name."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules as parts
from torch import nn
from transformers import PreTrainedTokenizerFast

from pocketquery.sdk.errors import PocketQueryError
from pocketquery.server.modeling import SentenceEncoder
from tests.tiny_models import sentences, wordpiece_tokenizer, xlmr_teacher

TEXTS = [
    "water",
    "The castle of the KING and its river",
    "  rock sky? ",
    "Über café",
    "",
    " ".join(sentences(30)),
]
WIDTH, POSITIONS = 32, 64
WORDS = len(wordpiece_tokenizer())

Change = Callable[[Path], None]


def tokenizer(*, types: bool = True, lower: bool = True, **options: Any) -> Any:
    backend = wordpiece_tokenizer().backend_tokenizer
    backend.normalizer = transformers.BertTokenizerFast(
        tokenizer_object=backend, do_lower_case=lower
    ).backend_tokenizer.normalizer
    names = ["input_ids", "token_type_ids", "attention_mask"]
    specials = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]"}
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_input_names=names if types else [names[0], names[2]],
        **({"model_max_length": POSITIONS, "sep_token": "[SEP]"} | specials | options),
    )


def configuration(kind: str, **options: Any) -> Any:
    common = {
        "vocab_size": WORDS,
        "hidden_size": WIDTH,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 48,
        "max_position_embeddings": POSITIONS,
        "pad_token_id": 0,
        "initializer_range": 0.2,
    }
    if kind == "xlnet":  # which has no positions to set
        del common["max_position_embeddings"]
    return transformers.AutoConfig.for_model(kind, **(common | options))


def saved(
    folder: Path,
    config: Any,
    tokens: Any,
    *,
    pooling: Any = "mean",
    more: tuple[nn.Module, ...] = (parts.Normalize(),),
    **options: Any,
) -> Path:
    """A randomly drawn model as sentence-transformers saves it."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = transformers.AutoModel.from_config(config)
        for parameter in model.parameters():
            if parameter.ndim > 1:
                nn.init.normal_(parameter, 0, 0.2)
    model.save_pretrained(folder / "plain")
    tokens.save_pretrained(folder / "plain")
    pooled = parts.Pooling(WIDTH, pooling_mode=pooling)
    transformer = parts.Transformer(str(folder / "plain"))
    whole = SentenceTransformer(modules=[transformer, pooled, *more], device="cpu", **options)
    whole.save(str(folder / "model"))
    return folder / "model"


def edit(path: Path, **values: Any) -> None:
    content = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(content | values))


def unit(vectors: Any) -> Any:
    return np.asarray(vectors) / np.linalg.norm(vectors, axis=1, keepdims=True)


def check_equal(folder: Path) -> SentenceEncoder:
    """Vectors of texts, queries and documents are sentence-transformers'; says whose they are."""
    theirs, ours = SentenceTransformer(str(folder), device="cpu"), SentenceEncoder.load(folder)
    for method in ("encode", "encode_query", "encode_document"):
        expected = unit(getattr(theirs, method)(TEXTS))
        np.testing.assert_allclose(getattr(ours, method)(TEXTS), expected, atol=1e-5)
    return ours


ENCODERS: Mapping[str, dict[str, Any]] = {
    "bert": {},
    "electra": {"embedding_size": 24},
    "distilbert": {"dim": WIDTH, "n_layers": 2, "n_heads": 2, "hidden_dim": 48},
    "albert": {"embedding_size": 24},
    "mpnet": {"max_position_embeddings": POSITIONS + 2},
    "roberta": {"max_position_embeddings": POSITIONS + 1},
    "camembert": {"max_position_embeddings": POSITIONS + 1},
    "xlm-roberta": {"max_position_embeddings": POSITIONS + 1},
    "roberta-prelayernorm": {"max_position_embeddings": POSITIONS + 1},
    "modernbert": {"bos_token_id": 2, "cls_token_id": 2, "eos_token_id": 3, "sep_token_id": 3},
    "deberta-v2": {"type_vocab_size": 0, "relative_attention": True},
    "llama": {"num_key_value_heads": 2},
    "xlnet": {"d_model": WIDTH, "n_layer": 2, "n_head": 2, "d_inner": 48},
}
WITHOUT_TYPES = ("distilbert", "modernbert", "llama")


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.parametrize("kind", ENCODERS)
@pytest.mark.parametrize(
    ("pooling", "side"),
    [
        ("mean", "right"),
        pytest.param("cls", "left", marks=pytest.mark.slow),
        pytest.param("lasttoken", "right", marks=pytest.mark.slow),
    ],
)
def test_every_architecture_gives_their_vectors(
    tmp_path: Path, kind: str, pooling: str, side: str
) -> None:
    config = configuration(kind, **ENCODERS[kind])
    tokens = tokenizer(types=kind not in WITHOUT_TYPES, padding_side=side)
    encoder = check_equal(saved(tmp_path, config, tokens, pooling=pooling))
    assert encoder.max_length == POSITIONS


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        ("t5", {"d_model": WIDTH, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2}, "t5"),
        ("bart", {"d_model": WIDTH, "encoder_layers": 1, "decoder_layers": 1}, "bart"),
        ("gpt2", {"n_embd": WIDTH, "n_layer": 1, "n_head": 2}, "token types"),
        ("xlm", {"emb_dim": WIDTH, "n_layers": 1, "n_heads": 2, "pad_token_id": 2}, "token types"),
    ],
)
def test_other_architectures_are_refused_by_name(
    tmp_path: Path, kind: str, options: dict[str, Any], said: str
) -> None:
    model = transformers.AutoModel.from_config(configuration(kind, **options))
    model.save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    with pytest.raises(PocketQueryError, match=said) as caught:
        SentenceEncoder.load(tmp_path)
    assert str(tmp_path / "config.json") in str(caught.value)


@pytest.fixture(scope="module")
def plain_teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("teacher")
    prompts = {"query": "find: ", "document": "text: "}
    return saved(folder, configuration("bert"), tokenizer(lower=False), prompts=prompts)


def _named(name: str, **values: Any) -> Change:
    return lambda folder: edit(folder / name, **values)


def _only(name: str, **values: Any) -> Change:
    def change(folder: Path) -> None:
        (folder / "sentence_bert_config.json").unlink()
        edit(folder / name, **values)

    return change


def _all(*changes: Change) -> Change:
    def change(folder: Path) -> None:
        for each in changes:
            each(folder)

    return change


def _modules(**values: Any) -> Change:
    """``values`` in the last module's entry."""

    def change(folder: Path) -> None:
        chain = json.loads((folder / "modules.json").read_text())
        chain[-1] |= values
        (folder / "modules.json").write_text(json.dumps(chain))

    return change


def _with_dense(*kinds: str, **values: Any) -> Change:
    """The chain Transformer, Pooling, and then ``kinds``; ``values`` are of each Dense's config."""

    def change(folder: Path) -> None:
        chain = json.loads((folder / "modules.json").read_text())[:2]
        for place, kind in enumerate(kinds, start=2):
            path = folder / f"{place}_{kind}"
            path.mkdir(exist_ok=True)
            name = f"sentence_transformers.models.{kind}"
            chain.append({"idx": place, "name": str(place), "path": path.name, "type": name})
            if kind == "Dense":
                torch.manual_seed(place)
                dense = parts.Dense(WIDTH, WIDTH, activation_function=nn.Tanh())
                dense.save(str(path), safe_serialization=place % 2 == 0)
                edit(path / "config.json", **values)
            elif kind == "Dropout":
                edit(path / "config.json", dropout=0.1)
        (folder / "modules.json").write_text(json.dumps(chain))

    return change


BERT, POOLING = "sentence_bert_config.json", "1_Pooling/config.json"
PROMPTS = "config_sentence_transformers.json"
OLD_MODES = {f"pooling_mode_{name}": False for name in ("cls_token", "mean_tokens", "max_tokens")}


def _old_pooling(**values: bool) -> Change:
    def change(folder: Path) -> None:
        content = {"word_embedding_dimension": WIDTH} | OLD_MODES | values
        (folder / POOLING).write_text(json.dumps(content))

    return change


EQUAL: Mapping[str, Change] = {
    "as saved": lambda folder: None,
    "shorter": _named(BERT, max_seq_length=20),
    "length null": _named(BERT, max_seq_length=None),
    "tokenizer's length": _named("tokenizer_config.json", model_max_length=30),
    "no length anywhere": _named("tokenizer_config.json", model_max_length=10**30),
    "no length, as a float": _named("tokenizer_config.json", model_max_length=1e30),
    "lower case": _named(BERT, do_lower_case=True),
    "older defaults": _only(BERT, max_seq_length=40, do_lower_case=False),
    **{
        f"sentence_{kind}": _only(f"sentence_{kind}_config.json", max_seq_length=25)
        for kind in ("roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
    },
    "old pooling": _old_pooling(pooling_mode_cls_token=True),
    "old pooling of none": _old_pooling(),
    "pooling in a list": _named(POOLING, pooling_mode=["cls"]),
    "no prompts": _named(PROMPTS, prompts={}),
    "null prompts": _named(PROMPTS, prompts={"query": None, "document": None}),
    "another prompt": _named(PROMPTS, prompts={"query": "q: ", "sts": "s: "}),
    "default prompt": _named(PROMPTS, prompts={"query": "q: "}, default_prompt_name="query"),
    "default of no role": _named(PROMPTS, prompts={"sts": "s: "}, default_prompt_name="sts"),
    "unpooled without prompts": _all(
        _named(POOLING, include_prompt=False), _named(PROMPTS, prompts={})
    ),
    "dot of unit length": _named(PROMPTS, similarity_fn_name="dot"),
    "no normalize": _with_dense(),
    "dense": _with_dense("Dense", "Normalize"),
    "dense and dropout": _with_dense("Dropout", "Dense", "Dropout"),
    "normalize, dense": _with_dense("Normalize", "Dense", "Normalize"),
    "normalize twice": _with_dense("Normalize", "Normalize", "Dense", "Normalize", "Dense"),
    "two dense": _with_dense("Dense", "Dense", "Normalize"),
    "padding left": _named("tokenizer_config.json", padding_side="left"),
    "cls, padding left": _all(
        _named(POOLING, pooling_mode="cls"),
        _named("tokenizer_config.json", padding_side="left"),
    ),
    "lasttoken, padding left": _all(
        _named(POOLING, pooling_mode="lasttoken"),
        _named("tokenizer_config.json", padding_side="left"),
    ),
    "truncation left": _named("tokenizer_config.json", truncation_side="left"),
}


@pytest.mark.parametrize("name", EQUAL)
def test_every_setting_that_is_read_gives_their_vectors(
    plain_teacher: Path, tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(plain_teacher, folder)
    EQUAL[name](folder)
    encoder = check_equal(folder)
    again = tmp_path / "again"  # and so does what we save
    encoder.save(again)
    np.testing.assert_array_equal(check_equal(again).encode(TEXTS), encoder.encode(TEXTS))
    assert SentenceEncoder.load(again).space_id == encoder.space_id


REFUSED: Mapping[str, tuple[Change, str]] = {
    "two poolings": (_named(POOLING, pooling_mode=["cls", "mean"]), "cls and mean"),
    "two old poolings": (
        _old_pooling(pooling_mode_cls_token=True, pooling_mode_mean_tokens=True),
        "cls and mean",
    ),
    "max": (_named(POOLING, pooling_mode="max"), "pools by max"),
    "weighted mean": (_named(POOLING, pooling_mode="weightedmean"), "pools by weightedmean"),
    "unpooled prompt": (_named(POOLING, include_prompt=False), "include_prompt"),
    "dot": (
        _all(_with_dense(), _named(PROMPTS, similarity_fn_name="dot")),
        'similarity_fn_name": "dot"',
    ),
    "manhattan": (_named(PROMPTS, similarity_fn_name="manhattan"), "manhattan"),
    "cut vectors": (_named(PROMPTS, truncate_dim=16), "truncate_dim"),
    "cross-encoder": (_named(PROMPTS, model_type="CrossEncoder"), "CrossEncoder"),
    "unknown default": (_named(PROMPTS, default_prompt_name="other"), "default_prompt_name"),
    "too long": (_named(BERT, max_seq_length=500), "max_seq_length"),
    "layers' states": (
        _named(
            BERT,
            modality_config={
                "text": {"method": "forward", "method_output_name": ["hidden_states", 1]}
            },
        ),
        "modality_config",
    ),
    "processing": (
        _named(BERT, processing_kwargs={"text": {"max_length": 5}}),
        "processing_kwargs",
    ),
    "a later option": (_named(BERT, query_length=8), "query_length"),
    "a pooling's later option": (_named(POOLING, window=3), "window"),
    "a dense's later option": (_with_dense("Dense", use_residual=True), "use_residual"),
    "one name for two modules": (
        _all(_with_dense("Dense", "Dense"), _modules(name="2")),
        "two modules have the name '2'",
    ),
    "half precision": (_named(BERT, model_args={"torch_dtype": "float16"}), "torch_dtype"),
    "dense of tokens": (
        _with_dense("Dense", module_input_name="token_embeddings"),
        "module_input_name",
    ),
    "another activation": (
        _with_dense("Dense", activation_function="torch.nn.modules.activation.SiLU"),
        "SiLU",
    ),
    "dense too wide": (_with_dense("Dense", in_features=48), "expected"),
    "layer norm": (_with_dense("LayerNorm"), "LayerNorm"),
    "adapter": (_named("adapter_config.json", peft_type="LORA"), "adapter_config.json"),
    "code of its own": (
        _named("config.json", auto_map={"AutoModel": "modeling_x.X"}),
        "auto_map",
    ),
    "tokenizer of its own": (
        _named("tokenizer_config.json", auto_map={"AutoTokenizer": ["tokenization_x.X", None]}),
        "auto_map",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_change_a_vector_is_refused_by_name(
    plain_teacher: Path, tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(plain_teacher, folder)
    change, said = REFUSED[name]
    change(folder)
    with pytest.raises(PocketQueryError, match=said) as caught:
        SentenceEncoder.load(folder)
    assert str(folder) in str(caught.value)


def test_a_plain_folder_with_a_chat_template_is_refused(
    plain_teacher: Path, tmp_path: Path
) -> None:
    """sentence-transformers puts every text into it; where modules.json is, it does not."""
    plain = tmp_path / "plain"
    shutil.copytree(plain_teacher.parent / "plain", plain)
    check_equal(plain)
    edit(plain / "tokenizer_config.json", chat_template="{{ messages[0].content }}")
    with pytest.raises(PocketQueryError, match=r"tokenizer_config\.json has a chat template"):
        SentenceEncoder.load(plain)


@pytest.mark.parametrize("name", ["passage", "corpus"])
def test_prompts_of_documents_have_several_names(
    plain_teacher: Path, tmp_path: Path, name: str
) -> None:
    """As E5 has them; an empty one beside it, as sentence-transformers writes, changes nothing."""
    found = []
    for more in ({}, {"document": ""}):
        folder = tmp_path / f"model{len(more)}"
        shutil.copytree(plain_teacher, folder)
        edit(folder / PROMPTS, prompts={"query": "query: ", name: "passage: "} | more)
        theirs = SentenceTransformer(str(folder), device="cpu")
        ours = SentenceEncoder.load(folder)
        np.testing.assert_allclose(
            ours.encode_document(TEXTS), theirs.encode(TEXTS, prompt_name=name), atol=1e-5
        )
        found.append(ours.space_id)
    assert found[0] == found[1]


def test_a_sentencepiece_teacher_gives_their_vectors(tmp_path: Path) -> None:
    xlmr_teacher(tmp_path / "words").save(tmp_path / "model")
    (tmp_path / "model" / BERT).unlink()
    assert check_equal(tmp_path / "model").max_length == 64
